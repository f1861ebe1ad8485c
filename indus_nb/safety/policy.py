"""Policy for a tool call's effects: allowed unasked, asked about, or denied; by mode and setting.

This is the one table of modes and defaults. Settings, options, front ends and docs are made from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from indus_nb.safety.effects import Effect, EffectKind

ApproveMode: TypeAlias = Literal["never", "effects", "writes", "always", "looks"]
"""Modes of asking about tool calls, least first.

``never`` none; ``effects`` those with effects, but for what is the agent's own; ``writes`` all with effects; ``always``
every one, before it is tried. ``looks`` denies those with effects, and keeps nothing of what the others define.
"""
Decision: TypeAlias = Literal["allow", "ask", "deny"]
"""Outcomes for an effect, laxest first."""

MODES: tuple[ApproveMode, ...] = get_args(ApproveMode)
DECISIONS: tuple[Decision, ...] = get_args(Decision)
KINDS: tuple[EffectKind, ...] = get_args(EffectKind)

UNASKED: Mapping[ApproveMode, Sequence[EffectKind]] = dict.fromkeys(("effects", "looks"), ("new_names", "draws_random"))
"""The kinds of effects that a mode allows; with ``looks`` they stay in the copy in which the code ran."""
_WITHOUT = "Do without it, or tell the user what you need it for"
_LOOKS = "only looks are allowed now. Look further without it, and say what it is needed for"


def decision(
    kind: EffectKind, mode: ApproveMode, chosen: Mapping[EffectKind, Decision], *, is_own: bool = False
) -> Decision:
    """Decide about a kind of effect.

    Args:
        chosen: The setting ``effects``, which counts more than the mode.
        is_own: Whether its object is the agent's own work in this conversation, which nobody else has changed since.

    >>> decision("new_names", "effects", {}), decision("new_names", "writes", {}), decision("deletes", "effects", {})
    ('allow', 'ask', 'ask')
    >>> decision("deletes", "looks", {"deletes": "allow"}), decision("reads_outside", "looks", {})
    ('deny', 'ask')
    >>> [decision("writes_file", mode, {}, is_own=True) for mode in ("effects", "writes", "looks")]
    ['allow', 'ask', 'deny']
    """
    if mode == "looks" and kind not in (*UNASKED["looks"], "reads_outside"):
        return "deny"
    is_unasked = mode in UNASKED and (is_own or kind in UNASKED[mode])
    return chosen.get(kind, "allow" if is_unasked else "ask")


def denied(effects: Iterable[Effect], mode: ApproveMode, chosen: Mapping[EffectKind, Decision]) -> str | None:
    """Return why a call with these effects must not run.

    Args:
        chosen: The setting ``effects``.

    Returns:
        Sentences for the model; ``None`` where no effect is denied.
    """
    found = [effect for effect in effects if decision(effect.kind, mode, chosen) == "deny"]
    if not found:
        return None
    kinds = ", ".join(dict.fromkeys(f"`{effect.kind}`" for effect in found))
    words = ", ".join(dict.fromkeys(effect.words for effect in found))
    by_mode = mode == "looks" and all(chosen.get(effect.kind) != "deny" for effect in found)
    why = _LOOKS if by_mode else f"the user's setting `effects` denies {kinds}. {_WITHOUT}"
    return f"Not allowed: this call {words}, and {why}."


def stricter(wanted: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Choose those decisions that are stricter than the user's own.

    Args:
        own: What the user sets; where that is nothing, all but to allow is stricter.

    >>> stricter({"deletes": "deny", "new_names": "allow", "unknown": "ask"}, {"unknown": "deny"})
    {'deletes': 'deny'}
    """
    rank = DECISIONS.index
    return {kind: to for kind, to in wanted.items() if rank(to) > rank(own.get(kind, "allow"))}
