"""Claude on other platforms: credentials, requests as each of them wants them, and errors in its own words.

What they do as every provider does is in ``test_contract``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from messages_api import HttpError, Page, Raw, Reply, SseError, Text, Thinking, ToolUse
from pictures import DOT
from platform_apis import ACCESS_TOKEN, AZURE_TOKEN, PlatformsApi

from indus_nb.base.errors import CredentialsError, IndusError, UsageError
from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from indus_nb.base.streaming import StreamDone, StreamError
from indus_nb.core.loop.retry import is_overflow, is_passing
from indus_nb.models import Context, Model, StreamOptions, ToolSpec
from indus_nb.models.apis.adapters import adapter
from indus_nb.models.catalog import builtin_models, default_model, find_model
from indus_nb.models.protocol import count_tokens
from indus_nb.models.registry import ModelRegistry

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
BEDROCK, VERTEX, FOUNDRY = (default_model(name) for name in ("amazon-bedrock", "google-vertex", "microsoft-foundry"))
MANTLE = BEDROCK.replace(api="anthropic-bedrock-mantle", id="anthropic.claude-opus-5-5")
HI = UserMessage(content="Hi")


@pytest.fixture
def server() -> Iterator[PlatformsApi]:
    with PlatformsApi() as api:
        yield api


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: PlatformsApi) -> pytest.MonkeyPatch:
    """A user who has no credentials; the addresses of all platforms are the local server's."""
    import os

    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "ANTHROPIC_", "GOOGLE_", "GCLOUD_", "CLOUD", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # no programs that give out credentials
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_BEDROCK_MANTLE_BASE_URL", f"{server.url}/anthropic")
    monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_BASE_URL", f"{server.url}/anthropic")
    return monkeypatch


