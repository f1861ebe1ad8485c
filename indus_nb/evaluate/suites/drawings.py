"""Figures, graded by what their axes hold."""

# Frames are of libraries that say little of their types:
# pyright: basic

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb.base.wire import JsonObject
from indus_nb.evaluate.graders import FigureGrader
from indus_nb.evaluate.suites.making import survey, task, toy, varied

if TYPE_CHECKING:
    from numpy.random import Generator

DRAWINGS = "figures"


@task(
    DRAWINGS,
    "wine.csv holds chemical analyses of wines. Draw a vertical bar chart of the mean of color_intensity for each cultivar "
    "(column target): one bar for each, named as in the data, beginning at 0. The labels of the axes name the cultivar "
    '("cultivar") and what is shown ("color intensity").',
    """
    import matplotlib.pyplot as plt
    import pandas as pd
    means = pd.read_csv("wine.csv").groupby("target")["color_intensity"].mean()
    figure, axes = plt.subplots()
    axes.bar(means.index, means)
    axes.set_xlabel("Cultivar")
    axes.set_ylabel("Mean color intensity")
    """,
    FigureGrader(),
    "figure",
)
def bars_of_means(random: Generator, place: Path) -> JsonObject:
    """Draw a mean for each group."""
    frame = varied(toy("wine"), random, ["color_intensity"])
    frame.to_csv(place / "wine.csv", index=False)
    names = sorted(set(frame["target"]))
    marks = {name: float(frame.loc[frame["target"] == name, "color_intensity"].to_numpy().mean()) for name in names}
    return {"kind": "bars", "marks": marks, "x": "cultivar", "y": "color intensity"}


@task(
    DRAWINGS,
    "macro.csv holds quarters of the US economy (year, quarter, unemp, infl). Draw the yearly means of unemp and infl as "
    "two lines against the year, with a legend that names them unemp and infl, the x axis labelled year and the y axis "
    "labelled per cent. Only years with all four quarters count.",
    """
    import matplotlib.pyplot as plt
    import pandas as pd
    macro = pd.read_csv("macro.csv")
    years = macro.groupby("year")
    means = years[["unemp", "infl"]].mean()[years.size() == 4]
    figure, axes = plt.subplots()
    for name in means:
        axes.plot(means.index, means[name], label=name)
    axes.set(xlabel="year", ylabel="per cent")
    axes.legend()
    """,
    FigureGrader(),
    "figure",
)
def two_lines(random: Generator, place: Path) -> JsonObject:
    """Draw two series, without incomplete groups."""
    frame = survey("macrodata")[["year", "quarter", "unemp", "infl"]]
    frame[["year", "quarter"]] = frame[["year", "quarter"]].astype(int)
    start = int(random.integers(1960, 1985))
    frame = frame[frame["year"].between(start, start + 22)]
    frame = frame.drop(random.choice(frame.index, 5, replace=False)).reset_index(drop=True)
    for name in ("unemp", "infl"):
        frame[name] = (frame[name] * random.uniform(0.9, 1.1)).round(2)
    frame.to_csv(place / "macro.csv", index=False)
    whole = [year for year, part in frame.groupby("year") if len(part) == 4]
    marks: dict[str, Any] = {name: [] for name in ("unemp", "infl")}
    for year in whole:
        for name, points in marks.items():
            points.append([int(year), float(frame.loc[frame["year"] == year, name].to_numpy().mean())])
    return {"kind": "lines", "marks": marks, "x": "year", "y": "per cent"}


@task(
    DRAWINGS,
    "health.csv holds bmi and bp of patients; -1 stands for a value that was not measured. Draw a scatter plot of bp (y) "
    "against bmi (x) of the patients with both, and label the axes bmi and bp.",
    """
    import matplotlib.pyplot as plt
    import pandas as pd
    patients = pd.read_csv("health.csv")
    known = patients[(patients["bmi"] != -1) & (patients["bp"] != -1)]
    figure, axes = plt.subplots()
    axes.scatter(known["bmi"], known["bp"], s=8)
    axes.set(xlabel="bmi", ylabel="bp")
    """,
    FigureGrader(),
    "figure",
)
def measured_points(random: Generator, place: Path) -> JsonObject:
    """Draw points, without those that are codes for missing values."""
    frame = varied(toy("diabetes")[["bmi", "bp"]], random, [], rows=200)
    frame = frame.assign(bmi=(frame["bmi"] * 90 + 27).round(2), bp=(frame["bp"] * 250 + 95).round(1))
    for name in ("bmi", "bp"):
        frame.loc[random.random(len(frame)) < 0.08, name] = -1.0
    frame.to_csv(place / "health.csv", index=False)
    points = [[float(x), float(y)] for x, y in frame.to_numpy().tolist() if x != -1 and y != -1]
    return {"kind": "points", "marks": points, "x": "bmi", "y": "bp"}


