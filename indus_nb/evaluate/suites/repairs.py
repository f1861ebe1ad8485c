"""Notebooks that do not run, or give a wrong value, and are to be repaired."""

# Frames are of libraries that say little of their types:
# pyright: basic

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.evaluate.benchmark_task import notebook
from indus_nb.evaluate.graders import NumberGrader, WordGrader
from indus_nb.evaluate.suites.making import survey, task, toy, varied

if TYPE_CHECKING:
    from numpy.random import Generator

REPAIRS = "repairs"
_ASKED = (
    "The notebook {name} no longer runs from top to bottom in a fresh kernel. {what} Repair it, and change nothing of what "
    "it computes."
)
_EDIT = """
import json
path = {name!r}
document = json.load(open(path))
cells = document["cells"]
def replace(old, new):
    assert any(old in "".join(cell["source"]) for cell in cells), old
    for cell in cells:
        cell["source"] = "".join(cell["source"]).replace(old, new).splitlines(keepends=True)
{edit}
json.dump(document, open(path, "w"))
"""


def _edit(name: str, edit: str) -> str:
    """Return code that changes a notebook's cells, as an agent would."""
    return _EDIT.format(name=name, edit=edit)


def _write(place: Path, name: str, *cells: str) -> None:
    (place / name).write_text(notebook(cells))


@task(
    REPAIRS,
    _ASKED.format(name="report.ipynb", what="Its cells were moved about while it was worked on."),
    _edit("report.ipynb", "cells.insert(2, cells.pop(0))"),
    NumberGrader(),
    "notebook",
)
def cells_out_of_order(random: Generator, place: Path) -> float:
    """Put a cell behind those that define what it uses."""
    frame = varied(toy("wine"), random, ["alcohol", "malic_acid"])
    frame.to_csv(place / "wine.csv", index=False)
    _write(
        place,
        "report.ipynb",
        'strong = wine[wine["alcohol"] > limit]',
        'import pandas as pd\nwine = pd.read_csv("wine.csv")',
        'limit = wine["alcohol"].quantile(0.75)',
        'answer = float(strong["malic_acid"].mean())',
    )
    alcohol = frame["alcohol"].to_numpy()
    limit = float(frame["alcohol"].quantile(0.75))
    return float(frame["malic_acid"].to_numpy()[alcohol > limit].mean())


@task(
    REPAIRS,
    _ASKED.format(
        name="growth.ipynb",
        what="The file that it reads has got other names for its columns; schema.txt says which is which.",
    ),
    _edit(
        "growth.ipynb",
        """
replace('macro["realcons"]', 'macro["consumption_real"]')
replace('macro["realgdp"]', 'macro["gdp_real"]')
""",
    ),
    NumberGrader(),
    "notebook",
)
def renamed_columns(random: Generator, place: Path) -> float:
    """Adapt to names that have changed."""
    frame = survey("macrodata")[["year", "realgdp", "realcons"]]
    frame = varied(frame, random, ["realgdp", "realcons"], rows=150)
    expected = float((frame["realcons"] / frame["realgdp"]).mean())
    new = {"realgdp": "gdp_real", "realcons": "consumption_real", "year": "jahr"}
    frame.rename(columns=new).to_csv(place / "macro.csv", index=False)
    (place / "schema.txt").write_text("\n".join(f"{old} is now {name}" for old, name in new.items()) + "\n")
    _write(
        place,
        "growth.ipynb",
        'import pandas as pd\nmacro = pd.read_csv("macro.csv")',
        'share = macro["realcons"] / macro["realgdp"]',
        "answer = float(share.mean())",
    )
    return expected


@task(
    REPAIRS,
    _ASKED.format(name="prices.ipynb", what='It fails since the export writes prices such as "1,234.50 EUR".'),
    _edit(
        "prices.ipynb",
        """
replace('prices["price"] * prices["pieces"]', 'price * prices["pieces"]')
cells[1]["source"] = [
    'price = prices["price"].str.replace(" EUR", "").str.replace(",", "").astype(float)\\n', *cells[1]["source"]
]
""",
    ),
    NumberGrader(1e-6),
    "notebook",
)
def prices_as_text(random: Generator, place: Path) -> float:
    """Read numbers that are written for people."""
    import pandas as pd

    price = (random.lognormal(6, 1.2, 80)).round(2)
    pieces = random.integers(1, 30, 80)
    frame = pd.DataFrame({"price": [f"{each:,.2f} EUR" for each in price], "pieces": pieces})
    frame.to_csv(place / "prices.csv", index=False)
    _write(
        place,
        "prices.ipynb",
        'import pandas as pd\nprices = pd.read_csv("prices.csv")',
        'total = (prices["price"] * prices["pieces"]).sum()',
        "answer = float(total)",
    )
    return float((price * pieces).sum())


