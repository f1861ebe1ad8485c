"""Questions with one answer, on tidy data."""

# Frames are of libraries that say little of their types:
# pyright: basic

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb.evaluate.benchmark_task import table
from indus_nb.evaluate.graders import NamesGrader, NumberGrader, TableGrader, WordGrader
from indus_nb.evaluate.suites.making import survey, task, toy, varied

if TYPE_CHECKING:
    from numpy.random import Generator

FACTS = "facts"


@task(
    FACTS,
    "wine.csv holds chemical analyses of wines of three cultivars (column target). By how much does the mean of alcohol "
    "of class_0 exceed that of class_1?",
    """
    import pandas as pd
    wine = pd.read_csv("wine.csv")
    means = wine.groupby("target")["alcohol"].mean()
    answer = means["class_0"] - means["class_1"]
    """,
    NumberGrader(),
)
def alcohol_gap(random: Generator, place: Path) -> float:
    """Compare two groups."""
    frame = varied(toy("wine"), random, ["alcohol", "malic_acid", "proline"])
    frame.to_csv(place / "wine.csv", index=False)
    of_class = {name: frame.loc[frame["target"] == name, "alcohol"].to_numpy() for name in ("class_0", "class_1")}
    return float(of_class["class_0"].mean() - of_class["class_1"].mean())


@task(
    FACTS,
    "iris.csv holds measurements of flowers. Make a table with a row for each species (column target) and the columns "
    "target, median_length and iqr_width: the median of petal_length and the interquartile range of petal_width "
    "(linear interpolation, as numpy does by default).",
    """
    import pandas as pd
    iris = pd.read_csv("iris.csv")
    groups = iris.groupby("target")
    width = groups["petal_width"]
    answer = pd.DataFrame({
        "median_length": groups["petal_length"].median(), "iqr_width": width.quantile(0.75) - width.quantile(0.25),
    }).reset_index()
    """,
    TableGrader(("target",)),
)
def petals_by_species(random: Generator, place: Path) -> Any:
    """Summarise each group robustly."""
    import numpy as np
    import pandas as pd

    frame = varied(toy("iris"), random, ["petal_length", "petal_width", "sepal_length"])
    frame.to_csv(place / "iris.csv", index=False)
    rows: list[dict[str, Any]] = []
    for name in sorted(set(frame["target"])):
        part = frame[frame["target"] == name]
        low, high = np.percentile(part["petal_width"], [25, 75])
        median = float(np.median(part["petal_length"]))
        rows.append({"target": name, "median_length": median, "iqr_width": float(high - low)})
    return table(pd.DataFrame(rows))


@task(
    FACTS,
    "diabetes.csv holds patients: age, sex, bmi, bp (blood pressure) and target (progression of the disease). By how "
    "much does target change with one unit of bmi in a linear regression on bmi, bp, age and sex, with an intercept?",
    """
    import pandas as pd
    import statsmodels.formula.api as smf
    patients = pd.read_csv("diabetes.csv")
    answer = float(smf.ols("target ~ bmi + bp + age + sex", patients).fit().params["bmi"])
    """,
    NumberGrader(),
)
def slope_of_bmi(random: Generator, place: Path) -> float:
    """Fit a regression with several predictors."""
    import numpy as np

    frame = varied(toy("diabetes"), random, ["target", "bmi"], rows=350)
    frame["bmi"] = (frame["bmi"] * 100 + 27).round(3)
    frame.to_csv(place / "diabetes.csv", index=False)
    design = np.column_stack([np.ones(len(frame)), frame[["bmi", "bp", "age", "sex"]]])
    return float(np.linalg.lstsq(design, frame["target"].to_numpy(), rcond=None)[0][1])


@task(
    FACTS,
    "macro.csv holds quarters of the US economy: year, quarter, realgdp (billions of dollars), unemp. In which year did "
    "the mean of realgdp over its quarters grow most, in per cent against the year before?",
    """
    import pandas as pd
    macro = pd.read_csv("macro.csv")
    answer = int(macro.groupby("year")["realgdp"].mean().pct_change().idxmax())
    """,
    WordGrader(),
)
def best_year(random: Generator, place: Path) -> int:
    """Aggregate, compare with the row before, and find the largest."""
    frame = survey("macrodata")[["year", "quarter", "realgdp", "unemp"]]
    start = int(random.integers(1959, 1975))
    frame = frame[(frame["year"] >= start) & (frame["year"] < start + 32)].reset_index(drop=True)
    frame["realgdp"] = (frame["realgdp"] * random.uniform(0.96, 1.04, len(frame))).round(3)
    frame[["year", "quarter"]] = frame[["year", "quarter"]].astype(int)
    frame.sample(frac=1, random_state=random).to_csv(place / "macro.csv", index=False)
    means = {year: float(part["realgdp"].to_numpy().mean()) for year, part in frame.groupby("year")}
    growth = {int(year): means[year] / means[year - 1] for year in means if year - 1 in means}
    return max(growth, key=lambda year: growth[year])