@task(
    DRAWINGS,
    "growth.csv holds the size of cultures over the hours (hour, culture, cells). Draw one line for each culture, named in "
    "the legend as in the data, against the hour; cells on a logarithmic axis. Label the axes hour and cells.",
    """
    import matplotlib.pyplot as plt
    import pandas as pd
    growth = pd.read_csv("growth.csv").sort_values("hour")
    figure, axes = plt.subplots()
    for name, part in growth.groupby("culture"):
        axes.plot(part["hour"], part["cells"], label=name)
    axes.set(xlabel="hour", ylabel="cells", yscale="log")
    axes.legend()
    """,
    FigureGrader(),
    "figure",
)
def logarithmic_growth(random: Generator, place: Path) -> JsonObject:
    """Draw lines from rows that are in no order, on another scale."""
    import pandas as pd

    base = toy("iris")["petal_length"].to_numpy()
    marks: dict[str, list[list[float]]] = {}
    for name in random.choice(["A1", "B2", "C3", "D4", "E5"], 3, replace=False):
        rate, start = random.uniform(0.1, 0.5), float(random.choice(base)) * 1000
        cells = [round(start * 2.718 ** (rate * hour) * random.uniform(0.9, 1.1)) for hour in range(24)]
        marks[str(name)] = [[float(hour), float(count)] for hour, count in enumerate(cells)]
    rows = [(int(hour), name, int(cells)) for name, points in marks.items() for hour, cells in points]
    frame = pd.DataFrame(rows, columns=["hour", "culture", "cells"]).sample(frac=1, random_state=random)
    frame.to_csv(place / "growth.csv", index=False)
    return {"kind": "lines", "marks": marks, "x": "hour", "y": "cells", "yscale": "log"}


@task(
    DRAWINGS,
    "tumours.csv holds measurements of tumours. Draw a bar chart of the five columns whose means differ most between "
    "malignant and benign tumours (column target), as the absolute difference divided by the standard deviation of the "
    "whole column (with n - 1): one vertical bar for each, beginning at 0, named as the column. Label the x axis column "
    "and the y axis difference.",
    """
    import matplotlib.pyplot as plt
    import pandas as pd
    tumours = pd.read_csv("tumours.csv")
    values = tumours.drop(columns="target")
    means = values.groupby(tumours["target"]).mean()
    largest = ((means.loc["malignant"] - means.loc["benign"]).abs() / values.std()).nlargest(5)
    figure, axes = plt.subplots()
    axes.bar(largest.index, largest)
    axes.set(xlabel="column", ylabel="difference in standard deviations")
    """,
    FigureGrader(),
    "figure",
)
def five_largest(random: Generator, place: Path) -> JsonObject:
    """Draw the largest of many computed values."""
    frame = toy("breast_cancer")
    frame.columns = [str(name) for name in frame.columns]
    columns = [str(name) for name in random.choice(frame.columns[:20], 10, replace=False)]
    frame = varied(frame[[*columns, "target"]], random, columns, rows=300)
    frame.to_csv(place / "tumours.csv", index=False)
    bad = (frame["target"] == "malignant").to_numpy()
    found: dict[str, float] = {}
    for name in columns:
        values = frame[name].to_numpy()
        found[name] = float(abs(values[bad].mean() - values[~bad].mean()) / values.std(ddof=1))
    largest = sorted(columns, key=lambda name: -found[name])[:5]
    return {"kind": "bars", "marks": {name: found[name] for name in largest}, "x": "column", "y": "difference"}


@task(
    DRAWINGS,
    "sales.csv holds the turnover of shops by day (date, shop, turnover in euros), with days on which nothing was sold left "
    "out. Draw the cumulated turnover of all shops together as one line with a point for every day from the first to the "
    "last date of the file, against the number of days since the first (0, 1, 2, …). Label the axes day and turnover.",
    """
    import matplotlib.pyplot as plt
    import pandas as pd
    sales = pd.read_csv("sales.csv", parse_dates=["date"])
    daily = sales.groupby("date")["turnover"].sum().asfreq("D", fill_value=0).cumsum()
    figure, axes = plt.subplots()
    axes.plot(range(len(daily)), daily.to_numpy())
    axes.set(xlabel="day", ylabel="turnover")
    """,
    FigureGrader(),
    "figure",
)
def every_day(random: Generator, place: Path) -> JsonObject:
    """Draw a running total over days of which some are missing."""
    import pandas as pd

    days = pd.date_range("2024-01-29", periods=int(random.integers(35, 60)))
    base = toy("wine")["proline"].to_numpy()
    rows = [
        (day, shop, round(float(random.choice(base)), 2))
        for at, day in enumerate(days)
        for shop in ("North", "South")
        if at in (0, len(days) - 1) or random.random() < 0.55
    ]
    frame = pd.DataFrame(rows, columns=["date", "shop", "turnover"])
    frame.sample(frac=1, random_state=random).to_csv(place / "sales.csv", index=False)
    total, points = 0.0, []
    for at, day in enumerate(days):
        total += sum(amount for date, _, amount in rows if date == day)
        points.append([at, total])
    return {"kind": "lines", "marks": {"turnover": points}, "x": "day", "y": "turnover"}


TASKS = (bars_of_means, two_lines, measured_points, logarithmic_growth, five_largest, every_day)
