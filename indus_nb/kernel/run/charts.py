"""Interactive charts as pictures for the model, where a library that draws them is installed: kaleido, vl-convert."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, cast

MAX_CHARTS = 4
_KINDS = re.compile(r"application/vnd\.(plotly|vegalite|vega)\.v[\d.]+\+json")
_MAX_PROBLEM_CHARACTERS = 200


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart as its library describes it."""

    kind: Literal["plotly", "vega", "vegalite"]
    spec: Mapping[str, Any]

    def describe(self) -> str:
        """Describe the chart by its library and kinds of marks."""
        if self.kind != "plotly":
            mark: Any = self.spec.get("mark", "")
            name: object = cast("Mapping[str, Any]", mark).get("type") if isinstance(mark, dict) else mark
            return f"Vega-Lite: {name}" if isinstance(name, str) and name else "Vega"
        traces: Any = self.spec.get("data", ())
        named = [cast("Mapping[str, object]", trace) for trace in traces if isinstance(trace, dict)]
        kinds = {str(trace.get("type", "scatter")) for trace in named}
        return ": ".join(filter(None, ("plotly", ", ".join(sorted(kinds)))))


def chart_of(value: Any, data: Mapping[str, Any]) -> Chart | None:
    """Return the chart in a display; ``None`` if there is none.

    Args:
        value: The displayed object, if it is known.

    Returns:
        The chart, of which the spec may be empty.
    """
    for kind, spec in data.items():
        found = _KINDS.fullmatch(kind)
        if found is not None and isinstance(spec, dict):
            return Chart(cast("Any", found[1]), cast("Mapping[str, Any]", spec))
    if type(value).__module__.startswith("altair.") and hasattr(value, "to_dict"):  # its usual display is HTML
        try:
            return Chart("vegalite", value.to_dict() if find_spec("vl_convert") else {})
        except Exception:  # noqa: BLE001 - the object's own code failed
            return Chart("vegalite", {})
    return None


def draw(charts: Sequence[Chart]) -> dict[Chart, bytes | str]:
    """Draw charts as PNG; takes seconds, and is called on a thread of its own.

    Returns:
        The bytes, or a phrase on why there are none.
    """
    return {chart: _drawn(chart) for chart in charts[:MAX_CHARTS]}


def _drawn(chart: Chart) -> bytes | str:
    try:
        if chart.kind == "plotly":
            return _plotly(chart.spec)
        return _vega(chart)
    except ImportError:
        wanted = "kaleido" if chart.kind == "plotly" else "vl-convert-python"
        return f" (a picture of it needs the package {wanted})"
    except Exception as error:  # noqa: BLE001 - whatever the library stumbles over
        problem = " ".join(str(error).split())[:_MAX_PROBLEM_CHARACTERS]
        return f" (it could not be drawn: {type(error).__name__}: {problem})"


def _plotly(spec: Mapping[str, Any]) -> bytes:
    if find_spec("kaleido") is None:
        raise ImportError
    import plotly.io as drawing  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

    figure = {name: spec[name] for name in ("data", "layout") if name in spec}
    return cast("Any", drawing).to_image(figure, format="png", validate=False)


def _vega(chart: Chart) -> bytes:
    import vl_convert  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]

    library = cast("Any", vl_convert)
    return library.vega_to_png(chart.spec) if chart.kind == "vega" else library.vegalite_to_png(chart.spec)
