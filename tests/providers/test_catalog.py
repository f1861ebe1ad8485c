"""The model catalogue: its data, and how a wish finds a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indus_nb.base.errors import ModelNotFoundError, UsageError
from indus_nb.models import catalog
from indus_nb.models.ambient import finds_credentials
from indus_nb.models.apis.adapters import ADAPTERS
from indus_nb.models.catalog import Model, builtin_models, default_model, find_model, model_with_id


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("claude-haiku-4-5", "claude-haiku-4-5"),
        ("anthropic/claude-haiku-4-5", "claude-haiku-4-5"),
        ("Anthropic/Claude-Haiku-4-5", "claude-haiku-4-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001"),
        ("claude-sonnet-4", "claude-sonnet-4-20250514"),
        ("claude-opus-4-8-20260601", "claude-opus-4-8-20260601"),
        ("opus-4-6", "claude-opus-4-6"),
        ("Opus 4.6", "claude-opus-4-6"),
        ("opus-5", "claude-opus-5"),
        ("haiku", "claude-haiku-5-5"),
        ("sonnet-4", "claude-sonnet-4-6"),
        ("gemini", "gemini-3.5-flash"),
        ("claude-", "claude-opus-5-5"),
        ("anthropic/claude", "claude-opus-5-5"),
        ("offline", "offline"),
        ("offline/offline", "offline"),
    ],
)
def test_a_wish_finds_its_model(wanted, found):
    assert find_model(wanted).id == found


def test_a_snapshot_that_is_not_listed_has_the_facts_of_its_model():
    snapshot, model = find_model("claude-opus-4-8-20260601"), find_model("claude-opus-4-8")
    assert snapshot == model.replace(id="claude-opus-4-8-20260601")


@pytest.mark.parametrize("part", ["x", "v", "ex", "ai", "no", "vertex", "5-mi", "son", "usion", "aude-haiku-4-5"])
def test_letters_within_a_word_and_the_name_of_a_place_choose_no_model(part: str):
    with pytest.raises(ModelNotFoundError):
        find_model(part)


def test_a_part_of_a_word_brings_the_models_that_have_it():
    with pytest.raises(ModelNotFoundError, match=r"Did you mean anthropic/claude-sonnet-5-5 or anthropic/claude-sonn"):
        find_model("son")


def test_a_word_is_found_in_front_of_its_version():
    qwen = builtin_models()[0].replace(id="qwen3:8b", name="qwen3:8b", provider="ollama")
    assert find_model("qwen", among=[qwen]) == find_model("ollama/qwen", among=[qwen]) == qwen


@pytest.mark.parametrize(
    ("wanted", "provider", "shown"),
    [
        ("nope", "anthropic", "anthropic/nope"),
        ("anthropic/nope", None, "anthropic/nope"),
        ("nope", None, "nope"),
        ("gpt-2", "openai", "openai/gpt-2"),
        ("", "anthropic", "anthropic/"),
        ("haiku", "offline", "offline/haiku"),
    ],
)
def test_an_unknown_model_is_named_as_it_was_asked_for(wanted, provider, shown):
    with pytest.raises(ModelNotFoundError) as caught:
        find_model(wanted, provider)
    assert str(caught.value).startswith(f"Model not found: {shown}.")
    assert caught.value.wanted == shown


def test_a_misspelt_model_brings_suggestions():
    with pytest.raises(ModelNotFoundError, match=r"Did you mean anthropic/claude-opus-4-6\b"):
        find_model("claude-ospu-4-6")


def test_each_provider_has_a_default_and_an_unknown_one_is_refused():
    assert default_model("anthropic").provider == "anthropic"
    assert default_model("offline").id == "offline"
    with pytest.raises(UsageError, match=r"Unknown provider: nope\. Known providers: anthropic, .*offline\."):
        default_model("nope")


def test_every_model_is_whole_and_found_by_its_own_name():
    models = builtin_models()
    assert len({(model.provider, model.id) for model in models}) == len(models)
    for model in models:
        assert find_model(f"{model.provider}/{model.id}") == model_with_id(model.id, model.provider) == model
        assert find_model(model.id, model.provider) == model
        assert 0 < model.max_tokens < model.context_window
        if model.provider == "anthropic":
            prices = model.cost  # of all others some are not known for sure
            assert 0 < prices.cache_read < prices.input < prices.cache_write < prices.output
            assert (model.thinking_style == "effort") == (model.top_effort != "high")


def test_the_offline_model_costs_nothing_and_claims_nothing():
    model = find_model("offline")
    assert "no language model" in model.name
    assert model.cost.usage(input=10**9, output=10**9).cost.total == 0
    assert model.reasoning
    assert model.input == ["text", "image"]


def test_long_prompts_have_their_own_price_for_every_token():
    cost = find_model("claude-haiku-5-5").cost
    assert cost.usage(input=100_000, output=1000).cost.total == pytest.approx(0.01 + 0.0005)
    long = cost.usage(input=50_001, output=1000, cache_read=40_000, cache_write=10_000)
    assert long.cost.output == pytest.approx(0.0025)
    assert long.cost.cache_read == pytest.approx(0.002)
    assert long.total_tokens == 101_001


def test_every_provider_is_reached_over_https_in_a_way_that_is_known():
    for model in builtin_models():
        if model.provider != "offline":
            # The address of a cloud is that of a region or of a resource.
            assert model.base_url.startswith("https://") or (finds_credentials(model.api) and not model.base_url)
            assert model.api in ADAPTERS
            assert model.thinking_levels


def test_an_id_with_a_slash_is_found_by_itself_when_its_beginning_is_no_provider_that_has_it():
    assert find_model("openai/gpt-oss-20b").provider == "groq"
    assert find_model("groq/openai/gpt-oss-20b").provider == "groq"
    assert find_model("openai/gpt-5.4").provider == "openai"


def test_the_list_is_what_its_file_says_though_nobody_checks_it() -> None:
    providers = json.loads((Path(catalog.__file__).with_name("models.json")).read_text())
    shared = ("api", "baseUrl", "compat")
    facts = {model["id"]: model for model in providers["anthropic"]["models"]}
    assert list(builtin_models()) == [
        Model.from_wire(
            {
                "provider": name,
                **{key: provider.get(key) for key in shared},
                **facts.get(model.pop("like", None), {}),
                **model,
            }
        )
        for name, provider in providers.items()
        for model in provider["models"]
    ]
