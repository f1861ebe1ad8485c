"""Claude on other platforms, over the official SDK: Amazon Bedrock, Google Cloud's Vertex AI, Microsoft Foundry.

Requests and answers are those of the Messages API (``anthropic``). What differs (addresses, signatures, tokens, the
encoding of streams) is the SDK's, which is imported when such a model is first used. Credentials are found by the
libraries of each cloud; what is missing is said in a sentence.
"""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict, cast

from indus_nb.base.errors import CredentialsError, IndusError, UsageError
from indus_nb.base.installed import how_to_install
from indus_nb.base.wire import JsonObject, encodable
from indus_nb.models.ambient import FOUNDRY_PLACE, GOOGLE_PROJECT
from indus_nb.models.apis.anthropic import AnthropicProvider, Reply, betas
from indus_nb.models.catalog import Model
from indus_nb.models.http.bodies import (
    IDENTITY,
    MAX_STREAM_BYTES,
    beginning,
    begun_in_time,
    bound_response,
    whole_frames,
)
from indus_nb.models.http.failures import check_url, one_line, retry_after, root_cause
from indus_nb.models.http.http import decoded_events, merged_headers, naming_proxies, redirected
from indus_nb.models.http.tls import tls_context
from indus_nb.models.protocol import StreamOptions
from indus_nb.safety.redaction import secrets_of

if TYPE_CHECKING:
    import anthropic
    import httpx2
    from anthropic.lib import bedrock, vertex

    _Client: TypeAlias = (
        bedrock.AsyncAnthropicBedrock
        | bedrock.AsyncAnthropicBedrockMantle
        | vertex.AsyncAnthropicVertex
        | anthropic.AsyncAnthropicFoundry
    )

_BEARER_TOKEN = "AWS_BEARER_TOKEN_BEDROCK"  # noqa: S105 - a name, not a secret
_AWS_NEEDS = (
    f"Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or {_BEARER_TOKEN}, "
    "and see that the account may use the model."
)
_CLOUDS = {"google", "botocore", "boto3", "azure", "msal", "anthropic"}
"""The packages that find credentials and sign requests."""
_AWS_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_GOOGLE_REGION = ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_AZURE_SCOPE = "https://ai.azure.com/.default"
_BEDROCK_VERSION = "bedrock-2023-05-31"
"""The version that every model there understands; the SDK's own is rejected for Claude 4.6 and older."""
_STREAMED_STATUS = {
    "throttlingException": 429,
    "modelTimeoutException": 408,
    "modelStreamErrorException": 500,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}
"""AWS names the kind of an error within a stream, and no status, by which a retry knows what passes."""


class _RefusedError(IndusError):
    """The server rejected the request, or broke its answer off: a sentence, and the status."""

    def __init__(self, sentence: str, status_code: int) -> None:
        super().__init__(sentence)
        self.status_code = status_code


class _Shared(TypedDict):
    """Arguments that every client of the SDK is given."""

    max_retries: int
    timeout: anthropic.Timeout
    default_headers: Mapping[str, str]
    http_client: anthropic.DefaultAsyncHttpxClient


class _AwsCredentials(TypedDict, total=False):
    aws_access_key: str
    aws_secret_key: str
    aws_session_token: str | None
    aws_profile: str | None