@pytest.fixture
def aws(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    environment.setenv("AWS_REGION", "us-west-2")


@pytest.fixture(scope="session")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(serialization.Encoding.PEM, *private).decode()


@pytest.fixture
def google(environment: pytest.MonkeyPatch, tmp_path: Path, server: PlatformsApi, private_key: str) -> None:
    """A service account of Google's, whose server for tokens is the local one."""
    account = {"type": "service_account", "client_email": "me@example.org", "private_key": private_key}
    file = tmp_path / "google.json"
    file.write_text(json.dumps({**account, "token_uri": f"{server.url}/token"}))
    environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    environment.setenv("GOOGLE_CLOUD_PROJECT", "my-project")


async def ask(model: Model, *messages, tools: tuple[ToolSpec, ...] = (), **options) -> AssistantMessage:
    context = Context("Be brief.", messages or (HI,), tools)
    events = [event async for event in adapter(model.api).stream(model, context, StreamOptions(**options))]
    assert isinstance(events[-1], StreamDone | StreamError)
    return events[-1].message if isinstance(events[-1], StreamDone) else events[-1].error


# --- Amazon Bedrock --------------------------------------------------------------------------------------------------


async def test_a_request_to_bedrock_is_signed(server, aws):
    server.add("Hello")
    assert (await ask(BEDROCK)).text == "Hello"
    request = server.requests[0]
    assert request.path == "/model/global.anthropic.claude-opus-5-5/invoke-with-response-stream"
    signature = request.headers["authorization"]
    assert signature.startswith("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/")
    assert "/us-west-2/bedrock/aws4_request, SignedHeaders=" in signature
    assert SECRET not in json.dumps([request.headers, request.body])
    assert "x-amz-security-token" not in request.headers


async def test_other_keys_count_from_the_next_request_on(server, aws, environment):
    server.add("x", "y")
    await ask(BEDROCK)
    environment.setenv("AWS_ACCESS_KEY_ID", "ASIAOTHERKEYOTHERKEY")
    environment.setenv("AWS_SESSION_TOKEN", "a-session-token")
    await ask(BEDROCK)
    assert "Credential=ASIAOTHERKEYOTHERKEY/" in server.requests[1].headers["authorization"]
    assert server.requests[1].headers["x-amz-security-token"] == "a-session-token"


async def test_a_profile_gives_keys_and_region(server, environment, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        f"[work]\naws_access_key_id = AKIAPROFILEPROFILE00\naws_secret_access_key = {SECRET}\n"
    )
    (tmp_path / ".aws/config").write_text("[profile work]\nregion = eu-central-1\n")
    environment.setenv("AWS_PROFILE", "work")
    server.add("x")
    await ask(BEDROCK)
    assert "AKIAPROFILEPROFILE00" in server.requests[0].headers["authorization"]
    assert "/eu-central-1/bedrock/" in server.requests[0].headers["authorization"]


async def test_a_bearer_token_signs_nothing(server, aws, environment):
    environment.setenv("AWS_BEARER_TOKEN_BEDROCK", "a-bearer-token")
    server.add("x")
    key = ModelRegistry().key_for(BEDROCK)
    await ask(BEDROCK, api_key=key)
    assert key == "a-bearer-token"
    assert server.requests[0].headers["authorization"] == "Bearer a-bearer-token"


async def test_an_empty_bearer_token_is_none(server, aws, environment):
    environment.setenv("AWS_BEARER_TOKEN_BEDROCK", "")
    server.add("x")
    await ask(BEDROCK, api_key=ModelRegistry().key_for(BEDROCK))
    assert server.requests[0].headers["authorization"].startswith("AWS4-HMAC-SHA256 ")


async def test_the_newer_endpoint_speaks_the_messages_api(server, aws):
    server.add("Hello")
    assert (await ask(MANTLE)).text == "Hello"
    request = server.requests[0]
    assert (request.path, request.body["model"]) == ("/anthropic/v1/messages", "anthropic.claude-opus-5-5")
    assert "/us-west-2/bedrock-mantle/aws4_request" in request.headers["authorization"]


@pytest.mark.parametrize("model", [BEDROCK, MANTLE], ids=["invoke", "mantle"])
async def test_without_credentials_of_aws_a_sentence_says_what_to_set(server, environment, model):
    environment.setenv("AWS_REGION", "us-east-1")
    failed = await ask(model)
    assert failed.error_message.startswith("There are no usable credentials for Amazon Bedrock (")
    assert "AWS_PROFILE" in failed.error_message
    assert not is_passing(failed)
    assert server.requests == []


async def test_an_unknown_profile_is_named(environment):
    environment.setenv("AWS_PROFILE", "nobody")
    assert "(The config profile (nobody) could not be found)" in (await ask(BEDROCK)).error_message


async def test_without_a_region_a_sentence_asks_for_one(aws, environment):
    environment.delenv("AWS_REGION")
    assert (await ask(BEDROCK)).error_message.startswith("No region of AWS is named: set AWS_REGION")


@pytest.mark.parametrize(
    ("kind", "status"), [("throttlingException", 429), ("internalServerException", 500), ("modelTimeoutException", 408)]
)
async def test_an_accident_in_a_stream_of_bedrock_is_tried_again(server, aws, kind, status):
    server.add(Reply(Text("Half", SseError(kind, "Try your request again."))))
    failed = await ask(BEDROCK)
    assert failed.error_message == f"{status} {kind}: Try your request again. (in the stream from {server.url})"
    assert failed.text == "Half"
    assert is_passing(failed)


async def test_a_request_that_bedrock_objects_to_in_the_stream_is_not_tried_again(server, aws):
    server.add(Reply(SseError("validationException", "The request is malformed.")))
    failed = await ask(BEDROCK)
    assert failed.error_message.startswith("validationException: The request is malformed. (in the stream")
    assert not is_passing(failed)


async def test_a_frame_that_is_damaged_keeps_what_had_arrived(server, aws):
    server.add(Reply(Text("Half", Raw(b"\x00\x00\x00\x20\x00\x00\x00\x00nonsense" * 4))))
    failed = await ask(BEDROCK)
    assert f"The stream from {server.url} is not what the Messages API sends: Checksum" in failed.error_message
    assert "ANTHROPIC_BEDROCK_BASE_URL" in failed.error_message
    assert failed.text == "Half"


async def test_a_throttled_account_has_not_too_long_a_conversation(server, aws):
    server.add(HttpError(429, "ThrottlingException", "Too many tokens, please wait before trying again."))
    failed = await ask(BEDROCK)
    assert failed.error_message == "429 ThrottlingException: Too many tokens, please wait before trying again."
    assert is_passing(failed)
    assert not is_overflow(failed, 200_000)


async def test_a_refusal_of_bedrock_says_what_to_check(server, aws):
    server.add(HttpError(403, "AccessDeniedException", "You don't have access to the model"))
    message = (await ask(BEDROCK)).error_message
    assert message.startswith("403 AccessDeniedException: You don't have access to the model. Check the credentials. ")
    assert "AWS_PROFILE" in message


async def test_a_part_of_a_request_that_is_refused_is_left_out_of_the_next(server, aws):
    server.add(HttpError(400, "ValidationException", "messages.0.content.1.image: cannot be processed"), "Well.")
    picture = UserMessage(content=[TextContent(text="Look"), ImageContent(data=DOT, mime_type="image/png")])
    assert "(This is about an image in the message" in (await ask(BEDROCK, picture)).error_message
    assert (await ask(BEDROCK, picture)).text == "Well."
    assert "An image was left out" in json.dumps(server.requests[1].body)


async def test_secrets_of_aws_that_a_server_repeats_are_hidden(server, aws, environment):
    environment.setenv("AWS_SESSION_TOKEN", "a-long-session-token")
    server.add(lambda request: HttpError(400, "ValidationException", f"{request.headers} {SECRET}"))
    message = (await ask(BEDROCK)).error_message
    for hidden in ("AKIAIOSFODNN7EXAMPLE", "a-long-session-token", SECRET):
        assert hidden not in message


# --- Google Cloud ----------------------------------------------------------------------------------------------------


async def test_a_request_to_vertex_has_a_token_of_google(server, google):
    server.add("Hello", "again")
    assert [(await ask(VERTEX)).text for _ in range(2)] == ["Hello", "again"]
    request = server.requests[0]
    where = "/v1/projects/my-project/locations/global/publishers/anthropic/models/claude-opus-5-5"
    assert request.path == f"{where}:streamRawPredict"
    assert request.headers["authorization"] == f"Bearer {ACCESS_TOKEN}"
    assert server.tokens == ["/token"]  # one token serves both requests


async def test_region_and_project_are_of_the_environment(server, google, environment):
    environment.setenv("CLOUD_ML_REGION", "europe-west1")
    environment.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "other-project")
    server.add("x")
    await ask(VERTEX)
    assert "/projects/other-project/locations/europe-west1/" in server.requests[0].path


