"""Registry of models: which there are, how each is reached, and the keys for them.

Models come in three layers, each applied to the one before: the built-in ones (``catalog``), those of the user's
``models.json`` (``models_file``), and those that extensions register. A provider that is described wrongly is left out
and named among the problems; all others are there. Keys (``keys``) are looked up when they are used, and stand in no
representation, problem or error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self, TypeAlias, cast

from indus_nb.base.errors import CredentialsError, MissingKeyError, UsageError
from indus_nb.base.files import without_home
from indus_nb.base.messages import ThinkingLevel
from indus_nb.base.streaming import AssistantMessageEvent
from indus_nb.base.variables import ASK_NO_MODEL, variable
from indus_nb.models.ambient import finds_credentials, shows_credentials
from indus_nb.models.apis.adapters import adapter
from indus_nb.models.catalog import Model, default_model, model_with_id, named_models, split_level
from indus_nb.models.kept_keys import GIVEN, KeptKeys, KeyFile, Keyring
from indus_nb.models.keys import (
    InKeyring,
    Secret,
    StoredKeys,
    check_key,
    how_to_get_key,
    keys_in_environment,
    read_stored_keys,
)
from indus_nb.models.models_file import (
    ModelsFile,
    ProviderConfig,
    WrongFieldError,
    apply_config,
    is_local,
    read_models_file,
    validated,
)
from indus_nb.models.protocol import Cassette, Context, Provider, StreamOptions, count_tokens

__all__ = ["ModelRegistry", "ProviderConfig", "ScopedModel"]

Gate: TypeAlias = Callable[[Provider], Provider]
Stream: TypeAlias = Callable[[Model, Context, StreamOptions], AsyncGenerator[AssistantMessageEvent]]


@dataclass(frozen=True, slots=True)
class ScopedModel:
    """A model to cycle through, and the thinking level to set with it, if any."""

    model: Model
    thinking_level: ThinkingLevel | None = None


class ModelRegistry:
    """Models that can be chosen, with the keys of their providers.

    Args:
        models_file: The user's ``models.json``, which may be missing.
        auth_file: The user's ``auth.json``, which may be missing.
        api_keys: Keys by provider, which go before all others.
        environment: The variables that hold keys, or that keys and headers name.
        keyring: The keys that are kept in the system's keyring.
        cassette: What may record the answers of all models, or replay them in their place.
    """

    def __init__(
        self,
        models_file: Path | None = None,
        auth_file: Path | None = None,
        api_keys: Mapping[str, str] | None = None,
        environment: Mapping[str, str] = os.environ,
        *,
        keyring: Keyring | None = None,
        cassette: Cassette | None = None,
    ) -> None:
        self.api_keys: dict[str, str] = dict(api_keys or {})
        self._models_file = models_file
        self._auth_file = auth_file
        self._environment = environment
        self.kept: KeptKeys = KeptKeys(keyring or Keyring(), KeyFile(auth_file))
        self._cassette = cassette
        self._gate: Gate | None = None
        self._file: ModelsFile | None = None  # once it is read
        self._registered: dict[str, ProviderConfig] = {}
        self._models: list[Model] | None = None
        self._used: dict[str, str] = {}  # keys and headers that were asked for, commands' output among them

    def behind(self, gate: Gate) -> Self:
        """Return a registry of the same models and keys that are reached through a gate.

        What is registered with one of both is not known to the other.

        Args:
            gate: Given what reaches a model, a cassette included, it returns what is asked in its place.
        """
        other = copy(self)
        before = self._gate  # which is passed too: the limits of rows hold for what these let others do
        other._gate = gate if before is None else lambda inner: gate(before(inner))  # noqa: SLF001 - it is one of these
        return other

    # Models

    @property
    def models(self) -> list[Model]:
        """Return all models, each provider's recommended one first."""
        if self._models is None:
            self._models = self._with_registered(self._registered)
        return list(self._models)

    def _with_registered(self, registered: Mapping[str, ProviderConfig]) -> list[Model]:
        models = list(self._read_file().models)
        for name, config in registered.items():
            models = apply_config(models, name, config, replace=True)
        return models

    def _read_file(self) -> ModelsFile:
        if self._file is None:
            self._file = read_models_file(self._models_file, self._has_key_elsewhere)
        return self._file

    def _has_key_elsewhere(self, name: str) -> bool:
        return any(self._secrets(name, read_stored_keys(self._auth_file), self._registered.get(name)))

    @property
    def problems(self) -> list[str]:
        """Return what is wrong with the two files, one sentence or two for each defect."""
        return [*self._read_file().problems, *read_stored_keys(self._auth_file).problems]

    def available(self) -> list[Model]:
        """Return the models of every provider that needs no key, has one, or finds credentials itself."""
        keyed = self._keyed()
        return [
            model
            for model in self.models
            if model.provider in keyed or self.is_keyless(model) or shows_credentials(model.api, self._environment)
        ]

    def _keyed(self) -> set[str]:
        stored = read_stored_keys(self._auth_file)
        return {name for name in {model.provider for model in self.models} if self._has_secret(name, stored)}

    def first_available(self) -> Model | None:
        """Return the model to use when none is named.

        It is of the first provider with a key, and never the offline one. Credentials of a cloud may be there for
        anything: they choose no model.
        """
        keyed = self._keyed()
        usable = (model for model in self.available() if model.api != "offline")
        return next((model for model in usable if model.provider in keyed or not finds_credentials(model.api)), None)

    def find(self, wanted: str, provider: str | None = None) -> Model:
        """Find the model that ``wanted`` names.

        Of several such it is one that can be used at once.

        Args:
            wanted: An id, ``provider/id``, or words of an id or name, see ``catalog.named_models``.

        Raises:
            ModelNotFoundError: There is none; the message suggests the ids that look most like it.
        """
        return self.named(wanted, provider)[0]

    def named(self, wanted: str, provider: str | None = None) -> Sequence[Model]:
        """List the models that ``wanted`` names, of which the first is the one to ``find``."""
        usable = {(model.provider, model.id) for model in self.available()}
        among = sorted(self.models, key=lambda model: (model.provider, model.id) not in usable)
        return named_models(wanted, provider, among)

    def with_id(self, model_id: str, provider: str) -> Model:
        """Find the provider's model of exactly that id.

        Args:
            model_id: The id, of which a date may differ.

        Raises:
            ModelNotFoundError: The provider has no such model.
        """
        return model_with_id(model_id, provider, self.models)

    def default(self, provider: str) -> Model:
        """Return the provider's recommended model.

        Raises ``UsageError`` for an unknown provider.
        """
        return default_model(provider, self.models)

    def scope(self, pattern: str) -> list[ScopedModel]:
        """Return the models that ``pattern`` matches, those that can be used if there are any.

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
            # A bare wildcard does not ask for the demonstration, which is used only when it is named.
            fitting = [model for model in fitting if model.api != "offline" or "offline" in folded]
            if fitting:
                return [ScopedModel(model, level) for model in fitting]
        return [ScopedModel(self.find(wanted), level)]

    def register(self, name: str, config: ProviderConfig | Mapping[str, Any]) -> None:
        """Add a provider, or change a known one.

        Args:
            config: What to change; its ``models`` replace the provider's list, without them the rest is applied to it.

        Raises:
            UsageError: A field cannot be used; the message names it, and nothing has changed.
        """
        try:
            checked = config if isinstance(config, ProviderConfig) else validated(ProviderConfig, dict(config))
            registered = {**self._registered, name: checked}
            models = self._with_registered(registered)
        except WrongFieldError as error:
            raise UsageError(f"The provider {name!r} cannot be registered: {error}.") from error
        self._registered, self._models = registered, models

    def unregister(self, name: str) -> None:
        """Undo ``register``.

        An unknown name does nothing.
        """
        self._registered.pop(name, None)
        self._models = None

    # How a model is reached

    def provider_of(self, model: Model) -> Provider:
        """Return the provider for ``model``; raise ``UsageError`` when its API is not supported."""
        reached = self._reached(model)
        return reached if self._gate is None else self._gate(reached)

    def _reached(self, model: Model) -> Provider:
        if model.api != "offline" and variable(ASK_NO_MODEL) is not None:
            from indus_nb.models.unasked import RefusingProvider

            refusing, cassette = RefusingProvider(), self._cassette
            # Not one that records: it would hold the refusals in the place of what it holds.
            return cassette.provider_for(refusing) if cassette is not None and cassette.may_answer() else refusing
        stream = self._config(model.provider, "stream")
        if stream is None:
            provider = adapter(model.api)
        else:
            provider = cast("Provider", stream) if hasattr(stream, "stream") else _Called(cast("Stream", stream))
        if self._cassette is not None:
            if self._cassette.may_answer() and not self._is_replaying():
                provider = _WithKey(provider, self.missing_key)  # what the cassette does not answer needs one
            provider = self._cassette.provider_for(provider)
            if self._is_replaying():
                return provider
        bearer = bool(self._config(model.provider, "auth_header"))
        return _WithHeaders(provider, self.headers_of, bearer) if model.headers or bearer else provider

    def key_for(self, model: Model) -> str | None:
        """Return the key to use.

        It is given by the caller, else to this process, else from ``auth.json``, the environment, the keyring, or
        ``models.json``.

        A ``!command`` is run each time, for ten seconds at the most.

        Returns:
            The key, or ``None`` for a provider that needs none or finds credentials by itself.

        Raises:
            CredentialsError: A key is needed and missing, or is none.
        """
        if self._is_replaying():
            return None
        name = model.provider
        stored = read_stored_keys(self._auth_file)
        secret = next(self._configured_secrets(name, stored), None)
        if secret is None:
            if self.is_keyless(model) or finds_credentials(model.api):
                return None
            raise MissingKeyError(name, how_to_get_key(name, stored, sorted(self._keyed())))
        key = secret.resolve(name, self._environment)
        check_key(key, secret.where, name)
        self._used[f"key of {name}"] = key
        return key

    def key_from(self, model: Model) -> str:
        """Say where the key for a model is from; empty where there is none."""
        secret = next(self._configured_secrets(model.provider, read_stored_keys(self._auth_file)), None)
        return "" if secret is None else secret.where

    def known_secrets(self) -> tuple[tuple[str, str], ...]:
        """Return the labels and values of keys and headers known so far; no command is run."""
        from indus_nb.safety.redaction import is_secret_name

        stored = read_stored_keys(self._auth_file)
        configured = {**self._read_file().configs, **self._registered}
        written = [(f"key of {name} in models.json", config.api_key or "") for name, config in configured.items()]
        written += [
            (f"{header} of {name}", value)
            for name, config in configured.items()
            for header, value in config.headers.items()
            if is_secret_name(header)
        ]
        return (
            *((f"key of {name}", key) for name, key in (*self.api_keys.items(), *GIVEN.items())),
            *stored.secrets(),
            *((label, self._environment.get(value, value)) for label, value in written if not value.startswith("!")),
            *self._used.items(),
        )

    def key_variables(self) -> frozenset[str]:
        """Return the environment variables that ``models.json`` and extensions name as keys or headers."""
        configured = (*self._read_file().configs.values(), *self._registered.values())
        named = {value for config in configured for value in (config.api_key or "", *config.headers.values())}
        return frozenset(named & self._environment.keys())

    def has_key(self, model: Model) -> bool:
        """Return whether there is a key or its source, other credentials, or no need of any.

        Runs no command.
        """
        return (
            self.is_keyless(model)
            or shows_credentials(model.api, self._environment)
            or self._has_secret(model.provider, read_stored_keys(self._auth_file))
        )

    def is_refused(self, model: Model) -> bool:
        """Return whether the model's server rejected the key that would be used.

        Runs no command and asks no keyring: where a key comes from there, the one that was used last counts.
        """
        from indus_nb.models.http.refusals import refused_key

        name = model.provider
        secret = next(self._configured_secrets(name, read_stored_keys(self._auth_file)), None)
        if isinstance(secret, Secret) and (secret.is_final or not secret.value.startswith("!")):
            key = secret.resolve(name, self._environment)
        else:
            key = self._used.get(f"key of {name}", "")
        return secret is not None and refused_key(model, key)

    def is_keyless(self, model: Model) -> bool:
        """Return whether the model does without a key.

        It is given one nevertheless if there is any.
        """
        return (self._cassette is not None and self._cassette.may_answer()) or self._asks_for_no_key(model)

    def _asks_for_no_key(self, model: Model) -> bool:
        return model.api == "offline" or is_local(model.base_url) or self._config(model.provider, "stream") is not None

    def missing_key(self, model: Model) -> str:
        """Return how to get the key that a request to ``model`` needs and lacks; empty where it lacks none.

        Also where a cassette may answer in its place, unless that answers all. Runs no command.
        """
        name, stored = model.provider, read_stored_keys(self._auth_file)
        if (
            self._is_replaying()
            or self._asks_for_no_key(model)
            or finds_credentials(model.api)
            or self._has_secret(name, stored)
        ):
            return ""
        return how_to_get_key(name, stored, sorted(self._keyed()))

    def _is_replaying(self) -> bool:
        return self._cassette is not None and self._cassette.is_replaying()

    def _config(self, name: str, what: str) -> Any:
        """Return that field of the registered configuration, else of the file."""
        configs = (self._registered.get(name), self._read_file().configs.get(name))
        return next((value for config in configs if config is not None and (value := getattr(config, what))), None)

    def _has_secret(self, name: str, stored: StoredKeys) -> bool:
        return any(self._configured_secrets(name, stored))

    def _configured_secrets(self, name: str, stored: StoredKeys) -> Iterator[Secret | InKeyring]:
        return self._secrets(name, stored, self._registered.get(name), self._read_file().configs.get(name))

    def _secrets(
        self,
        name: str,
        stored: StoredKeys,
        registered: ProviderConfig | None = None,
        config: ProviderConfig | None = None,
    ) -> Iterator[Secret | InKeyring]:
        """Yield the possible sources of the provider's key, best first; blank ones are none."""
        in_file = f"`providers.{name}.apiKey` in {self._models_file}"
        yield from _filled(
            Secret(self.api_keys.get(name, ""), "the key that was given", is_final=True),
            Secret(GIVEN.get(name, ""), "the key that was typed here", is_final=True),
            Secret(stored.key_of(name), f"`{name}.key` in {without_home(str(self._auth_file))}", is_final=False),
            *keys_in_environment(name, self._environment),
        )
        if name in self.kept.keyring.providers():
            yield InKeyring(self.kept.keyring)
        yield from _filled(
            Secret((registered and registered.api_key) or "", f"the registered `apiKey` of {name}", is_final=False),
            Secret((config and config.api_key) or "", in_file, is_final=False),
        )

    def headers_of(self, model: Model) -> dict[str, str]:
        """Return the model's own headers, resolved; commands in them are run. Raises ``CredentialsError``."""
        headers = {
            name: Secret(value, f"The header {name} of {model.provider}", is_final=False).resolve(
                model.provider, self._environment
            )
            for name, value in model.headers.items()
        }
        from indus_nb.safety.redaction import is_secret_name

        for name, value in headers.items():
            if is_secret_name(name) or value != model.headers[name]:
                self._used[f"{name} of {model.provider}"] = value
        return headers