class _PlatformProvider(AnthropicProvider, ABC):
    """Base of the providers of all platforms."""

    _name: ClassVar[str]
    _extra: ClassVar[str]
    """The extra of this package that brings the SDK, and what finds credentials."""
    _libraries: ClassVar[tuple[str, ...]] = ()
    _needs: ClassVar[str]
    """What to set, as a sentence."""
    _counts_not: ClassVar[str] = ""
    """Why tokens are not counted."""

    def preload(self) -> None:
        """Import the SDK and its credential finders."""
        for name in ("anthropic", *self._libraries):
            import_module(name)

    def _url(self, model: Model) -> str:
        return model.base_url or os.environ.get(self._url_variable, "")

    def _where(self, model: Model) -> str:
        return super()._where(model) or self._name

    def _secrets(self, model: Model, options: StreamOptions) -> Iterable[str]:
        return (*super()._secrets(model, options), *secrets_of())

    @asynccontextmanager
    async def _asked(self, model: Model, body: JsonObject, options: StreamOptions) -> AsyncGenerator[Reply]:
        async with await self._made(model, options) as client:
            from anthropic import APIStatusError

            events = await self._posted(client, "/v1/messages", model, self._adapted(body | {"stream": True}), options)
            async with events:
                response = events.response
                if options.on_response is not None:
                    await options.on_response(response.status_code, response.headers)
                try:
                    yield Reply(response.headers, response.aiter_bytes(), self._events(events))
                except APIStatusError as error:
                    raise self._refusal(error, model) from error
                except Exception as error:
                    if type(error).__module__.startswith("botocore."):
                        raise ValueError(str(error)) from error  # a frame whose lengths or checksums are wrong
                    raise

    def _events(self, stream: anthropic.AsyncStream[object]) -> AsyncIterator[Sequence[object]]:
        """Yield the events of an answer; the SDK's own decoder takes unbounded time for a long one."""
        return decoded_events(stream.response.aiter_bytes())

    async def _counted(self, model: Model, body: JsonObject, options: StreamOptions) -> object:
        if self._counts_not:
            raise IndusError(self._counts_not)
        async with await self._made(model, options) as client:
            # As a stream, that is: not read as a whole.
            answer = await self._posted(client, "/v1/messages/count_tokens", model, body, options)
            async with answer, begun_in_time(self._seconds(options)):
                return json.loads(await beginning(answer.response.aiter_bytes(), {}))

    async def _posted(
        self, client: _Client, path: str, model: Model, body: JsonObject, options: StreamOptions
    ) -> anthropic.AsyncStream[object]:
        """Send a request and return the answer, of which only the headers were read."""
        from anthropic import AsyncStream

        asked = merged_headers(model.headers).get("anthropic-beta")
        needed = betas(body, interleaved=model.interleaved_thinking, asked=asked)
        with self._described(model):
            async with begun_in_time(self._seconds(options)):
                return await client.post(
                    path,
                    cast_to=object,
                    body=encodable(body),
                    options={"headers": needed},
                    stream=True,
                    stream_cls=AsyncStream[object],
                )

    def _seconds(self, options: StreamOptions) -> float:
        """Return how long the server may be silent."""
        return options.idle_timeout or self._idle_timeout

    @contextmanager
    def _described(self, model: Model) -> Generator[None]:
        """Describe the failure of a request that got no answer."""
        from anthropic import APIError, APIStatusError

        try:
            yield
        except APIStatusError as error:
            raise self._refusal(error, model) from error
        except APIError as error:
            if isinstance(error.__cause__, IndusError):
                raise error.__cause__ from error  # what our own hook raised
            raise
        except Exception as error:
            if not _is_of_credentials(error):
                raise
            raise self._unusable(error, model) from error  # what signs requests found none

    def _adapted(self, body: JsonObject) -> JsonObject:
        """Adapt the body to this platform, where the SDK does not."""
        return body

    async def _made(self, model: Model, options: StreamOptions) -> _Client:
        """Build a client of the SDK, for one request.

        It is made in a thread: files are read and servers asked to find credentials, and the imports take long.
        """
        url = self._url(model)
        if url:
            check_url(url, f"Correct {self._url_variable}, or the model's base URL.")
        try:
            await asyncio.to_thread(self.preload)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{self._name} needs the package {(error.name or '').partition('.')[0]}, which is not installed: "
                f"{how_to_install(self._extra)}."
            ) from error
        try:
            return await asyncio.to_thread(self._sdk_client, url or None, model, options)
        except IndusError:
            raise
        except Exception as error:
            raise self._unusable(error, model) from error

    @abstractmethod
    def _sdk_client(self, url: str | None, model: Model, options: StreamOptions) -> _Client:
        """Build a client for one request; all its exceptions are about credentials."""

    def _shared(self, model: Model, options: StreamOptions) -> _Shared:
        from anthropic import DefaultAsyncHttpxClient, Timeout

        idle_timeout = self._seconds(options)
        with naming_proxies():
            client = DefaultAsyncHttpxClient(
                verify=tls_context(), follow_redirects=False, event_hooks={"response": [self._inspect]}
            )
        return {
            "max_retries": 0,
            "timeout": Timeout(idle_timeout, connect=min(10, idle_timeout)),
            "default_headers": merged_headers(IDENTITY, model.headers),
            "http_client": client,
        }

    async def _inspect(self, response: httpx2.Response) -> None:
        """Reject a redirect, and bound the body."""
        if (location := response.headers.get("location")) is not None and response.is_redirect:
            await response.aclose()
            raise redirected(str(response.request.url), location, response.status_code)
        is_framed = response.headers.get("content-type", "").startswith("application/vnd.amazon.eventstream")
        bound_response(response, limit=MAX_STREAM_BYTES, through=whole_frames if is_framed else None)

    def _unusable(self, error: Exception, model: Model) -> CredentialsError:
        cause = root_cause(error)
        detail = one_line(str(cause)) or type(cause).__name__
        return CredentialsError(
            model.provider, f"There are no usable credentials for {self._name} ({detail}). {self._needs}"
        )

    def _refusal(self, error: anthropic.APIStatusError, model: Model) -> _RefusedError:
        headers, status, where = error.response.headers, error.status_code, self._where(model)
        kind, message = _reason(error.body)
        kind = kind or headers.get("x-amzn-errortype", "").partition(":")[0]
        if status < 400:
            streamed = _STREAMED_STATUS.get(kind)
            reason = f"{kind or 'error'}: {message or 'no reason given'} (in the stream from {where})"
            return _RefusedError(f"{streamed} {reason}" if streamed else reason, streamed or status)
        named = (
            f"{kind or 'error'}: {message}" if message else f"{error.response.reason_phrase or 'error'} from {where}"
        )
        wait = retry_after(headers)
        asked = f" (retry after {wait:.10g} s)" if wait is not None else ""
        hint = f". Check the credentials. {self._needs}" if status in (401, 403) else ""
        return _RefusedError(f"{status} {named}{asked}{hint}", status)


