"""Conversations of several prompts, in which a later one changes, doubts or takes back an earlier step."""

# Frames are of libraries that say little of their types:
# pyright: basic

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb.evaluate.benchmark_task import table
from indus_nb.evaluate.graders import NumberGrader, TableGrader, WordGrader
from indus_nb.evaluate.suites.making import survey, task, toy, varied

if TYPE_CHECKING:
    from numpy.random import Generator

ROLLBACKS = "rollbacks"


@task(
    ROLLBACKS,
    (
        (
            "wine.csv holds chemical analyses of wines. Load it as wine, and remove the rows whose proline lies above its 90 % "
            "quantile. How many rows are left? Leave the number in answer."
        ),
        (
            "Now scale every column of numbers of what is left to mean 0 and standard deviation 1 (with n - 1). Leave the mean "
            "of the scaled alcohol over class_1 (column target) in answer."
        ),
        (
            "Removing rows by proline was a mistake: take it back, and do the scaling on all rows. Leave the same mean in "
            "answer."
        ),
    ),
    (
        """
        import pandas as pd
        wine = pd.read_csv("wine.csv")
        kept = wine[wine["proline"] <= wine["proline"].quantile(0.9)]
        answer = len(kept)
        """,
        """
        def mean_of_class(frame):
            numbers = frame.select_dtypes("number")
            scaled = (numbers - numbers.mean()) / numbers.std()
            return float(scaled.loc[frame["target"] == "class_1", "alcohol"].mean())
        answer = mean_of_class(kept)
        """,
        """
        answer = mean_of_class(wine)
        """,
    ),
    NumberGrader(),
)
def filter_taken_back(random: Generator, place: Path) -> float:
    """Take back a first step, and keep the second."""
    frame = varied(toy("wine"), random, ["alcohol", "proline"])
    frame.to_csv(place / "wine.csv", index=False)
    alcohol = frame["alcohol"].to_numpy()
    scaled = (alcohol - alcohol.mean()) / alcohol.std(ddof=1)
    return float(scaled[(frame["target"] == "class_1").to_numpy()].mean())


@task(
    ROLLBACKS,
    (
        (
            "macro.csv holds quarters of the US economy (year, quarter, realgdp, unemp). Make yearly means of both columns, and "
            "leave the number of years in answer."
        ),
        (
            "Suppose for a moment that unemp had been 1.5 points higher in each quarter before 1985. Leave the mean of the "
            "yearly means of unemp under this supposition in answer."
        ),
        (
            "Back to what was measured: drop the supposition. By how much does the mean of the yearly means of unemp from 1985 "
            "on exceed that of the years before? Leave the difference in answer."
        ),
    ),
    (
        """
        import pandas as pd
        macro = pd.read_csv("macro.csv")
        yearly = macro.groupby("year")[["realgdp", "unemp"]].mean()
        answer = len(yearly)
        """,
        """
        supposed = macro.assign(unemp=macro["unemp"] + 1.5 * (macro["year"] < 1985))
        answer = float(supposed.groupby("year")["unemp"].mean().mean())
        """,
        """
        late = yearly.index >= 1985
        answer = float(yearly.loc[late, "unemp"].mean() - yearly.loc[~late, "unemp"].mean())
        """,
    ),
    NumberGrader(1e-4, 1e-6),
)
def only_supposed(random: Generator, place: Path) -> float:
    """Drop a supposition, and go on with what was measured."""
    import numpy as np

    frame = survey("macrodata")[["year", "quarter", "realgdp", "unemp"]]
    start = int(random.integers(1960, 1972))
    frame = frame[frame["year"].between(start, start + 33)].reset_index(drop=True)
    frame[["year", "quarter"]] = frame[["year", "quarter"]].astype(int)
    frame["unemp"] = (frame["unemp"] * random.uniform(0.85, 1.2, len(frame))).round(2)
    frame.to_csv(place / "macro.csv", index=False)
    means = {year: float(part["unemp"].to_numpy().mean()) for year, part in frame.groupby("year")}
    late = [mean for year, mean in means.items() if year >= 1985]
    early = [mean for year, mean in means.items() if year < 1985]
    return float(np.mean(late) - np.mean(early))


@task(
    ROLLBACKS,
    (
        (
            "health.csv holds patients (patient, age, bmi, target). Put them into the age groups young (below 40), middle (40 "
            "up to but not including 60) and old, and leave the mean of target of each group in answer: a table with the "
            "columns group and target."
        ),
        "The limits are to be 45 and 65 instead. Again the table in answer.",
        "Without the patients whose bmi is above 35, please. Again the table in answer.",
        "Back to the first limits, 40 and 60, but still without those above 35. Again the table in answer.",
    ),
    (
        """
        import pandas as pd
        patients = pd.read_csv("health.csv")
        def by_group(frame, low, high):
            group = pd.cut(frame["age"], [-1, low, high, 200], right=False, labels=["young", "middle", "old"]).astype(str)
            return frame.groupby(group)["target"].mean().rename_axis("group").reset_index()
        answer = by_group(patients, 40, 60)
        """,
        "answer = by_group(patients, 45, 65)",
        """
        light = patients[patients["bmi"] <= 35]
        answer = by_group(light, 45, 65)
        """,
        "answer = by_group(light, 40, 60)",
    ),
    TableGrader(("group",)),
)
def limits_taken_back(random: Generator, place: Path) -> Any:
    """Take back a change of one step, and keep a later one of another."""
    import pandas as pd

    frame = varied(toy("diabetes")[["age", "bmi", "target"]], random, ["target"], rows=330)
    frame["age"] = (frame["age"] * 330 + 50).round(0).astype(int)
    frame["bmi"] = (frame["bmi"] * 110 + 29).round(1)
    frame.insert(0, "patient", range(1, len(frame) + 1))
    frame.to_csv(place / "health.csv", index=False)
    groups: dict[str, list[float]] = {"young": [], "middle": [], "old": []}
    for age, bmi, target in frame[["age", "bmi", "target"]].itertuples(index=False):
        if bmi <= 35:
            groups["young" if age < 40 else "middle" if age < 60 else "old"].append(target)
    rows = [(name, sum(values) / len(values)) for name, values in groups.items()]
    return table(pd.DataFrame(rows, columns=["group", "target"]))


