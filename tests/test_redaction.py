"""Secrets: every kind of them is hidden in every place where it may stand, and what only resembles one is kept."""

from __future__ import annotations

import json

import pytest
from work import cpu_stays_in_proportion

from indus_nb.safety.redaction import hide, hide_known, hide_named, hide_shapes, is_secret_name, secrets_of, shown_url

SHAPES = {
    "Anthropic": "sk-ant-REDACTED",
    "OpenAI": "sk-proj-A1b2C3d4E5",
    "OpenAI, old": "sk-0123456789abcdef",
    "letters only": "sk-abcdefghijklmnop",
    "Stripe": "sk_live_0123456789ab",
    "GitHub": "ghp_0123456789abcdef",
    "GitHub, refresh": "ghr_0123456789abcdefghij",
    "GitHub, fine": "github_pat_0123456789abcdefghij",
    "GitLab": "glpat-0123456789abcdefghij",
    "Hugging Face": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "Slack": "xoxb-0123456789-abcdef",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS, temporary": "ASIAIOSFODNN7EXAMPLE",
    "Google": "AIza0123456789abcdefghijklmnopqrstuvwxy",
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
}
PLACES = {
    "alone": "{}",
    "in prose": "The key is {}, keep it.",
    "in code": "client = Client('{}')",
    "in JSON": '{{"a": ["{}"]}}',
    "in a command": "run --with {} && echo done",
    "in a URL": "https://example.org/v1?k={}&page=2",
    "on a line": "first\n{}\nlast",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES)
def test_what_looks_like_a_key_is_hidden_wherever_it_stands(secret: str, place: str) -> None:
    shown = hide_shapes(place.format(secret), mark="<hidden>")
    assert shown == place.format("<hidden>")
    assert hide_shapes(shown, mark="<hidden>") == shown


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abc.def",
        "sk-proj-abcd.efgh.ijkl",
        "sk-abcdef.ghijk12345",
        "gho_abcd.efgh.ijklm",
        "hf_abc.d3fghijklmn",
        "github_pat_11ABC.defghijk",
    ],
)
def test_a_key_with_dots_is_hidden_as_a_whole(secret: str) -> None:
    assert hide_shapes(f"It is {secret}.", mark="<hidden>") == "It is <hidden>."


@pytest.mark.parametrize("secret", ["sk-abc_def-ghi-jkl-mno", "hf_abcdefghijklmnop", "github_pat_11ABC.defghijk"])
def test_what_begins_like_a_key_is_hidden_where_a_text_only_informs(secret: str) -> None:
    assert hide(f"It is {secret}, keep it") == "It is …, keep it"


def test_functions_named_like_keys_are_kept_in_code_that_runs_again() -> None:
    assert hide_shapes("hf_hub_download(); import sk_learn") == "hf_hub_download(); import sk_learn"


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer leaked-1",
        "{'Authorization': 'Bearer leaked-1'}",
        "authorization: basic leaked-1=",
        "X-API-Key: leaked-1",
        "postgres://bob:leaked-1@host/db",
        "-----BEGIN RSA PRIVATE KEY-----\nleaked-1\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nleaked-1\nleaked-1",
    ],
)
def test_what_surrounds_a_secret_gives_it_away(text: str) -> None:
    assert "leaked-1" not in hide_shapes(text)


@pytest.mark.parametrize(
    "text",
    [
        "api_key = f'leaked-1'",
        "api_key: str = 'leaked-1'",
        "openai.api_key = 'leaked-1'",
        'headers = {"token": \'leaked-1\', "kind": 1}',
        'os.environ["MY_TOKEN"] = "leaked-1"',
        'password = """leaked-1"""',
        "user, password = 'bob', 'leaked-1'",
        "os.environ.setdefault('API_TOKEN', 'leaked-1')",
        "('model', 'api_key', 'leaked-1')",
        "https://api.example/v1?model=m&api_key=leaked-1",
        "%env MY_API_KEY=leaked-1",
        "%set_env api_key leaked-1",
        "!export TOKEN=leaked-1; make",
        "DB_PASSWORD=leaked-1",
        "ValueError: the password=leaked-1 is wrong",
    ],
)
def test_what_is_assigned_to_a_secrets_name_is_hidden(text: str) -> None:
    shown = hide_named(text)
    assert "leaked-1" not in shown
    assert hide_named(shown) == shown
    assert "leaked-1" not in hide(text)