class BedrockProvider(_PlatformProvider):
    """A provider for Claude in Amazon Bedrock by InvokeModel, which has its own stream format."""

    _name = "Amazon Bedrock"
    _extra = "bedrock"
    _libraries = ("boto3", "botocore.auth", "botocore.eventstream")
    _url_variable = "ANTHROPIC_BEDROCK_BASE_URL"
    _needs = _AWS_NEEDS
    _counts_not = "Amazon Bedrock counts tokens at its newer endpoint only (anthropic-bedrock-mantle)."

    def _adapted(self, body: JsonObject) -> JsonObject:
        return {"anthropic_version": _BEDROCK_VERSION, **body}

    async def _events(self, stream: anthropic.AsyncStream[object]) -> AsyncGenerator[Sequence[object]]:
        async for event in stream:
            yield [event]

    def _sdk_client(self, url: str | None, model: Model, options: StreamOptions) -> _Client:
        from anthropic.lib.bedrock import AsyncAnthropicBedrock

        client = AsyncAnthropicBedrock(
            aws_region=_aws_region(model.provider), base_url=url, **self._shared(model, options)
        )
        # Set afterwards: it takes no credentials beside a bearer token in the environment, empty or not.
        client.api_key = _bearer_token(options)
        for name, value in _aws_credentials().items():
            setattr(client, name, value)
        return client


class BedrockMantleProvider(_PlatformProvider):
    """A provider for Claude in Amazon Bedrock's newer endpoint, which speaks the Messages API."""

    _name = "Amazon Bedrock"
    _extra = "bedrock"
    _libraries = ("boto3", "botocore.auth")
    _url_variable = "ANTHROPIC_BEDROCK_MANTLE_BASE_URL"
    _needs = _AWS_NEEDS

    def _sdk_client(self, url: str | None, model: Model, options: StreamOptions) -> _Client:
        from anthropic.lib.bedrock import AsyncAnthropicBedrockMantle

        token = _bearer_token(options)
        credentials = _AwsCredentials() if token else _aws_credentials()
        return AsyncAnthropicBedrockMantle(
            aws_region=_aws_region(model.provider),
            base_url=url,
            api_key=token,
            **credentials,
            **self._shared(model, options),
        )


class VertexProvider(_PlatformProvider):
    """A provider for Claude in Vertex AI. A key is an access token; without one Google's library finds it."""

    _name = "Google Vertex AI"
    _extra = "vertex"
    _libraries = ("google.auth", "google.auth.transport.requests")
    _url_variable = "ANTHROPIC_VERTEX_BASE_URL"
    _needs = (
        "Run `gcloud auth application-default login` or set GOOGLE_APPLICATION_CREDENTIALS, "
        f"and name the project in {GOOGLE_PROJECT[0]} or {GOOGLE_PROJECT[1]}."
    )

    def _sdk_client(self, url: str | None, model: Model, options: StreamOptions) -> _Client:
        from anthropic.lib.vertex import AsyncAnthropicVertex

        project = _first_set(GOOGLE_PROJECT)
        credentials: Any = None
        if not options.api_key:
            credentials, default_project = _google_credentials(_settings("GOOGLE_", "CLOUDSDK_"))
            project = project or default_project
        if not project:
            raise CredentialsError(model.provider, f"No project of Google Cloud is named. {self._needs}")
        return AsyncAnthropicVertex(
            region=_first_set(_GOOGLE_REGION) or "global",
            project_id=project,
            access_token=options.api_key,
            credentials=credentials,
            base_url=url,
            **self._shared(model, options),
        )

    def _unusable(self, error: Exception, model: Model) -> CredentialsError:
        _google_credentials.cache_clear()  # the next request reads what a new login has written
        return super()._unusable(error, model)


