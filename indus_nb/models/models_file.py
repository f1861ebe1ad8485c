"""Models that a user's ``models.json``, or an extension, adds to the built-in ones and changes in them.

What this module promises: a provider that is described wrongly is left out and named among the problems, with file and
field; all others count. What a configuration does not set of a model is what was known of it before. No problem shows
a value, which may be secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from indus_nb.base.files import read_file
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, read_object, to_camel
from indus_nb.base.wire_model import FrozenModel, WireModel, wire_field
from indus_nb.models.ambient import finds_credentials
from indus_nb.models.apis.adapters import ADAPTERS
from indus_nb.models.catalog import Model, ModelCost, builtin_models, provider_compat, unknown_cost

_Kind = TypeVar("_Kind", bound=WireModel)

_OWN = {"id", "name", "api", "provider", "baseUrl", "headers", "compat"}  # of a model; the rest are facts about it
_FIELDS = {key: to_camel(name) for name in Model.wire_fields if name != "provider" for key in (name, to_camel(name))}


class ProviderConfig(FrozenModel, unknown="ignored"):
    """Configuration of a provider: how it is reached and what models it has.

    It is an entry of ``models.json``, or what an extension registers.

    ``api_key`` and the values of ``headers`` are ``!command`` (its output), the name of a set environment variable, or
    the value itself. ``auth_header`` sends the key as a bearer token besides. ``models`` have the keys of ``Model``.
    ``stream`` reaches the models in place of a known API: a ``Provider``, or its method ``stream`` alone.
    """

    name: str | None = None
    base_url: str | None = None
    api: str | None = None
    api_key: str | None = wire_field(default=None, repr=False)
    headers: dict[str, str] = wire_field(default_factory=dict[str, str], repr=False)
    auth_header: bool = False
    compat: JsonObject | None = None
    models: list[JsonObject] | None = wire_field(default=None, repr=False)
    model_overrides: dict[str, JsonObject] = wire_field(default_factory=dict[str, JsonObject], repr=False)
    stream: Any = wire_field(default=None, hidden=True)


class WrongFieldError(ValueError):
    """A field that cannot be used: where it is, and what is wrong with it."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"`{where}` {problem}")


@dataclass(frozen=True, slots=True)
class ModelsFile:
    """Parsed content of ``models.json``.

    Attributes:
        models: The built-in models with what the file adds and changes.
        problems: A sentence or two for each defect.
    """

    models: list[Model]
    configs: dict[str, ProviderConfig] = field(default_factory=dict[str, ProviderConfig])
    problems: list[str] = field(default_factory=list[str])


def read_models_file(path: Path | None, has_key: Callable[[str], bool]) -> ModelsFile:
    """Read ``models.json``.

    A file that is missing leaves the built-in models as they are.

    Args:
        path: The file; ``None`` where there is none.
        has_key: Whether the provider of that name has a key elsewhere, so that the file may do without one.
    """
    read = ModelsFile(list(builtin_models()))
    try:
        entries = _providers_in(path)
    except ValueError as error:
        read.problems.append(f"{path}: {error}. The built-in models are there.")
        return read
    for name, entry in entries.items():
        try:
            _add_entry(read, name, entry, path, has_key)
        except WrongFieldError as error:
            read.problems.append(f"{path}: {error}. What it says of {name!r} is left out.")
    return read


def _add_entry(read: ModelsFile, name: str, entry: object, path: Path | None, has_key: Callable[[str], bool]) -> None:
    where = f"providers.{name}"
    config = validated(ProviderConfig, entry, where).replace(stream=None)
    known = {model.id for model in read.models if model.provider == name}
    changes = (config.base_url, config.headers, config.compat, config.model_overrides, config.api_key)
    if not config.models and not any(changes):
        raise WrongFieldError(where, "needs `models`, `baseUrl`, `headers`, `compat` or `modelOverrides`")
    models = apply_config(read.models, name, config, where=where)
    needs_key = config.models and not known and not config.api_key and not is_local(config.base_url or "")
    if needs_key and not finds_credentials(config.api or "") and not has_key(name):
        raise WrongFieldError(f"{where}.apiKey", "is missing")
    read.models[:] = models
    read.configs[name] = config
    read.problems.extend(
        f"{path}: `{where}.modelOverrides.{model_id}` names no built-in model and changes nothing."
        for model_id in config.model_overrides
        if model_id not in known
    )


