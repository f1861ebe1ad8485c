"""A prompt with the values of the user's variables, and hints for the user on those that are not in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from indus_nb.base import textcut
from indus_nb.kernel.values.describe import for_prompt
from indus_nb.kernel.values.interpolation import Computed, interpolate, named_values

_MAX_HINTS = 5
_HOW = "`%%agent -i` puts values into the lines of a cell."


def filled_in(
    text: str,
    namespace: Mapping[str, Any],
    compute: Callable[[Sequence[str]], Mapping[str, Computed]],
    *,
    evaluates: bool,
) -> tuple[str, list[str]]:
    """Put the values of variables into a prompt.

    Args:
        compute: Computes the values of placeholders in a copy of the kernel.
        evaluates: Whether to do so, rather than to say only that the prompt names variables.

    Returns:
        The prompt, and hints about what was left as it stands.
    """
    if not evaluates:
        named = named_values(text, namespace)
        return text, [f"{textcut.one_line(', '.join(named), 200)}: sent as it stands. {_HOW}"] if named else []
    filled = interpolate(text, namespace, for_prompt)
    if filled.to_compute:
        filled = interpolate(text, namespace, for_prompt, compute(filled.to_compute))
    stayed = {f"{{{name}}}": "there is no such variable" for name in filled.missing} | filled.kept
    hints = [f"{source} was left as it stands: {why}." for source, why in stayed.items()]
    if len(hints) > _MAX_HINTS:
        hints[_MAX_HINTS - 1 :] = [f"{len(hints) - _MAX_HINTS + 1} more were left as they stand."]
    return filled.text, hints