class FoundryProvider(_PlatformProvider):
    """A provider for Claude in Microsoft Foundry, by a key or an identity that Azure's library finds."""

    _name = "Microsoft Foundry"
    _extra = "foundry"
    _url_variable = FOUNDRY_PLACE[0]
    _needs = f"Set ANTHROPIC_FOUNDRY_API_KEY, or sign in with `az login`; {FOUNDRY_PLACE[1]} names the resource."

    def _sdk_client(self, url: str | None, model: Model, options: StreamOptions) -> _Client:
        from anthropic import AsyncAnthropicFoundry

        resource = os.environ.get(FOUNDRY_PLACE[1])
        if url is None and not resource:
            raise UsageError(
                f"No resource of {self._name} is named: set {FOUNDRY_PLACE[1]} to its name, "
                f"or {FOUNDRY_PLACE[0]} to its address."
            )
        key = options.api_key or os.environ.get("ANTHROPIC_FOUNDRY_API_KEY") or None
        token = None if key else self._token()
        return AsyncAnthropicFoundry(
            base_url=url or f"https://{resource}.services.ai.azure.com/anthropic/",
            api_key=key,
            azure_ad_token_provider=None if token is None else lambda: token,
            **self._shared(model, options),
        )

    def _token(self) -> str:
        try:
            return _azure_tokens(_settings("AZURE_", "IDENTITY_", "MSI_"))()
        except ModuleNotFoundError as error:
            raise UsageError(
                f"No key for {self._name}: set ANTHROPIC_FOUNDRY_API_KEY, or, to sign in with Microsoft Entra ID, "
                f"{how_to_install(self._extra)}."
            ) from error

    def _unusable(self, error: Exception, model: Model) -> CredentialsError:
        _azure_tokens.cache_clear()
        return super()._unusable(error, model)


# --- credentials: each function runs in a thread, and may read files, ask servers and run programs --------------------


def _is_of_credentials(error: Exception) -> bool:
    """Return whether finding credentials or signing failed; the SDK raises ``RuntimeError`` then."""
    if isinstance(error, RuntimeError | OSError) and not isinstance(error, RecursionError):
        return True
    return any(kind.__module__.partition(".")[0] in _CLOUDS for kind in type(error).__mro__)


def _first_set(variables: Iterable[str]) -> str | None:
    return next((value for name in variables if (value := os.environ.get(name))), None)


def _bearer_token(options: StreamOptions) -> str | None:
    return options.api_key or os.environ.get(_BEARER_TOKEN) or None


def _aws_credentials() -> _AwsCredentials:
    """Return the environment's choice of credentials explicitly: the SDK caches its sessions by it."""
    key, secret = (os.environ.get(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"))
    if key and secret:
        token = os.environ.get("AWS_SESSION_TOKEN") or None
        return {"aws_access_key": key, "aws_secret_key": secret, "aws_session_token": token}
    return {"aws_profile": os.environ.get("AWS_PROFILE") or None}


def _aws_region(provider: str) -> str:
    region = _first_set(_AWS_REGION)
    if region is None:
        boto3: Any = import_module("boto3")
        region = cast("str | None", boto3.Session(profile_name=os.environ.get("AWS_PROFILE") or None).region_name)
    if region is None:
        raise CredentialsError(provider, "No region of AWS is named: set AWS_REGION, or a region in the profile.")
    return region


def _settings(*prefixes: str) -> tuple[tuple[str, str], ...]:
    """Return the variables that choose credentials: these and their tokens are cached until they change."""
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith(prefixes)))


@cache
def _google_credentials(settings: object) -> tuple[Any, str | None]:  # noqa: ARG001 - what they are remembered by
    """Return the application's credentials, and the project that they name."""
    auth: Any = import_module("google.auth")
    return auth.default(scopes=[_GOOGLE_SCOPE])


@cache
def _azure_tokens(settings: object) -> Callable[[], str]:  # noqa: ARG001 - what they are remembered by
    identity: Any = import_module("azure.identity")
    return identity.get_bearer_token_provider(identity.DefaultAzureCredential(), _AZURE_SCOPE)


# --- errors of servers -----------------------------------------------------------------------------------------------


def _reason(body: object) -> tuple[str, str]:
    """Return the kind of an error and the server's words; each platform has its own format."""
    if isinstance(body, list) and body:  # of Google, when it would have been a stream
        body = cast("list[object]", body)[0]
    outer = cast("JsonObject", body) if isinstance(body, dict) else {}
    inner: object = outer.get("error", outer)
    fields = cast("JsonObject", inner) if isinstance(inner, dict) else {"message": inner}
    return _first_text(fields, "type", "status", "code"), _first_text(fields, "message", "Message")


def _first_text(fields: JsonObject, *names: str) -> str:
    return next((one_line(value) for name in names if isinstance(value := fields.get(name), str)), "")