@task(
    FACTS,
    "tumours.csv holds tumours with their target (benign or malignant). How well does mean_radius alone tell malignant "
    "from benign ones: what is the area under the ROC curve, with larger radii taken for malignant?",
    """
    import pandas as pd
    from sklearn.metrics import roc_auc_score
    tumours = pd.read_csv("tumours.csv")
    answer = roc_auc_score(tumours["target"] == "malignant", tumours["mean_radius"])
    """,
    NumberGrader(1e-5),
)
def area_under_curve(random: Generator, place: Path) -> float:
    """Measure how well a column separates two groups."""
    frame = toy("breast_cancer")[["mean_radius", "mean_texture", "mean_area", "target"]]
    frame = varied(frame, random, ["mean_radius", "mean_texture"], rows=400)
    frame["mean_radius"] = (frame["mean_radius"] + random.normal(0, 1.5, len(frame))).round(2)
    frame.to_csv(place / "tumours.csv", index=False)
    bad = frame.loc[frame["target"] == "malignant", "mean_radius"].to_numpy()[:, None]
    good = frame.loc[frame["target"] == "benign", "mean_radius"].to_numpy()[None, :]
    return float(((bad > good) + 0.5 * (bad == good)).mean())


@task(
    FACTS,
    "engel.csv holds households: income and foodexp, what they spend on food. What is the income elasticity of spending "
    "on food, as the slope of a least-squares line through the logarithms of both?",
    """
    import numpy as np
    import pandas as pd
    homes = pd.read_csv("engel.csv")
    answer = float(np.polyfit(np.log(homes["income"]), np.log(homes["foodexp"]), 1)[0])
    """,
    NumberGrader(),
)
def elasticity(random: Generator, place: Path) -> float:
    """Fit a line after a change of scale."""
    import numpy as np

    frame = varied(survey("engel"), random, ["income", "foodexp"])
    frame.to_csv(place / "engel.csv", index=False)
    x, y = np.log(frame["income"].to_numpy()), np.log(frame["foodexp"].to_numpy())
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


@task(
    FACTS,
    "wine.csv holds chemical analyses of wines. Which three columns correlate most with alcohol, by the absolute value "
    "of Spearman's rank correlation (alcohol itself and the text column target aside)? Give their names, the strongest "
    "first.",
    """
    import pandas as pd
    wine = pd.read_csv("wine.csv").drop(columns="target")
    found = wine.corr("spearman")["alcohol"].drop("alcohol").abs().sort_values(ascending=False)
    answer = list(found.index[:3])
    """,
    NamesGrader(ordered=True),
)
def strongest_correlations(random: Generator, place: Path) -> list[str]:
    """Rank columns by a measure, with its sign left out."""
    import numpy as np

    frame = varied(toy("wine"), random, [], rows=90)
    columns = [name for name in frame.columns if name != "target"]
    for name in columns:
        frame[name] = (frame[name] + frame[name].std() * random.normal(0, 0.6, len(frame))).round(3)
    frame.to_csv(place / "wine.csv", index=False)
    ranks = frame[columns].rank().to_numpy()
    found = dict(zip(columns, np.corrcoef(ranks.T)[columns.index("alcohol")], strict=True))
    found.pop("alcohol")
    return sorted(found, key=lambda name: -abs(found[name]))[:3]


@task(
    FACTS,
    "co2.csv holds weekly measurements of CO2 (ppm; date, co2), some of them missing. What is the mean yearly increase: "
    "the slope, in ppm a year, of a least-squares line through the yearly means (missing weeks left out) against the "
    "year?",
    """
    import numpy as np
    import pandas as pd
    weeks = pd.read_csv("co2.csv", parse_dates=["date"])
    means = weeks.groupby(weeks["date"].dt.year)["co2"].mean().dropna()
    answer = float(np.polyfit(means.index, means, 1)[0])
    """,
    NumberGrader(1e-3),
)
def yearly_increase(random: Generator, place: Path) -> float:
    """Aggregate dates, with gaps, and fit a trend."""
    import numpy as np

    frame = survey("co2").rename_axis("date").reset_index()
    start = int(random.integers(1960, 1978))
    frame = frame[frame["date"].dt.year.between(start, start + 20)].reset_index(drop=True)
    frame["co2"] = (frame["co2"] * random.uniform(0.9, 1.1) + random.normal(0, 0.4, len(frame))).round(2)
    frame.loc[random.random(len(frame)) < 0.05, "co2"] = np.nan
    frame.to_csv(place / "co2.csv", index=False)
    years = sorted(set(frame["date"].dt.year))
    means = np.array([np.nanmean(frame.loc[frame["date"].dt.year == year, "co2"]) for year in years])
    x = np.array(years, float)
    return float(((x - x.mean()) * (means - means.mean())).sum() / ((x - x.mean()) ** 2).sum())


TASKS = (
    alcohol_gap,
    petals_by_species,
    slope_of_bmi,
    best_year,
    area_under_curve,
    elasticity,
    strongest_correlations,
    yearly_increase,
)