KNOWN = "pä$s \"word'/1"


@pytest.mark.parametrize(
    "text",
    [
        f"the key {KNOWN} is wrong",
        f"Bearer {KNOWN}",
        repr(f"key={KNOWN}"),
        json.dumps({"key": KNOWN}),
        json.dumps({"key": KNOWN}, ensure_ascii=False),
        "https://example.org/?k=p%C3%A4%24s%20%22word%27%2F1",
    ],
)
@pytest.mark.parametrize("given", [KNOWN, f" {KNOWN} ", f"Bearer {KNOWN}"])
def test_a_known_value_is_hidden_however_it_is_quoted(text: str, given: str) -> None:
    shown = hide_known(text, [given])
    assert "***" in shown
    assert "word" not in shown


def test_of_known_values_that_hold_each_other_the_longest_is_hidden_whole() -> None:
    assert hide_known("a 0123456789abc b", ["0123456", "0123456789abc", "789abcd"]) == "a *** b"


def test_short_values_are_left_alone_unless_the_caller_says_otherwise() -> None:
    assert hide_known("none of ollama", ["none", "ollama", ""]) == "none of ollama"
    assert hide_known("none of ollama", ["ollama"], min_characters=6) == "none of ***"


def test_keys_of_the_environment_are_known() -> None:
    environment = {
        "SOME_SERVICE_TOKEN": "0123456789abcdef",
        "MYAPPKEY": "fedcba9876543210",
        "SHORT_TOKEN": "short",
        "SSH_KEY": "/home/me/.ssh/id_ed25519",
        "HOME": "0123456789abcdef/me",
    }
    assert secrets_of(environment) == {"0123456789abcdef", "fedcba9876543210"}


@pytest.mark.parametrize(
    "text",
    [
        "sorted(words, key=len, reverse=True)",
        "x, y = 'a', 'b'",
        "df.groupby('key', 'name')",
        "print('token', end='')",
        "max_tokens = '5'; tokenizer='bpe'",
        "N=5\nurl = 'https://example.org/a?page=2'",
        "a bearer of news",
        "Use sk-learn-contrib, a task-oriented-approach, Bearer authentication, api_key=os.environ['KEY'], none.",
        "if '-----BEGIN PRIVATE KEY-----' in text: raise",
        "hf_model_name_or_path, AKIAS, eyJ.eyJ, https://example.org:8080/a@b",
        "the result of 3 == token_count",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "X-Auth-Token", "AWS_SECRET_ACCESS_KEY", "db_pwd"])
def test_headers_and_variables_are_known_by_one_table_of_names(name: str) -> None:
    assert is_secret_name(name)


def test_an_address_shows_neither_user_nor_query() -> None:
    assert shown_url("https://me:hunter2@example.org:8080/v1/?token=abc#part") == "https://example.org:8080/v1"
    assert shown_url("me:hunter2@example.org:8080") == "example.org:8080"
    assert shown_url("https://example.org/v1/@scope/name@1") == "https://example.org/v1/@scope/name@1"


HOSTILE = [
    "a",
    "a ",
    "_",
    "\n",
    " ",
    "passw",
    "env ",
    "a=",
    "a='",
    "a='b\n",
    'a="""',
    "'a",
    '"token',
    '"token", ',
    "a, ",
    "?a",
    "sk-",
    "sk-a",
    "bearer ",
    "eyJ-",
    "eyJaaaaaaaa.",
    "hf_",
    "://a:",
    "://",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN ",
    "a:x ",
    "a : |",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_keeps_the_search_busy(piece: str) -> None:
    assert cpu_stays_in_proportion(8_000, lambda length: hide(piece * (length // len(piece)), ["a" * 40 + "b"]))
