"""Runs the notebooks and saves what they show; records the cassettes of those that need one.

    python tests/notebooks/record.py            all of them
    python tests/notebooks/record.py branches   only this one

Run it after a change of a notebook, and of anything that a request is made of: prompts, tools and their schemas, how
variables are told. The answers of the cassettes stand below. They were written by hand, no model has given them; the
notebooks say so.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from executed_notebooks import NAMES, NOTEBOOKS, executed
from messages_api import Block, MessagesApi, Reply, ToolUse

_LOOK = """\
print("no temperature:", sales["temperature"].isna().sum())
print("days without a row:", 3 * sales["day"].nunique() - len(sales))
sales.nlargest(3, "temperature")
"""
_PLOT = """\
import numpy as np

known = sales.dropna()
slopes = {}
fig, ax = plt.subplots(figsize=(6, 3.6))
for stall, days in known.groupby("stall", observed=True):
    slope, start = np.polyfit(days["temperature"], days["cups"], 1)
    slopes[stall] = round(float(slope), 1)
    dots = ax.scatter(days["temperature"], days["cups"], s=14, label=f"{stall}: {slope:+.1f} cups per °C")
    ends = np.array([days["temperature"].min(), days["temperature"].max()])
    ax.plot(ends, start + slope * ends, color=dots.get_facecolor()[0])
ax.set(xlabel="temperature (°C)", ylabel="cups sold in a day")
ax.legend(frameon=False)
plt.show()
lines = pd.DataFrame({"cups per degree": slopes})
lines
"""
_ODD = """\
Two things:

- **One temperature cannot be right:** 215 °C in the park on day 17. The beach had 21.6 °C on that day, so a decimal \
point is missing: 21.5 °C.
- **Three temperatures are missing**, one for each stall. The cups of these days are there.

No day is missing. I have changed nothing.\
"""
_WARMER = """\
The warmer, the more is sold, and how much more depends on the place: **9.0 cups** for each degree at the beach, \
**4.7** in the park, and only **0.8** at the station. The numbers are in `lines`.\
"""
_SEASON = """\
- `{python} f"{sales.cups.sum():,}"` cups were sold in `{python} sales.day.nunique()` days.
- Most were sold at the `{python} sales.groupby("stall", observed=True).cups.sum().idxmax()`, and a cup costs least at \
the `{python} min(prices, key=prices.get)`.
- The hottest day had `{python} f"{sales.temperature.max():.1f}"` °C.\
"""
_HOTTEST = """\
The hottest day had `{python} f"{sales.temperature.max():.1f}"` °C, at the \
`{python} sales.stall[sales.temperature.idxmax()]`.\
"""

ANSWERS: Mapping[str, tuple[Sequence[Block], ...]] = {
    "data_analysis": (
        ["I look at what is missing, and at the highest temperatures.", ToolUse("python", {"code": _LOOK})],
        [_ODD],
        [
            "I fit a line for each stall, and leave out the three days without a temperature.",
            ToolUse("python", {"code": _PLOT}),
        ],
        [_WARMER],
        ["The beach: ten degrees more mean about 90 cups more there, 47 in the park, and hardly any at the station."],
    ),
    "answers_that_stay_true": ([_SEASON], [_HOTTEST]),
    "tools_from_functions": (
        [
            ToolUse("cups_sold", {"stall": "beach", "last_day": 10}),
            ToolUse("cups_sold", {"stall": "park", "last_day": 10}),
        ],
        ["The beach: 1,353 cups in the first ten days, against 1,165 in the park."],
        [ToolUse("week", {"number": 7})],
        ["The season is shorter. I take its last week.", ToolUse("week", {"number": 6})],
        ["There is no week 7. In week 6, the last one, the beach sold 628 cups, the park 609 and the station 464."],
        [ToolUse("order_ice", {"stall": "beach", "kilos": 25})],
        ["25 kg of ice are on their way to the beach."],
    ),
}
"""What is answered to the requests of a notebook, in their order."""


def main(names: list[str]) -> None:
    """Record and run the notebooks of these names, or all of them."""
    if unknown := set(names) - set(NAMES):
        sys.exit(f"There is no notebook {', '.join(unknown)}. Notebooks: {', '.join(NAMES)}")
    for name in names or NAMES:
        if name in ANSWERS:
            record(name)
        with tempfile.TemporaryDirectory() as root:
            nbformat.write(executed(name, Path(root)), NOTEBOOKS / f"{name}.ipynb")
        print(name)


def record(name: str) -> None:
    """Record the cassette of a notebook, from a server that gives the answers above."""
    cassette = Path("cassettes", f"{name}.json")
    nothing = {"input_tokens": 0, "output_tokens": 0}
    answers = [Reply(*blocks, usage=nothing, final_usage={"output_tokens": 0}) for blocks in ANSWERS[name]]
    with MessagesApi(*answers) as api, tempfile.TemporaryDirectory() as root:
        executed(
            name,
            Path(root),
            INDUS_NB_CASSETTE_MODE="record",
            ANTHROPIC_BASE_URL=api.url,
            ANTHROPIC_API_KEY="none",
        )
        shutil.copy(Path(root, "notebooks", cassette), NOTEBOOKS / cassette)
    if len(api.requests) != len(answers):
        sys.exit(f"{name} asked {len(api.requests)} times, and there are {len(answers)} answers.")


if __name__ == "__main__":
    main(sys.argv[1:])