@task(
    ROLLBACKS,
    (
        (
            "orders.csv holds orders (order_id, customer, amount). Load it as orders, and leave the customer with the largest "
            "total amount in answer."
        ),
        (
            "Orders above 1,000 are entered with a mistake in the decimal point: divide the amount of these by 10, in orders "
            "itself. Again the customer with the largest total in answer."
        ),
        (
            "The office has looked: only the orders that wrong.csv lists are wrong, and of those each, whatever its amount. Undo "
            "the correction of before, correct these instead (divide by 10), and leave the customer with the largest total in "
            "answer."
        ),
    ),
    (
        """
        import pandas as pd
        orders = pd.read_csv("orders.csv")
        def best(frame):
            return str(frame.groupby("customer")["amount"].sum().idxmax())
        answer = best(orders)
        """,
        """
        before = orders.copy()
        orders.loc[orders["amount"] > 1000, "amount"] /= 10
        answer = best(orders)
        """,
        """
        orders = before.copy()
        wrong = pd.read_csv("wrong.csv")["order_id"]
        orders.loc[orders["order_id"].isin(wrong), "amount"] /= 10
        answer = best(orders)
        """,
    ),
    WordGrader(),
)
def correction_undone(random: Generator, place: Path) -> str:
    """Undo a change that was made in place, and make another."""
    import pandas as pd

    base = toy("wine")["proline"].to_numpy()
    customers = [f"C{number}" for number in random.choice(range(100, 999), 12, replace=False)]
    frame = pd.DataFrame(
        {
            "order_id": random.permutation(range(1000, 1160)),
            "customer": random.choice(customers, 160),
            "amount": (random.choice(base, 160) * random.uniform(0.7, 1.3, 160)).round(2),
        }
    )
    wrong = random.choice(frame["order_id"].to_numpy(), 45, replace=False)
    frame.to_csv(place / "orders.csv", index=False)
    pd.DataFrame({"order_id": wrong}).to_csv(place / "wrong.csv", index=False)
    totals: dict[str, float] = {}
    for order, customer, amount in frame.itertuples(index=False):
        totals[customer] = totals.get(customer, 0) + (amount / 10 if order in wrong else amount)
    return max(totals, key=lambda name: totals[name])


@task(
    ROLLBACKS,
    (
        (
            "engel.csv holds households (income, foodexp). Fit a least-squares line of foodexp on income, call it model A, and "
            "leave its slope in answer."
        ),
        (
            "Call the same fit without the tenth of the households with the highest incomes (those above the 90 % quantile) "
            "model B. Leave its slope in answer."
        ),
        "Model C is fitted on the logarithms of both, on all households. Leave its slope in answer.",
        (
            "Which of A and B has the smaller mean absolute error on the households that B leaves out? Leave that error, of the "
            "better of the two, in answer."
        ),
    ),
    (
        """
        import numpy as np
        import pandas as pd
        homes = pd.read_csv("engel.csv")
        model_a = np.polyfit(homes["income"], homes["foodexp"], 1)
        answer = float(model_a[0])
        """,
        """
        rich = homes["income"] > homes["income"].quantile(0.9)
        model_b = np.polyfit(homes.loc[~rich, "income"], homes.loc[~rich, "foodexp"], 1)
        answer = float(model_b[0])
        """,
        """
        model_c = np.polyfit(np.log(homes["income"]), np.log(homes["foodexp"]), 1)
        answer = float(model_c[0])
        """,
        """
        left_out = homes[rich]
        errors = [(left_out["foodexp"] - np.polyval(model, left_out["income"])).abs().mean() for model in (model_a, model_b)]
        answer = float(min(errors))
        """,
    ),
    NumberGrader(1e-3),
)
def earlier_models(random: Generator, place: Path) -> float:
    """Come back to earlier results after a detour."""
    import numpy as np

    frame = varied(survey("engel"), random, ["income", "foodexp"])
    frame.to_csv(place / "engel.csv", index=False)
    x, y = frame["income"].to_numpy(), frame["foodexp"].to_numpy()
    rich = x > np.percentile(x, 90)
    errors: list[float] = []
    for used in (np.ones(len(x), bool), ~rich):
        slope, start = np.linalg.lstsq(np.column_stack([x[used], np.ones(used.sum())]), y[used], rcond=None)[0]
        errors.append(float(np.abs(y[rich] - slope * x[rich] - start).mean()))
    return min(errors)


TASKS = (filter_taken_back, only_supposed, limits_taken_back, correction_undone, earlier_models)
