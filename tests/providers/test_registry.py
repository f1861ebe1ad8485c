"""The models of the files and of extensions, who reaches them, and where their keys come from."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indus_nb.base.errors import CredentialsError, ModelNotFoundError, UsageError
from indus_nb.base.messages import AssistantMessage
from indus_nb.base.streaming import GrowingMessage, StreamError
from indus_nb.models import Context, Model, StreamOptions
from indus_nb.models.apis.anthropic import AnthropicProvider
from indus_nb.models.apis.offline import OfflineProvider
from indus_nb.models.apis.openai import OpenAICompletionsProvider, OpenAIResponsesProvider
from indus_nb.models.catalog import builtin_models, find_model
from indus_nb.models.registry import ModelRegistry

SECRET = "sk-very-secret"
LOCAL = {"baseUrl": "http://localhost:11434/v1", "api": "openai-completions", "models": [{"id": "llama"}]}
REMOTE = {"baseUrl": "https://models.example/v1", "api": "openai-completions", "models": [{"id": "big"}]}
HAIKU = find_model("claude-haiku-4-5")

Make = Callable[..., ModelRegistry]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make_one(models: object = None, auth: object = None, **wishes: Any) -> ModelRegistry:
        for name, content, mode in (("models.json", models, 0o644), ("auth.json", auth, 0o600)):
            if content is not None:
                (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
                (tmp_path / name).chmod(mode)
        wishes = {"environment": {}, **wishes}
        return ModelRegistry(tmp_path / "models.json", tmp_path / "auth.json", **wishes)

    return make_one


def providers(**entries: object) -> dict[str, object]:
    return {"providers": entries}


# --- models.json -----------------------------------------------------------------------------------------------------


def test_without_files_the_built_in_models_are_there_without_a_problem(make: Make):
    assert make().models == list(builtin_models())
    assert make().problems == []


def test_a_provider_of_the_file_adds_its_models_with_the_documented_defaults(make: Make):
    registry = make(providers(ollama=LOCAL))
    assert registry.problems == []
    model = registry.with_id("llama", "ollama")
    assert registry.find("ollama/llama") == registry.find("llama", "ollama") == registry.default("ollama") == model
    assert (model.name, model.api, model.base_url) == ("llama", "openai-completions", LOCAL["baseUrl"])
    assert (model.context_window, model.max_tokens, model.input, model.reasoning) == (128_000, 16_384, ["text"], False)
    assert model.cost.usage(input=1000, output=1000).cost.total == 0
    assert [model for model in registry.models if model in builtin_models()] == list(builtin_models())


def test_comments_and_trailing_commas_are_read_and_texts_that_look_like_them_are_kept(make: Make):
    text = """\ufeff{ // mine
      "providers": {"ollama": {"baseUrl": "http://localhost:1/v1", "api": "openai-completions", // here,
        "models": [{"id": "a//b,]", "reasoning": true, "thinkingLevelMap": {"off": null, "xhigh": "max",}},],
    },},}"""
    registry = make(text)
    assert registry.problems == []
    model = registry.default("ollama")
    assert model.id == "a//b,]"
    assert model.thinking_levels == ("minimal", "low", "medium", "high", "xhigh")


def test_the_same_id_replaces_a_built_in_model_and_new_ids_are_added(make: Make):
    entry = {"models": [{"id": HAIKU.id, "contextWindow": 1000, "maxTokens": 10}, {"id": "claude-new"}]}
    registry = make(providers(anthropic=entry))
    replaced = registry.with_id(HAIKU.id, "anthropic")
    assert (replaced.context_window, replaced.max_tokens, replaced.name) == (1000, 10, HAIKU.id)
    assert (replaced.api, replaced.base_url) == (HAIKU.api, HAIKU.base_url)
    own = [model.id for model in registry.models if model.provider == "anthropic"]
    builtin = [model.id for model in builtin_models() if model.provider == "anthropic"]
    assert own == [*builtin, "claude-new"]


def test_an_override_changes_the_named_fields_of_built_in_models_alone(make: Make):
    registry = make(
        providers(
            anthropic={
                "baseUrl": "https://proxy.example",
                "headers": {"X-Team": "blue"},
                "modelOverrides": {
                    HAIKU.id: {"name": "Mine", "cost": {"output": 1}, "headers": {"X-One": "1"}, "id": "other"},
                    "nonesuch": {"name": "Nobody"},
                },
            }
        )
    )
    model = registry.with_id(HAIKU.id, "anthropic")
    expected = HAIKU.replace(
        name="Mine",
        base_url="https://proxy.example",
        headers={"X-Team": "blue", "X-One": "1"},
        cost=HAIKU.cost.replace(output=1),
    )
    assert model == expected
    other = registry.with_id("claude-opus-4-5", "anthropic")
    assert (other.base_url, other.headers) == ("https://proxy.example", {"X-Team": "blue"})
    long = registry.with_id("claude-haiku-5-5", "anthropic").cost.long_prompt
    assert long is not None
    (problem,) = registry.problems
    assert "modelOverrides.nonesuch" in problem


def test_fields_that_no_model_has_stay_out_of_what_is_told_of_it(make: Make):
    entry = {**LOCAL, "models": [{"id": "llama", "apiKey": SECRET, "note": SECRET}], "headers": {"X-Key": SECRET}}
    model = make(providers(ollama=entry)).default("ollama")
    assert SECRET not in json.dumps(model.to_wire()) + repr(model)
    assert model.headers == {"X-Key": SECRET}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{broken", "is no JSON"),
        ("[" * 5000, "is no JSON"),
        ("[]", "a JSON object"),
        ({"providers": []}, "`providers` must be an object"),
        (providers(x=[]), "`providers.x` is wrong"),
        (providers(x={}), "`providers.x` needs"),
        (providers(x={"baseUrl": "https://x.example"}), "`providers.x.models` is missing"),
        (providers(x={**REMOTE, "apiKey": 5}), "`providers.x.apiKey` is wrong"),
        (providers(x=REMOTE), "`providers.x.apiKey` is missing"),
        (providers(x={**LOCAL, "baseUrl": "ftp://x"}), "`providers.x.baseUrl` must"),
        (providers(x={**LOCAL, "baseUrl": "http://[x"}), "`providers.x.baseUrl` must"),
        (providers(x={**LOCAL, "api": "smoke-signals"}), "`providers.x.models.0.api` is none"),
        (providers(x={**LOCAL, "api": None}), "`providers.x.models.0.api` is missing"),
        (providers(x={**LOCAL, "models": [{"id": "a"}, {"name": "b"}]}), "`providers.x.models.1.id` is missing"),
        (providers(x={**LOCAL, "models": [{"id": "a\x1b[2J"}]}), "`providers.x.models.0.id` must"),
        (
            providers(x={**LOCAL, "models": [{"id": "a", "input": ["sound"]}]}),
            "`providers.x.models.0.input.0` is wrong",
        ),
        (providers(x={**LOCAL, "models": [{"id": "a", "headers": {"X": 1}}]}), "`providers.x.models.0.headers.X` is"),
        (providers(x={**LOCAL, "models": [{"id": "a", "compat": "yes"}]}), "`providers.x.models.0.compat` is wrong"),
        (providers(openai={"modelOverrides": {"gpt-5.5": {"maxTokens": "many"}}}), "`providers.openai.modelOverrides."),
        (providers(**{"a/b": LOCAL}), "`providers.a/b` is no name"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_field_and_all_else_is_there(
    make: Make, tmp_path: Path, content: object, words: str
):
    if isinstance(content, dict) and isinstance(content["providers"], dict):
        content["providers"]["good"] = LOCAL
    registry = make(content)
    (problem,) = registry.problems
    assert problem.startswith(f"{tmp_path / 'models.json'}: ")
    assert words in problem
    assert [model for model in registry.models if model in builtin_models()] == list(builtin_models())
    if isinstance(content, dict) and isinstance(content["providers"], dict):
        assert registry.default("good").id == "llama"


def test_the_files_are_not_read_before_they_are_needed_and_no_parser_is_loaded_for_plain_ones(
    make: Make, tmp_path: Path
):
    registry = make()
    (tmp_path / "models.json").write_text(json.dumps(providers(late=LOCAL)))
    assert registry.default("late").id == "llama"
    program = (
        "import sys; from pathlib import Path; from indus_nb.models.registry import ModelRegistry\n"
        f"registry = ModelRegistry(Path({str(tmp_path / 'models.json')!r}))\n"
        "assert registry.default('late') and registry.available()\n"
        "heavy = {'json5', 'anthropic', 'openai', 'httpx'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# --- finding and cycling ---------------------------------------------------------------------------------------------


def test_of_models_that_fit_alike_one_that_can_be_used_is_found(make: Make):
    assert make().find("sonnet-4-5").provider == "anthropic"
    assert make(environment={"OPENROUTER_API_KEY": "k"}).find("sonnet-4-5").provider == "openrouter"
    assert make(environment={"OPENROUTER_API_KEY": "k"}).find("claude-sonnet-4-5").provider == "anthropic"
    assert make().find("openai/gpt-oss-20b").provider == "groq"
    assert make().find("openrouter/openai/gpt-oss-120b").provider == "openrouter"


def test_available_are_the_models_with_a_key_and_those_that_need_none(make: Make):
    registry = make(
        providers(ollama=LOCAL, far={**REMOTE, "apiKey": "!false"}),
        {"xai": {"type": "api_key", "key": "k"}, "openai": {"type": "oauth", "access": SECRET}},
        environment={"GOOGLE_API_KEY": "k", "GROQ_API_KEY": "  "},
    )
    assert {model.provider for model in registry.available()} == {"google", "xai", "offline", "ollama", "far"}
    assert registry.first_available() == registry.default("google")
    assert make(providers(ollama=LOCAL), {}).first_available() == registry.default("ollama")


def test_the_users_own_models_are_listed_before_the_demonstration(make: Make):
    registry = make(providers(ollama=LOCAL), {})
    registry.register("late", {"baseUrl": "http://localhost:1", "api": "openai-completions", "models": [{"id": "m"}]})
    assert [model.provider for model in registry.available()][-2:] == ["late", "offline"]
    assert registry.models[-1].provider == "offline"
    assert registry.available()[0] == registry.first_available() == registry.default("ollama")


def test_nothing_but_the_offline_model_is_no_model_to_begin_with(make: Make):
    assert make().first_available() is None


def test_patterns_stand_for_usable_models_and_may_name_a_level(make: Make):
    registry = make(environment={"ANTHROPIC_API_KEY": "k"})

    def scope(pattern: str) -> list[tuple[str, str | None]]:
        return [
            (f"{scoped.model.provider}/{scoped.model.id}", scoped.thinking_level) for scoped in registry.scope(pattern)
        ]

    assert scope("*Haiku-4-5:low") == [("anthropic/claude-haiku-4-5", "low")]
    assert scope("openai/gpt-5.4*") == [("openai/gpt-5.4", None), ("openai/gpt-5.4-mini", None)]
    assert scope("haiku:high") == [("anthropic/claude-haiku-5-5", "high")]
    assert {name.split("/")[0] for name, _ in scope("*")} == {"anthropic"}
    assert scope("offline*") == [("offline/offline", None)]
    with pytest.raises(ModelNotFoundError):
        scope("nonesuch*")


def test_an_unknown_provider_is_refused_by_the_names_of_the_known_ones(make: Make):
    with pytest.raises(
        UsageError, match=r"Unknown provider: nope\. Known providers: anthropic, openai, .*ollama, offline"
    ):
        make(providers(ollama=LOCAL)).default("nope")


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_are_looked_up_in_order(make: Make):
    file = providers(anthropic={"apiKey": "of-models"})
    auth = {"anthropic": {"type": "api_key", "key": "of-auth"}}
    environment = {"ANTHROPIC_API_KEY": " of-environment \n", "ANTHROPIC_AUTH_TOKEN": "of-token"}
    given = {"anthropic": "given"}
    assert make(file, auth, api_keys=given, environment=environment).key_for(HAIKU) == "given"
    assert make(file, auth, environment=environment).key_for(HAIKU) == "of-auth"
    assert make(file, {}, environment=environment).key_for(HAIKU) == "of-environment"
    assert make(file, {}, environment={**environment, "ANTHROPIC_API_KEY": ""}).key_for(HAIKU) == "of-token"
    assert make(file, {}, environment={}).key_for(HAIKU) == "of-models"


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("google", "GEMINI_API_KEY"),
        ("google", "GOOGLE_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("xai", "XAI_API_KEY"),
        ("mistral", "MISTRAL_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
    ],
)
def test_each_provider_has_its_own_variable_and_gets_no_other_key(make: Make, provider: str, variable: str):
    registry = make(environment={variable: "k", "ANTHROPIC_API_KEY": "a"})
    assert registry.key_for(registry.default(provider)) == "k"
    with pytest.raises(CredentialsError, match=provider):
        make(environment={"ANTHROPIC_API_KEY": "a"}).key_for(registry.default(provider))


def test_a_key_of_the_file_is_a_variable_a_commands_output_or_itself_when_it_is_used(make: Make, tmp_path: Path):
    environment: dict[str, str] = {}
    registry = make(providers(far={**REMOTE, "apiKey": "MY_KEY"}), environment=environment)
    model = registry.default("far")
    assert registry.key_for(model) == "MY_KEY"
    environment["MY_KEY"] = "set later"
    assert registry.key_for(model) == "set later"

    entry = {**REMOTE, "apiKey": f"!cat {shlex.quote(f'{tmp_path}/key')}"}
    registry = make(providers(far=entry))
    (tmp_path / "key").write_text("first\n")
    assert registry.key_for(model) == "first"
    (tmp_path / "key").write_text("second\n")
    assert registry.key_for(model) == "second"


@pytest.mark.parametrize(
    ("command", "words"),
    [(f"!echo {SECRET}; exit 3", "status 3"), ("!true", "printed nothing"), ("!nonesuch", "status")],
)
def test_a_command_that_fails_is_named_without_what_it_says(make: Make, command: str, words: str):
    registry = make(providers(far={**REMOTE, "apiKey": command}))
    assert registry.problems == []
    with pytest.raises(CredentialsError, match=rf"`providers\.far\.apiKey` in .*{words}") as caught:
        registry.key_for(registry.default("far"))
    assert SECRET not in str(caught.value)
    assert caught.value.provider == "far"


def test_a_command_that_hangs_is_ended_with_its_children(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("indus_nb.models.keys._MAX_COMMAND_SECONDS", 0.3)
    command = f"!sleep 1000 & echo $! > {shlex.quote(f'{tmp_path}/child')}; wait"
    registry = make(providers(far={**REMOTE, "apiKey": command}))
    with pytest.raises(CredentialsError, match=r"took longer than 0\.3 seconds"):
        registry.key_for(registry.default("far"))
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child lives on")


def test_local_servers_do_without_a_key_and_get_one_that_is_there(make: Make):
    model = make(providers(ollama=LOCAL)).default("ollama")
    assert make(providers(ollama=LOCAL), environment={"ANTHROPIC_API_KEY": "a"}).key_for(model) is None
    assert make(providers(ollama={**LOCAL, "apiKey": "mine"})).key_for(model) == "mine"
    assert make(environment={}).key_for(find_model("offline")) is None


def test_a_key_that_is_stored_lets_the_file_do_without_one(make: Make):
    registry = make(providers(far=REMOTE), {"far": {"type": "api_key", "key": "stored"}})
    assert registry.problems == []
    assert registry.key_for(registry.default("far")) == "stored"


def test_a_key_that_is_stored_later_counts_at_once(make: Make):
    registry = make()
    assert not registry.has_key(HAIKU)
    make(auth={"anthropic": {"type": "api_key", "key": "late"}})
    assert registry.key_for(HAIKU) == "late"


def test_a_missing_key_names_the_ways_to_get_one(make: Make, tmp_path: Path):
    with pytest.raises(CredentialsError, match=r"anthropic: set ANTHROPIC_API_KEY.*--provider offline") as caught:
        make().key_for(HAIKU)
    assert caught.value.provider == "anthropic"
    registry = make(auth={"openai": {"type": "oauth", "access": SECRET}})
    with pytest.raises(CredentialsError, match=r"OPENAI_API_KEY.*auth\.json.*cannot be used") as caught:
        registry.key_for(registry.default("openai"))
    assert SECRET not in str(caught.value)


def test_a_key_that_cannot_be_one_is_refused_without_showing_it(make: Make):
    registry = make(environment={"ANTHROPIC_API_KEY": f"{SECRET}\nkey"})
    with pytest.raises(CredentialsError, match="set ANTHROPIC_API_KEY anew") as caught:
        registry.key_for(HAIKU)
    assert SECRET not in str(caught.value)


def test_keys_that_others_can_read_are_a_problem_and_are_used(make: Make, tmp_path: Path):
    registry = make(auth={"anthropic": {"type": "api_key", "key": SECRET}})
    assert registry.problems == []
    (tmp_path / "auth.json").chmod(0o640)
    (problem,) = registry.problems
    assert "mode 0640" in problem
    assert f"chmod 600 {tmp_path / 'auth.json'}" in problem
    assert registry.key_for(HAIKU) == SECRET


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f'{{"anthropic": {{"key": "{SECRET}" "x"}}', "is no JSON"),
        ([SECRET], "a JSON object"),
        ({"anthropic": SECRET}, "`anthropic` must be an object"),
        ({"anthropic": {"type": "api_key", "key": [SECRET]}}, r"`anthropic.key` must be a text"),
    ],
)
def test_a_broken_file_of_keys_is_a_problem_that_shows_none(make: Make, tmp_path: Path, content: object, words: str):
    registry = make(auth=content, environment={"ANTHROPIC_API_KEY": "k"})
    (problem,) = registry.problems
    assert str(tmp_path / "auth.json") in problem
    assert words in problem
    assert SECRET not in problem
    assert registry.key_for(HAIKU) == "k"


def test_keys_stand_in_no_representation_and_no_problem(make: Make):
    wrong = {**LOCAL, "apiKey": SECRET, "headers": {"X": SECRET}, "models": [{"id": SECRET * 2, "cost": SECRET}]}
    registry = make(providers(ollama={**wrong, "models": LOCAL["models"]}, wrong=wrong), api_keys={"openai": SECRET})
    config = registry._read_file().configs["ollama"]
    assert len(registry.problems) == 1
    for shown in (
        repr(registry),
        repr(config),
        str(registry.problems),
        repr(registry.provider_of(registry.default("ollama"))),
    ):
        assert SECRET not in shown


# --- who reaches a model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("anthropic-messages", AnthropicProvider),
        ("openai-completions", OpenAICompletionsProvider),
        ("openai-responses", OpenAIResponsesProvider),
        ("offline", OfflineProvider),
    ],
)
def test_a_model_is_reached_by_what_speaks_its_api(make: Make, api: str, kind: type):
    assert isinstance(make().provider_of(HAIKU.replace(api=api)), kind)


def test_an_api_that_nothing_speaks_is_refused_by_name(make: Make):
    with pytest.raises(UsageError, match=r"Unknown API: smoke\. Known APIs: anthropic-messages"):
        make().provider_of(HAIKU.replace(api="smoke"))


def greeting(model: Model, key: str | None) -> GrowingMessage:
    growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
    opened = growing.open_text()
    growing.append(opened.content_index, f"{json.dumps(model.headers)} {key}")
    return growing


async def greet(model: Model, context: Context, options: StreamOptions):
    growing = greeting(model, options.api_key)
    yield growing.start()
    yield growing.finish("stop")


async def asked(registry: ModelRegistry, model: Model) -> AssistantMessage:
    provider = registry.provider_of(model)
    provider.preload()
    options = StreamOptions(api_key=registry.key_for(model))
    events = [event async for event in provider.stream(model, Context("", []), options)]
    assert events[0].type == "start"
    return events[-1].error if isinstance(events[-1], StreamError) else events[-1].message


async def test_headers_are_made_of_variables_and_commands_when_they_are_sent(make: Make):
    registry = make(environment={"TEAM": "blue"})
    headers = {"X-Team": "TEAM", "X-Made": "!echo made", "X-Plain": "plain"}
    config = {"models": [{"id": "m"}], "headers": headers, "authHeader": True, "apiKey": "k", "stream": greet}
    registry.register("mine", config)
    sent = json.loads((await asked(registry, registry.default("mine"))).text.rpartition(" ")[0])
    assert sent == {"X-Team": "blue", "X-Made": "made", "X-Plain": "plain", "Authorization": "Bearer k"}


async def test_a_header_that_cannot_be_made_is_a_failed_answer(make: Make):
    registry = make()
    registry.register("mine", {"models": [{"id": "m"}], "headers": {"X": f"!echo {SECRET}; exit 1"}, "stream": greet})
    answer = await asked(registry, registry.default("mine"))
    assert answer.stop_reason == "error"
    assert "The header X of mine" in (answer.error_message or "")
    assert SECRET not in (answer.error_message or "")


# --- extensions ------------------------------------------------------------------------------------------------------


async def test_an_extension_adds_a_provider_with_a_stream_of_its_own_and_takes_it_back(make: Make):
    registry = make()
    registry.register("mine", {"name": "Mine", "models": [{"id": "m", "context_window": 10}], "stream": greet})
    model = registry.find("mine/m")
    assert (model.context_window, model.api) == (10, "mine")
    assert model in registry.available()
    assert (await asked(registry, model)).text == "{} None"

    class Whole:
        stream = staticmethod(greet)

        def preload(self) -> None:
            pass

    registry.register("mine", {"models": [{"id": "n"}], "stream": Whole(), "apiKey": "k"})
    assert [model.id for model in registry.models if model.provider == "mine"] == ["n"]
    assert (await asked(registry, registry.default("mine"))).text == "{} k"
    registry.unregister("mine")
    registry.unregister("mine")
    assert registry.models == list(builtin_models())


def test_registered_models_replace_a_providers_list_and_all_else_is_laid_over_it(make: Make):
    registry = make(environment={"ANTHROPIC_API_KEY": "a"})
    registry.register("anthropic", {"models": [{"id": "only"}], "base_url": "https://proxy.example"})
    assert [model.id for model in registry.models if model.provider == "anthropic"] == ["only"]
    registry.register("anthropic", {"base_url": "https://proxy.example"})
    assert {model.base_url for model in registry.models if model.provider == "anthropic"} == {"https://proxy.example"}
    assert registry.with_id(HAIKU.id, "anthropic").cost == HAIKU.cost
    assert registry.key_for(HAIKU) == "a"
    registry.unregister("anthropic")
    assert registry.with_id(HAIKU.id, "anthropic") == HAIKU


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "`models` is missing"),
        ({"models": [{"id": "m"}]}, "`models.0.api` is missing"),
        ({"models": [{}], "api": "offline"}, "`models.0.id` is missing"),
        ({"models": [{"id": "m"}], "api": "smoke", "baseUrl": "http://x"}, "`models.0.api` is none"),
        ({"baseUrl": 5}, "`baseUrl` is wrong"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_and_changes_nothing(make: Make, config: Any, words: str):
    registry = make()
    registry.register("mine", {"models": [{"id": "m"}], "stream": greet})
    with pytest.raises(UsageError, match="'other' cannot be registered") as caught:
        registry.register("other", config)
    assert words in str(caught.value)
    assert [model.provider for model in registry.models if model not in builtin_models()] == ["mine"]