def _filled(*secrets: Secret) -> Iterator[Secret]:
    return (replace(secret, value=secret.value.strip()) for secret in secrets if secret.value.strip())


@dataclass(frozen=True, slots=True)
class _Called:
    """A provider that is one function."""

    function: Stream = field(repr=False)

    def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[AssistantMessageEvent]:
        return self.function(model, context, options)

    def preload(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _WithKey:
    """A provider that is asked only where no key is missing."""

    provider: Provider
    missing: Callable[[Model], str]

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        if options.api_key is None and (problem := await asyncio.to_thread(self.missing, model)):
            from indus_nb.models.http.failures import failed_answer

            for event in failed_answer(model, problem):
                yield event
            return
        async with aclosing(self.provider.stream(model, context, options)) as events:
            async for event in events:
                yield event

    def preload(self) -> None:
        self.provider.preload()


@dataclass(frozen=True, slots=True)
class _WithHeaders:
    """A provider that passes a model's resolved headers on."""

    provider: Provider
    headers: Callable[[Model], dict[str, str]]
    bearer: bool

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        try:
            headers = await asyncio.to_thread(self.headers, model)  # it may run commands
        except CredentialsError as error:
            from indus_nb.models.http.failures import failed_answer  # with libraries that no start needs

            for event in failed_answer(model, str(error)):
                yield event
            return
        async with aclosing(self.provider.stream(self._with(headers, model, options), context, options)) as events:
            async for event in events:
                yield event

    async def count_tokens(self, model: Model, context: Context, options: StreamOptions) -> int:
        headers = await asyncio.to_thread(self.headers, model)
        return await count_tokens(self.provider, self._with(headers, model, options), context, options)

    def _with(self, headers: dict[str, str], model: Model, options: StreamOptions) -> Model:
        if self.bearer and options.api_key:
            headers["Authorization"] = f"Bearer {options.api_key}"
        return model.replace(headers=headers)

    def preload(self) -> None:
        self.provider.preload()