def _providers_in(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        content = read_object(read_file(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    providers: object = content.get("providers", {})
    if not isinstance(providers, dict):
        raise WrongFieldError("providers", "must be an object")
    return cast("dict[str, Any]", providers)


def validated(kind: type[_Kind], value: object, where: str = "") -> _Kind:
    """Validate ``value`` as a ``kind``.

    Args:
        where: The path to ``value`` in its file, put before the name of a wrong field.

    Raises:
        WrongFieldError: For the first field that is wrong; it shows no value, which may be secret.
    """
    try:
        return kind.from_wire(value)
    except InvalidFieldsError as error:
        wrong = error.within(where)[0]
        reason = f"is wrong: {wrong.reason}"
        raise WrongFieldError(wrong.path or "config", reason) from None


def apply_config(
    models: Sequence[Model], name: str, config: ProviderConfig, *, where: str = "", replace: bool = False
) -> list[Model]:
    """Apply a provider's configuration to the list of models.

    Args:
        where: The path to ``config`` in its file, put before the names of wrong fields.
        replace: Whether ``config.models``, if there are any, are all that the provider has afterwards.

    Returns:
        The models of all providers; ``models`` itself is not changed.

    Raises:
        WrongFieldError: The configuration cannot be used.
    """
    dot = f"{where}." if where else ""
    if not name.strip() or not name.isprintable() or "/" in name:
        raise WrongFieldError(where or "name", "is no name of a provider")
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
        raise WrongFieldError(f"{dot}models", "is missing, and no provider of that name is known")
    first = next(iter(own.values()), None)
    if replace and config.models is not None:
        own = {}
    for number, entry in enumerate(config.models or ()):
        model = _new_model(name, config, entry, first, f"{dot}models.{number}")
        own[model.id] = model
    at = next((index for index, model in enumerate(models) if model.provider == name), None)
    if at is None:  # the demonstration stays last: who added a model does not mean that one
        at = next((index for index, model in enumerate(models) if model.api == "offline"), len(models))
    before = [model for model in models[:at] if model.provider != name]
    return [*before, *own.values(), *(model for model in models[at:] if model.provider != name)]


def _new_model(name: str, config: ProviderConfig, entry: JsonObject, like: Model | None, where: str) -> Model:
    given = _fields(entry)
    api = given.get("api") or config.api or (like.api if like else name if config.stream else None)
    finds_server = config.stream or finds_credentials(str(api))
    fields: JsonObject = {
        **_facts(entry.get("like"), f"{where}.like"),
        "provider": name,
        "name": given.get("id"),
        "api": api,
        "baseUrl": config.base_url or (like.base_url if like else "" if finds_server else None),
        **given,
    }
    compat = {**provider_compat(name), **(config.compat or {})} or None
    for key, shared in (("headers", config.headers), ("compat", compat)):
        fields[key] = _merged(shared, fields.get(key, shared))
    for key in ("id", "api", "baseUrl"):
        if fields.get(key) is None:
            raise WrongFieldError(f"{where}.{key}", "is missing" if key == "id" else "is missing, for the provider too")
    fields["cost"] = _cost(fields.get("cost"), f"{where}.cost")
    if str(fields["api"]).startswith("anthropic-") and fields.get("reasoning"):
        fields.setdefault("thinkingStyle", "budget")  # what every such server understands
    model = validated(Model, fields, where)
    if not model.id.strip() or not f"{model.id}{model.name}".isprintable():
        raise WrongFieldError(f"{where}.id", "must be text that can be shown")
    if model.api not in ADAPTERS and not config.stream:
        choices = ", ".join(api for api in ADAPTERS if api != "offline")
        raise WrongFieldError(f"{where}.api", f"is none that is spoken here: choose one of {choices}")
    if model.base_url:
        _check_url(model.base_url, f"{where}.baseUrl")
    return model


def _facts(known: object, where: str) -> JsonObject:
    """Return what a model takes from a similar built-in one unless it says otherwise."""
    if known is None:
        return {}
    model = next((model for model in builtin_models() if model.id == known), None)
    if model is None:
        raise WrongFieldError(where, "names no built-in model")
    return {key: value for key, value in _written(model).items() if key not in _OWN}


def _written(model: Model) -> JsonObject:
    fields = {to_camel(name): getattr(model, name) for name in Model.wire_fields}
    cost = model.cost
    prices = {**cost.to_wire(), "longPrompt": cost.long_prompt, "priorityShare": cost.priority_share}
    return {**fields, "cost": prices if cost.known else None}


def _patched(model: Model, patch: JsonObject, where: str) -> Model:
    """Return ``model`` with these fields changed; of objects only the keys that are named."""
    fields = _written(model)
    fields.update((key, _merged(fields[key], value)) for key, value in patch.items())
    fields["cost"] = _cost(fields["cost"], f"{where}.cost")
    return validated(Model, {**fields, "id": model.id}, where)


def _cost(given: object, where: str) -> object:
    """Build the prices of a model: 0 is free, and without those of input and output they are unknown."""
    if given is None:
        return unknown_cost()
    if isinstance(given, dict):
        known = {"input", "output"} <= cast("JsonObject", given).keys()
        return {**cast("JsonObject", given), "known": known}
    if given == 0 and not isinstance(given, bool):
        return ModelCost()
    raise WrongFieldError(where, "is an object with `input` and `output`, or 0 for a model that is free")


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
        raise WrongFieldError(where, "must be a URL that begins with http:// or https://")


def _fields(entry: Mapping[str, Any]) -> JsonObject:
    """Return the known fields of ``entry``. The rest may be secret, and models are sent over the wire."""
    return {_FIELDS[key]: value for key, value in entry.items() if key in _FIELDS}


def is_local(url: str) -> bool:
    """Return whether the server is on this machine or in a private network, where keys are not usual.

    >>> is_local("http://localhost:11434/v1"), is_local("http://192.168.1.5/v1"), is_local("https://api.x.ai/v1")
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
