"""Which models there are, how each of them is reached, and the keys for them.

Models come in three layers, each laid over the one before: the built-in ones, those of the user's ``models.json``, and
those that extensions register. A provider that is described wrongly is left out and named among the problems; all
others are there. Keys are looked up when they are used, and stand in no representation, problem or error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import pydantic_core
from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from indus_nb.errors import CredentialsError, UsageError
from indus_nb.files import read_file
from indus_nb.messages import ThinkingLevel
from indus_nb.providers import Context, Model, Provider, StreamOptions
from indus_nb.providers.catalog import builtin_models, default_model, find_model, model_with_id, split_level
from indus_nb.streaming import AssistantMessageEvent, GrowingMessage
from indus_nb.wire import JsonObject, WireModel, first_problem

_Kind = TypeVar("_Kind", bound=WireModel)
Stream: TypeAlias = Callable[[Model, Context, StreamOptions], AsyncGenerator[AssistantMessageEvent]]

_CASSETTE = "INDUSAGI_CASSETTE"
_APIS = ("anthropic-messages", "openai-completions", "openai-responses", "offline")
_KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "together": ("TOGETHER_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
}
_COMMAND_SECONDS = 10
_FIELDS = {key: to_camel(name) for name in Model.model_fields if name != "provider" for key in (name, to_camel(name))}


class ProviderConfig(WireModel):
    """How a provider is reached and what models it has: an entry of ``models.json``, or what an extension registers.

    ``api_key`` and the values of ``headers`` are ``!command`` (its output), the name of a set environment variable, or
    the value itself. ``auth_header`` sends the key as a bearer token besides. ``models`` have the keys of ``Model``.
    ``stream`` reaches the models in place of a known API: a ``Provider``, or its method ``stream`` alone.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str | None = None
    base_url: str | None = None
    api: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    auth_header: bool = False
    compat: JsonObject | None = None
    models: list[JsonObject] | None = Field(default=None, repr=False)
    model_overrides: dict[str, JsonObject] = Field(default_factory=dict[str, JsonObject], repr=False)
    stream: Any = Field(default=None, exclude=True)


@dataclass(frozen=True, slots=True)
class ScopedModel:
    """A model to cycle through, and the thinking level to take with it if one was named."""

    model: Model
    thinking_level: ThinkingLevel | None = None


class _Secret(NamedTuple):
    value: str
    where: str  # what to name instead of the value
    is_final: bool  # the key itself, or something to make it of