async def test_a_key_for_vertex_is_an_access_token(server, environment):
    environment.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    server.add("x")
    await ask(VERTEX, api_key="ya29.mine")
    assert server.requests[0].headers["authorization"] == "Bearer ya29.mine"


async def test_without_credentials_of_google_a_sentence_says_what_to_run(server, environment):
    environment.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    message = (await ask(VERTEX)).error_message
    assert message.startswith("There are no usable credentials for Google Vertex AI (")
    assert "`gcloud auth application-default login`" in message


async def test_credentials_of_google_in_the_place_of_their_path_are_not_shown(server, environment, private_key):
    account = {"type": "service_account", "private_key": private_key}
    environment.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
    environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", json.dumps(account))
    message = (await ask(VERTEX)).error_message
    assert message.startswith("There are no usable credentials for Google Vertex AI (")
    assert private_key.splitlines()[1][:20] not in message
    assert not ModelRegistry().has_key(VERTEX)


async def test_an_answer_that_is_no_json_is_not_blamed_on_the_credentials(server, google):
    server.add(Page("{nonsense", "application/json"))
    with pytest.raises(IndusError, match=r"The request to .* failed: JSONDecodeError: "):
        await count(VERTEX)


async def test_without_a_project_a_sentence_asks_for_one(google, environment):
    environment.delenv("GOOGLE_CLOUD_PROJECT")
    assert (await ask(VERTEX)).error_message.startswith("No project of Google Cloud is named. ")


async def test_a_login_that_has_expired_is_said_and_a_new_one_counts_at_once(server, google):
    server.token_error = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
    failed = await ask(VERTEX)
    assert failed.error_message.startswith("There are no usable credentials for Google Vertex AI (")
    assert "Token has been expired or revoked" in failed.error_message
    assert not is_passing(failed)
    server.token_error = None
    server.add("Hello")
    assert (await ask(VERTEX)).text == "Hello"


async def test_googles_own_errors_are_understood(server, google):
    server.add(HttpError(429, "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform"))
    failed = await ask(VERTEX)
    assert failed.error_message == "429 RESOURCE_EXHAUSTED: Quota exceeded for aiplatform"
    assert is_passing(failed)


# --- Microsoft Foundry -----------------------------------------------------------------------------------------------


async def test_a_request_to_foundry_has_its_key_and_no_other(server, environment):
    environment.setenv("ANTHROPIC_API_KEY", "sk-ant-of-anthropic")
    environment.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-anthropic")
    environment.setenv("ANTHROPIC_FOUNDRY_API_KEY", "key-of-foundry")
    server.add("Hello")
    assert (await ask(FOUNDRY, api_key=ModelRegistry().key_for(FOUNDRY))).text == "Hello"
    request = server.requests[0]
    assert request.path == "/anthropic/v1/messages"
    assert request.headers["x-api-key"] == "key-of-foundry"
    assert "of-anthropic" not in json.dumps(request.headers)