@task(
    REPAIRS,
    _ASKED.format(name="merge.ipynb", what="It was written for an old version of pandas."),
    _edit("merge.ipynb", 'replace("first.append(second)", "pd.concat([first, second])")'),
    NumberGrader(),
    "notebook",
)
def method_that_is_gone(random: Generator, place: Path) -> float:
    """Replace what a library no longer has."""
    frame = varied(toy("iris"), random, ["sepal_length"])
    half = int(random.integers(40, 80))
    frame.iloc[:half].to_csv(place / "first.csv", index=False)
    frame.iloc[half:].to_csv(place / "second.csv", index=False)
    _write(
        place,
        "merge.ipynb",
        'import pandas as pd\nfirst, second = pd.read_csv("first.csv"), pd.read_csv("second.csv")',
        "flowers = first.append(second)",
        'answer = float(flowers["sepal_length"].std())',
    )
    return float(frame["sepal_length"].to_numpy().std(ddof=1))


@task(
    REPAIRS,
    _ASKED.format(
        name="scores.ipynb",
        what="It uses a variable that was once defined in a cell which has been deleted: a text above the cell says what "
        "it was.",
    ),
    _edit(
        "scores.ipynb",
        """
cells.insert(1, {**cells[0], "id": "weights", "source": ["weights = scores['rounds'] / scores['rounds'].sum()"]})
""",
    ),
    WordGrader(),
    "notebook",
)
def deleted_definition(random: Generator, place: Path) -> str:
    """Define again what only the old kernel knew."""
    import pandas as pd

    names = [f"team-{letter}" for letter in "abcdefgh"]
    rounds, points = random.integers(5, 40, 8), random.uniform(20, 60, 8).round(2)
    random.shuffle(names)
    pd.DataFrame({"team": names, "rounds": rounds, "points": points}).to_csv(place / "scores.csv", index=False)
    _write(
        place,
        "scores.ipynb",
        'import pandas as pd\nscores = pd.read_csv("scores.csv")',
        "# weights: each team's share of all rounds\nweighted = scores['points'] * weights",
        "answer = str(scores.loc[weighted.idxmax(), 'team'])",
    )
    best = int((rounds * points).argmax())
    return names[best]


@task(
    REPAIRS,
    "The notebook means.ipynb runs, and its answer is wrong: it is to be the mean over shops of each shop's median "
    "turnover of a day, without the days on which a shop was closed (turnover 0). Repair it.",
    _edit(
        "means.ipynb",
        """
replace('sales.fillna(0)', 'sales[sales["turnover"] > 0]')
replace('open_days.groupby("day")', 'open_days.groupby("shop")')
""",
    ),
    NumberGrader(1e-5),
    "notebook",
)
def runs_and_is_wrong(random: Generator, place: Path) -> float:
    """Find mistakes that raise nothing."""
    import numpy as np
    import pandas as pd

    base = toy("wine")["proline"].to_numpy()
    rows = [
        (day, f"S{shop}", 0.0 if random.random() < 0.2 else round(float(random.choice(base)) * (1 + shop / 3), 2))
        for day in range(1, 41)
        for shop in range(int(random.integers(3, 6)))
    ]
    pd.DataFrame(rows, columns=["day", "shop", "turnover"]).to_csv(place / "sales.csv", index=False)
    _write(
        place,
        "means.ipynb",
        'import pandas as pd\nsales = pd.read_csv("sales.csv")',
        "open_days = sales.fillna(0)",
        'medians = open_days.groupby("day")["turnover"].median()',
        "answer = float(medians.mean())",
    )
    shops = sorted({shop for _, shop, _ in rows})
    medians = [np.median([amount for _, of, amount in rows if of == shop and amount > 0]) for shop in shops]
    return float(np.mean(medians))


TASKS = (
    cells_out_of_order,
    renamed_columns,
    prices_as_text,
    method_that_is_gone,
    deleted_definition,
    runs_and_is_wrong,
)