class _WrongFieldError(ValueError):
    """A field that cannot be used: where it stands, and what is wrong with it."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"`{where}` {problem}")


class ModelRegistry:
    """The models that can be chosen, with the keys of their providers.

    ``models_file`` and ``auth_file`` may be missing. ``api_keys`` are keys by provider, which go before all others.
    """

    def __init__(
        self,
        models_file: Path | None = None,
        auth_file: Path | None = None,
        api_keys: Mapping[str, str] | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.api_keys = dict(api_keys or {})
        self._models_file = models_file
        self._auth_file = auth_file
        self._environment = environment
        self._configs: dict[str, ProviderConfig] | None = None  # of the file, once it is read
        self._from_file: list[Model] = []
        self._file_problems: list[str] = []
        self._registered: dict[str, ProviderConfig] = {}
        self._models: list[Model] | None = None

    # Models

    @property
    def models(self) -> list[Model]:
        """All models, each provider's recommended one first."""
        if self._models is None:
            self._models = self._with_registered(self._registered)
        return list(self._models)

    def _with_registered(self, registered: Mapping[str, ProviderConfig]) -> list[Model]:
        self._read_models_file()
        models = self._from_file
        for name, config in registered.items():
            models = _laid_over(models, name, config, replace=True)
        return models

    @property
    def problems(self) -> list[str]:
        """What is wrong with the two files, one sentence or two for each defect."""
        self._read_models_file()
        return [*self._file_problems, *self._stored_keys()[1]]

    def available(self) -> list[Model]:
        """The models of every provider that needs no key or has one."""
        stored = self._stored_keys()[0]
        keyed = {name for name in {model.provider for model in self.models} if any(self._secrets(name, stored))}
        return [model for model in self.models if model.provider in keyed or self.is_keyless(model)]

    def first_available(self) -> Model | None:
        """The model to take when nothing is said: of the first provider with a key. The offline one is never it."""
        return next((model for model in self.available() if model.api != "offline"), None)

    def find(self, wanted: str, provider: str | None = None) -> Model:
        """The model that ``wanted`` names (see ``find_model``), of several such one that can be used at once.

        Raises ``ModelNotFoundError`` with the ids that look most like it.
        """
        usable = {(model.provider, model.id) for model in self.available()}
        among = sorted(self.models, key=lambda model: (model.provider, model.id) not in usable)
        return find_model(wanted, provider, among)

    def with_id(self, model_id: str, provider: str) -> Model:
        """The provider's model of exactly that id; raises ``ModelNotFoundError``."""
        return model_with_id(model_id, provider, self.models)

    def default(self, provider: str) -> Model:
        """The provider's recommended model; raises ``UsageError`` for an unknown provider."""
        return default_model(provider, self.models)

    def scope(self, pattern: str) -> list[ScopedModel]:
        """The models that ``pattern`` stands for, those that can be used if there are any.

        ``*``, ``?`` and ``[…]`` are wildcards in an id or ``provider/id``; anything else names one model. ``:level``
        behind it is the thinking level for all of them. Raises ``ModelNotFoundError`` when there is none.
        """
        wanted, level = split_level(pattern)
        folded = wanted.casefold()
        for models in (self.available(), self.models) if any(char in wanted for char in "*?[") else ():
            fitting = [
                model
                for model in models
                if fnmatchcase(model.id.casefold(), folded)
                or fnmatchcase(f"{model.provider}/{model.id}".casefold(), folded)
            ]
            # A bare wildcard is no wish for the demonstration, which is used only when it is asked for.
            fitting = [model for model in fitting if model.api != "offline" or "offline" in folded]
            if fitting:
                return [ScopedModel(model, level) for model in fitting]
        return [ScopedModel(self.find(wanted), level)]

    def register(self, name: str, config: ProviderConfig | Mapping[str, Any]) -> None:
        """Add a provider, or change a known one: ``models`` replace its list, without them the rest is laid over it.

        Raises ``UsageError`` naming the field that cannot be used; nothing has changed then.
        """
        try:
            checked = config if isinstance(config, ProviderConfig) else _validated(ProviderConfig, dict(config))
            registered = {**self._registered, name: checked}
            models = self._with_registered(registered)
        except _WrongFieldError as error:
            raise UsageError(f"The provider {name!r} cannot be registered: {error}.") from error
        self._registered, self._models = registered, models

    def unregister(self, name: str) -> None:
        """Take back what ``register`` did; the provider is what it is without it. An unknown name does nothing."""
        self._registered.pop(name, None)
        self._models = None

    # How a model is reached

    def provider_of(self, model: Model) -> Provider:
        """What reaches ``model``; raises ``UsageError`` when nothing here speaks its API."""
        stream = self._config(model.provider, "stream")
        if stream is None:
            provider = _adapter(model.api)
        else:
            provider = cast("Provider", stream) if hasattr(stream, "stream") else _Called(cast("Stream", stream))
        if os.environ.get(_CASSETTE):
            from indus_nb.cassettes.replay import ReplayProvider, provider_from_environment

            provider = provider_from_environment(provider)
            if isinstance(provider, ReplayProvider):
                return provider
        bearer = bool(self._config(model.provider, "auth_header"))
        return _WithHeaders(provider, self._headers, bearer) if model.headers or bearer else provider

    def key_for(self, model: Model) -> str | None:
        """The key to use: given by the caller, else from ``auth.json``, the environment, or ``models.json``.

        ``None`` for a provider that needs none. A ``!command`` is run each time, for ten seconds at the most. Raises
        ``CredentialsError`` when a key is needed and missing, or is none.
        """
        if _is_replaying():
            return None
        name = model.provider
        stored = self._stored_keys()[0]
        secret = next(self._secrets(name, stored), None)
        if secret is None:
            if self.is_keyless(model):
                return None
            raise CredentialsError(name, self._how_to_get_one(name, stored))
        key = secret.value if secret.is_final else self._resolved(secret, name)
        if not (key.isascii() and key.isprintable()):
            problem = f"The key for {name} holds a character that no key has: set {secret.where} anew."
            raise CredentialsError(name, problem)
        return key

    def has_key(self, model: Model) -> bool:
        """Whether there is something to make a key of, or none is needed; runs no command."""
        return self.is_keyless(model) or any(self._secrets(model.provider, self._stored_keys()[0]))

    def is_keyless(self, model: Model) -> bool:
        """Whether the model does without a key; it is given one nevertheless if there is any."""
        return (
            _is_replaying()
            or model.api == "offline"
            or _is_local(model.base_url)
            or self._config(model.provider, "stream") is not None
        )

    def _config(self, name: str, what: str) -> Any:
        """That field of what was registered, else of the file."""
        configs = (self._registered.get(name), self._read_models_file().get(name))
        return next((value for config in configs if config is not None and (value := getattr(config, what))), None)

    def _secrets(self, name: str, stored: Mapping[str, Any]) -> Iterator[_Secret]:
        """Where the provider's key may come from, best first; blank ones are none."""
        entry = stored.get(name)
        own = cast("JsonObject", entry).get("key") if isinstance(entry, dict) else None
        registered = self._registered.get(name)
        config = self._read_models_file().get(name)
        secrets = (
            _Secret(self.api_keys.get(name, ""), "the key that was given", is_final=True),
            _Secret(own if isinstance(own, str) else "", f"`{name}.key` in {self._auth_file}", is_final=False),
            *(
                _Secret(self._environment.get(variable, ""), variable, is_final=True)
                for variable in _KEY_VARIABLES.get(name, ())
            ),
            _Secret((registered and registered.api_key) or "", f"the registered `apiKey` of {name}", is_final=False),
            _Secret(
                (config and config.api_key) or "", f"`providers.{name}.apiKey` in {self._models_file}", is_final=False
            ),
        )
        return (secret._replace(value=secret.value.strip()) for secret in secrets if secret.value.strip())

    def _resolved(self, secret: _Secret, provider: str) -> str:
        if secret.value.startswith("!"):
            return _output(secret.value[1:], secret.where, provider)
        return self._environment.get(secret.value, "").strip() or secret.value

    def _headers(self, model: Model) -> dict[str, str]:
        return {
            name: self._resolved(
                _Secret(value, f"The header {name} of {model.provider}", is_final=False), model.provider
            )
            for name, value in model.headers.items()
        }

    def _how_to_get_one(self, name: str, stored: Mapping[str, Any]) -> str:
        ways = [f"set {variable}" for variable in _KEY_VARIABLES.get(name, ())[:1]]
        if self._auth_file is not None and name != "anthropic":
            ways.append(f"put it into {self._auth_file}")
        entry = stored.get(name)
        kind = cast("JsonObject", entry).get("type") if isinstance(entry, dict) else None
        note = " (Its sign-in in that file is of a kind that cannot be used here.)" if kind == "oauth" else ""
        ways.append("use `--provider offline`, which needs none")
        return f"No API key for {name}: {', or '.join(ways)}.{note}"

    # Files

    def _read_models_file(self) -> dict[str, ProviderConfig]:
        if self._configs is None:
            self._configs = {}
            self._from_file = list(builtin_models())
            try:
                entries = _providers_in(self._models_file)
            except ValueError as error:
                entries = {}
                self._file_problems.append(f"{self._models_file}: {error}. The built-in models are there.")
            for name, entry in entries.items():
                try:
                    self._take(name, entry)
                except _WrongFieldError as error:
                    self._file_problems.append(f"{self._models_file}: {error}. What it says of {name!r} is left out.")
        return self._configs

    def _take(self, name: str, entry: object) -> None:
        where = f"providers.{name}"
        config = _validated(ProviderConfig, entry, where).model_copy(update={"stream": None})
        configs = self._configs if self._configs is not None else {}
        known = {model.id for model in self._from_file if model.provider == name}
        changes = (config.base_url, config.headers, config.compat, config.model_overrides, config.api_key)
        if not config.models and not any(changes):
            raise _WrongFieldError(where, "needs `models`, `baseUrl`, `headers`, `compat` or `modelOverrides`")
        models = _laid_over(self._from_file, name, config, where=where)
        if config.models and not known and not config.api_key and not _is_local(config.base_url or ""):
            stored = self._stored_keys()[0]
            if not any(self._secrets(name, stored)):
                raise _WrongFieldError(f"{where}.apiKey", "is missing")
        self._from_file = models
        configs[name] = config
        self._file_problems += [
            f"{self._models_file}: `{where}.modelOverrides.{model_id}` names no built-in model and changes nothing."
            for model_id in config.model_overrides
            if model_id not in known
        ]

    def _stored_keys(self) -> tuple[dict[str, Any], list[str]]:
        """What ``auth.json`` holds now, and what is wrong with it."""
        path = self._auth_file
        if path is None:
            return {}, []
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            stored = _read_object(read_file(path))
        except FileNotFoundError:
            return {}, []
        except OSError as error:
            return {}, [f"{path}: cannot be read ({error.strerror}). The keys in it are not used."]
        except ValueError as error:
            return {}, [f"{path}: {error}. The keys in it are not used; mend it by hand."]
        problems: list[str] = []
        if os.name == "posix" and mode & 0o077:
            problems.append(f"{path}: others than you can get at the keys in it (mode {mode:04o}): `chmod 600 {path}`.")
        for name, entry in stored.items():
            if not isinstance(entry, dict):
                problems.append(f"{path}: `{name}` must be an object with `type` and `key`.")
            elif not isinstance(cast("JsonObject", entry).get("key", ""), str):
                problems.append(f"{path}: `{name}.key` must be a text.")
        return stored, problems