async def test_without_a_key_an_identity_of_azure_is_used(server, environment):
    environment.setenv("IDENTITY_ENDPOINT", f"{server.url}/identity")  # as in a web app with an identity
    environment.setenv("IDENTITY_HEADER", "x")
    server.add("Hello", "again")
    assert [(await ask(FOUNDRY)).text for _ in range(2)] == ["Hello", "again"]
    assert server.requests[1].headers["authorization"] == f"Bearer {AZURE_TOKEN}"
    assert len(server.tokens) == 1
    assert "resource=https://ai.azure.com" in server.tokens[0]


async def test_without_a_resource_a_sentence_asks_for_one(environment):
    environment.delenv("ANTHROPIC_FOUNDRY_BASE_URL")
    message = (await ask(FOUNDRY, api_key="key")).error_message
    assert message.startswith("No resource of Microsoft Foundry is named: set ANTHROPIC_FOUNDRY_RESOURCE")


async def test_without_azures_library_a_sentence_says_what_to_install(environment):
    environment.setitem(sys.modules, "azure.identity", None)
    message = (await ask(FOUNDRY)).error_message
    assert "set ANTHROPIC_FOUNDRY_API_KEY, or, to sign in with Microsoft Entra ID, " in message
    assert 'pip install ".[foundry]" in the clone of indus_nb' in message


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "library", "extra"),
    [(BEDROCK, "boto3", "bedrock"), (MANTLE, "boto3", "bedrock"), (VERTEX, "google.auth", "vertex")],
)
async def test_a_missing_library_is_named_with_the_extra_that_brings_it(environment, model, library, extra):
    environment.setitem(sys.modules, library, None)
    message = (await ask(model)).error_message
    assert f"needs the package {library.partition('.')[0]}, which is not installed" in message
    assert f'pip install ".[{extra}]" in the clone of indus_nb' in message


async def test_the_control_of_bound_thinking_goes_where_the_platform_looks_for_it(server, aws, google):
    server.add("x", "y", "z")
    await ask(BEDROCK, thinking="high")
    await ask(VERTEX, thinking="high")
    await ask(FOUNDRY, thinking="high", api_key="key")
    bedrock, *others = server.requests
    for request in server.requests:
        assert request.body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert bedrock.body["anthropic_beta"] == ["thinking-binding-controls-2026-08-01"]
    assert [request.headers["anthropic-beta"] for request in others] == ["thinking-binding-controls-2026-08-01"] * 2


async def test_a_tool_is_called_and_its_result_read(server, aws):
    tools = (ToolSpec("ls", "Lists.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
    server.add(Reply(Thinking("Hm"), ToolUse("ls", {"path": "."})), "Two files.")
    asked = await ask(BEDROCK, tools=tools, thinking="high")
    call = asked.tool_calls[0]
    assert (call.name, call.arguments, asked.stop_reason) == ("ls", {"path": "."}, "toolUse")
    result = ToolResultMessage(tool_call_id=call.id, tool_name="ls", content=[TextContent(text="a b")])
    assert (await ask(BEDROCK, HI, asked, result, tools=tools, thinking="high")).text == "Two files."
    sent = server.requests[1].body["messages"]
    assert sent[1]["content"][0] == {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    assert sent[2]["content"][0]["tool_use_id"] == call.id


async def test_addresses_of_images_are_left_out_where_none_are_read(server, aws):
    server.add("x", "y")
    image = ImageContent(source=UrlSource(url="https://example.org/a.png"), mime_type="image/png")
    await ask(BEDROCK, UserMessage(content=[TextContent(text="Look"), image]))
    await ask(FOUNDRY, UserMessage(content=[TextContent(text="Look"), image]), api_key="key")
    assert "takes no addresses of images" in server.requests[0].body["messages"][0]["content"][1]["text"]
    assert server.requests[1].body["messages"][0]["content"][1]["source"]["type"] == "url"


# --- counting tokens -------------------------------------------------------------------------------------------------


async def count(model: Model, **options) -> int:
    return await count_tokens(adapter(model.api), model, Context("Be brief.", (HI,)), StreamOptions(**options))


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (MANTLE, "/anthropic/v1/messages/count_tokens"),
        (VERTEX, "/v1/projects/my-project/locations/global/publishers/anthropic/models/count-tokens:rawPredict"),
        (FOUNDRY, "/anthropic/v1/messages/count_tokens"),
    ],
    ids=["mantle", "vertex", "foundry"],
)
async def test_platforms_count_tokens(server, aws, google, model, path):
    server.add(Page('{"input_tokens": 42}', "application/json"))
    assert await count(model, api_key="key") == 42
    assert server.requests[0].path == path
    assert server.requests[0].body["model"] == model.id


async def test_a_platform_that_cannot_count_says_so(server, aws):
    with pytest.raises(IndusError, match="counts tokens at its newer endpoint only"):
        await count(BEDROCK)
    assert server.requests == []


async def test_a_count_that_fails_is_described_as_an_answer_is(server, google):
    server.add(HttpError(403, "PERMISSION_DENIED", "Not for you"))
    with pytest.raises(IndusError, match=r"403 PERMISSION_DENIED: Not for you\. Check the credentials\. Run `gcloud"):
        await count(VERTEX)


# --- which models there are ------------------------------------------------------------------------------------------


def test_each_model_has_the_facts_of_the_one_that_it_is():
    opus = find_model("anthropic/claude-opus-5-5")
    for model in (BEDROCK, VERTEX, FOUNDRY):
        same = model.replace(**{name: getattr(opus, name) for name in ("id", "name", "api", "provider")})
        assert same.replace(base_url=opus.base_url, compat=opus.compat) == opus


def test_short_names_of_providers_find_them_unless_there_is_one_of_that_name():
    assert find_model("bedrock/opus-4-8").provider == "amazon-bedrock"
    assert default_model("Vertex").provider == "google-vertex"
    assert find_model("haiku", "foundry").provider == "microsoft-foundry"
    own = BEDROCK.replace(provider="bedrock")
    assert default_model("bedrock", [*builtin_models(), own]) == own


def test_credentials_of_a_cloud_make_its_models_available_but_choose_none():
    registry = ModelRegistry(environment={"AWS_PROFILE": "work"})
    assert {model.provider for model in registry.available()} == {"amazon-bedrock", "offline"}
    assert registry.has_key(BEDROCK)
    assert not registry.has_key(VERTEX)
    assert registry.first_available() is None
    assert registry.find("sonnet").provider == "amazon-bedrock"
    assert registry.key_for(VERTEX) is None  # those of a virtual machine show only when they are asked for


def test_a_key_of_a_platform_chooses_its_model():
    registry = ModelRegistry(environment={"AWS_BEARER_TOKEN_BEDROCK": "token"})
    assert registry.first_available() == BEDROCK


def test_googles_login_and_a_project_show_credentials(tmp_path):
    environment = {"HOME": str(tmp_path), "GOOGLE_CLOUD_PROJECT": "p"}
    assert not ModelRegistry(environment=environment).has_key(VERTEX)
    login = tmp_path / ".config/gcloud/application_default_credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    assert ModelRegistry(environment=environment).has_key(VERTEX)
    assert not ModelRegistry(environment={"HOME": str(tmp_path)}).has_key(VERTEX)


def test_a_model_of_ones_own_is_like_a_known_one(tmp_path):
    file = tmp_path / "models.json"
    profile = {"id": "eu.anthropic.claude-opus-5-5", "like": "claude-opus-5-5", "cost": {"input": 4.4, "output": 22}}
    team = {"api": "anthropic-bedrock-mantle", "models": [{"id": "anthropic.claude-haiku-5-5"}]}
    file.write_text(json.dumps({"providers": {"amazon-bedrock": {"models": [profile]}, "team": team}}))
    registry = ModelRegistry(file, environment={})
    assert registry.problems == []
    europe = registry.with_id("eu.anthropic.claude-opus-5-5", "amazon-bedrock")
    assert (europe.api, europe.bound_thinking, europe.context_window) == ("anthropic-bedrock", True, 1_000_000)
    assert (europe.cost.input, europe.cost.cache_read) == (4.4, 0)
    assert registry.with_id("anthropic.claude-haiku-5-5", "team").base_url == ""


def test_a_model_cannot_be_like_an_unknown_one(tmp_path):
    file = tmp_path / "models.json"
    entry = {"models": [{"id": "mine", "like": "claude-9"}]}
    file.write_text(json.dumps({"providers": {"microsoft-foundry": entry}}))
    (problem,) = ModelRegistry(file, environment={}).problems
    assert "`providers.microsoft-foundry.models.0.like` names no built-in model" in problem


def test_providers_without_credentials_of_their_own_still_need_a_key():
    with pytest.raises(CredentialsError):
        ModelRegistry(environment={"AWS_PROFILE": "work"}).key_for(find_model("anthropic/haiku"))
    with pytest.raises(UsageError):
        adapter("bedrock")