def _is_replaying() -> bool:
    """Whether answers come from a cassette, so that no key is needed."""
    if not os.environ.get(_CASSETTE):
        return False
    from indus_nb.cassettes.replay import is_replaying

    return is_replaying()


@dataclass(frozen=True, slots=True)
class _Called:
    """A provider that is one function."""

    function: Stream = field(repr=False)

    def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[AssistantMessageEvent]:
        return self.function(model, context, options)

    def preload(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _WithHeaders:
    """A provider that is given a model's headers as they are to be sent."""

    provider: Provider
    headers: Callable[[Model], dict[str, str]]
    bearer: bool

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        try:
            headers = await asyncio.to_thread(self.headers, model)  # it may run commands
        except CredentialsError as error:
            growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
            yield growing.start()
            yield growing.fail(str(error))
            return
        if self.bearer and options.api_key:
            headers["Authorization"] = f"Bearer {options.api_key}"
        ready = model.model_copy(update={"headers": headers})
        async with aclosing(self.provider.stream(ready, context, options)) as events:
            async for event in events:
                yield event

    def preload(self) -> None:
        self.provider.preload()


def _adapter(api: str) -> Provider:
    match api:
        case "anthropic-messages":
            from indus_nb.providers.anthropic import AnthropicProvider

            return AnthropicProvider()
        case "openai-completions":
            from indus_nb.providers.openai import OpenAICompletionsProvider

            return OpenAICompletionsProvider()
        case "openai-responses":
            from indus_nb.providers.openai import OpenAIResponsesProvider

            return OpenAIResponsesProvider()
        case "offline":
            from indus_nb.providers.offline import OfflineProvider

            return OfflineProvider()
        case _:
            raise UsageError(f"Unknown API: {api}. Known APIs: {', '.join(_APIS)}.")


# --- what the files say ----------------------------------------------------------------------------------------------


def _providers_in(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        content = _read_object(read_file(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    providers: object = content.get("providers", {})
    if not isinstance(providers, dict):
        raise _WrongFieldError("providers", "must be an object")
    return cast("dict[str, Any]", providers)


def _read_object(text: bytes) -> dict[str, Any]:
    """The JSON object in ``text``, comments and trailing commas allowed; raises ``ValueError`` with a reason."""
    try:
        value: object = pydantic_core.from_json(text)
    except ValueError:
        import json5  # many times slower, so for those files only that need it

        try:
            value = json5.loads(text.decode())
        except (ValueError, RecursionError) as error:
            reason = str(error).removeprefix("<string>:") if isinstance(error, ValueError) else "nested too deeply"
            raise ValueError(f"is no JSON ({reason})") from error
    if not isinstance(value, dict):
        raise ValueError("must hold a JSON object")
    return cast("dict[str, Any]", value)


def _validated(kind: type[_Kind], value: object, where: str = "") -> _Kind:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        wrong = first_problem(error, where=where)
        raise _WrongFieldError(
            wrong.path or "config", f"is wrong: {wrong.reason}"
        ) from None  # its text shows the input


def _laid_over(
    models: Sequence[Model], name: str, config: ProviderConfig, *, where: str = "", replace: bool = False
) -> list[Model]:
    """``models`` with what ``config`` says of the provider ``name``; raises ``_WrongFieldError``."""
    dot = f"{where}." if where else ""
    if not name.strip() or not name.isprintable() or "/" in name:
        raise _WrongFieldError(where or "name", "is no name of a provider")
    if config.base_url is not None:
        _check_url(config.base_url, f"{dot}baseUrl")
    shared = {
        key: value for key, value in (("baseUrl", config.base_url), ("compat", config.compat)) if value is not None
    }
    own: dict[str, Model] = {}
    for model in models:
        if model.provider == name:
            patch = {**shared, **_fields(config.model_overrides.get(model.id, {}))}
            patch["headers"] = _merged(config.headers, patch.get("headers", config.headers))
            own[model.id] = _patched(model, patch, f"{dot}modelOverrides.{model.id}")
    if not own and not config.models:
        raise _WrongFieldError(f"{dot}models", "is missing, and no provider of that name is known")
    first = next(iter(own.values()), None)
    if replace and config.models is not None:
        own = {}
    for number, entry in enumerate(config.models or ()):
        model = _new_model(name, config, entry, first, f"{dot}models.{number}")
        own[model.id] = model
    at = next((index for index, model in enumerate(models) if model.provider == name), None)
    if at is None:  # the demonstration stays last: nobody who added a model means that one
        at = next((index for index, model in enumerate(models) if model.api == "offline"), len(models))
    before = [model for model in models[:at] if model.provider != name]
    return [*before, *own.values(), *(model for model in models[at:] if model.provider != name)]


def _new_model(name: str, config: ProviderConfig, entry: JsonObject, like: Model | None, where: str) -> Model:
    given = _fields(entry)
    fields: JsonObject = {
        "provider": name,
        "name": given.get("id"),
        "api": config.api or (like.api if like else name if config.stream else None),
        "baseUrl": config.base_url or (like.base_url if like else "" if config.stream else None),
        **given,
    }
    for key, shared in (("headers", config.headers), ("compat", config.compat)):
        fields[key] = _merged(shared, fields.get(key, shared))
    for key in ("id", "api", "baseUrl"):
        if fields.get(key) is None:
            raise _WrongFieldError(
                f"{where}.{key}", "is missing" if key == "id" else "is missing, for the provider too"
            )
    if fields["api"] == "anthropic-messages" and fields.get("reasoning"):
        fields.setdefault("thinkingStyle", "budget")  # what every such server understands
    model = _validated(Model, fields, where)
    if not model.id.strip() or not f"{model.id}{model.name}".isprintable():
        raise _WrongFieldError(f"{where}.id", "must be text that can be shown")
    if model.api not in _APIS and not config.stream:
        raise _WrongFieldError(f"{where}.api", f"is none that is spoken here: choose one of {', '.join(_APIS[:-1])}")
    if model.base_url:
        _check_url(model.base_url, f"{where}.baseUrl")
    return model


def _patched(model: Model, patch: JsonObject, where: str) -> Model:
    """``model`` with these fields changed; of objects only the keys that are named."""
    fields = {to_camel(name): getattr(model, name) for name in Model.model_fields}
    fields["cost"] = {**model.cost.to_wire(), "longPrompt": model.cost.long_prompt}
    fields.update((key, _merged(fields[key], value)) for key, value in patch.items())
    return _validated(Model, {**fields, "id": model.id}, where)


def _merged(below: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {**(cast("JsonObject", below) if isinstance(below, dict) else {}), **cast("JsonObject", value)}


def _check_url(url: str, where: str) -> None:
    try:
        known = urlsplit(url).scheme in ("http", "https")
    except ValueError:
        known = False
    if not known:
        raise _WrongFieldError(where, "must be a URL that begins with http:// or https://")


def _fields(entry: Mapping[str, Any]) -> JsonObject:
    """What of ``entry`` a model knows. The rest is left out: models are told on the wire, and it may be secret."""
    return {_FIELDS[key]: value for key, value in entry.items() if key in _FIELDS}


def _is_local(url: str) -> bool:
    """Whether the server is on this machine or in a private network, where keys are not usual.

    >>> _is_local("http://localhost:11434/v1"), _is_local("http://192.168.1.5/v1"), _is_local("https://api.x.ai/v1")
    (True, True, False)
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    try:
        return ip_address(host).is_private
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".localhost", ".local", ".internal")))


def _output(command: str, where: str, provider: str) -> str:
    """What the shell command prints, without the blanks around it; raises ``CredentialsError``."""
    problem = "printed nothing"
    with subprocess.Popen(  # noqa: S602 - the user's own file asks for a shell
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            output = process.communicate(timeout=_COMMAND_SECONDS)[0].decode(errors="replace").strip()
        except subprocess.TimeoutExpired:
            output, problem = "", f"took longer than {_COMMAND_SECONDS} seconds"
        finally:
            if process.poll() is None:
                _kill(process)
    if process.returncode > 0:
        output, problem = "", f"ended with status {process.returncode}"
    if not output:
        raise CredentialsError(provider, f"{where}: the command {problem}. Run it in a terminal to see why.")
    return output


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
