"""Questions on data that are wrong in ways that compute all the same: duplicates, units, joins that multiply."""

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

TRAPS = "traps"


def _orders(random: Generator, count: int = 240) -> Any:
    """Return orders with what they are worth, which the measurements of wines lend."""
    import pandas as pd

    wine = varied(toy("wine"), random, ["proline"], rows=120)
    amounts = random.choice(wine["proline"].to_numpy(), count).round(2)
    return pd.DataFrame(
        {
            "order_id": [f"{number:05d}" for number in random.permutation(range(100, 100 + count * 7, 7))],
            "customer": [f"C{number:03d}" for number in random.integers(1, 60, count)],
            "amount": amounts,
        }
    )


@task(
    TRAPS,
    "sales.csv is an export of orders (order_id, customer, amount in euros, exported_at). It was put together from several "
    "exports that overlap, so an order may stand there more than once; where its amount differs, the newest export is "
    "right. What is the total of all orders?",
    """
    import pandas as pd
    sales = pd.read_csv("sales.csv", dtype={"order_id": str}, parse_dates=["exported_at"])
    last = sales.sort_values("exported_at").drop_duplicates("order_id", keep="last")
    answer = last["amount"].sum()
    """,
    NumberGrader(1e-6),
)
def exported_twice(random: Generator, place: Path) -> float:
    """Add each order once, as it was exported last."""
    import pandas as pd

    orders = _orders(random)
    total = float(orders["amount"].sum())
    again = orders.sample(70, random_state=random)
    changed = again.copy()
    changed.loc[changed.index[:25], "amount"] = (changed["amount"].iloc[:25] * random.uniform(0.5, 0.9, 25)).round(2)
    orders["exported_at"], changed["exported_at"] = "2024-03-05T08:00:00", "2024-02-28T08:00:00"
    both = pd.concat([orders, changed, orders.sample(30, random_state=random)])
    both.sample(frac=1, random_state=random).to_csv(place / "sales.csv", index=False)
    return total


@task(
    TRAPS,
    "visits.csv holds visits to clinics (visit, email). How many different patients came? An address is that of one "
    "patient, however it is written: capitals and spaces around it mean nothing.",
    """
    import pandas as pd
    visits = pd.read_csv("visits.csv")
    answer = int(visits["email"].dropna().str.strip().str.lower().replace("", pd.NA).dropna().nunique())
    """,
    NumberGrader(0, 0.1),
)
def written_differently(random: Generator, place: Path) -> int:
    """Count names that are written in several ways."""
    import pandas as pd

    patients = [f"p{number}@example.org" for number in random.choice(900, int(random.integers(60, 140)), replace=False)]
    forms = (str, str.upper, str.title, lambda text: f" {text}", lambda text: f"{text.capitalize()}  ")
    shown = [forms[int(random.integers(5))](name) for name in [*patients, *random.choice(patients, 250)]]
    shown += [""] * 9
    random.shuffle(shown)
    pd.DataFrame({"visit": range(1, len(shown) + 1), "email": shown}).to_csv(place / "visits.csv", index=False)
    return len(patients)


@task(
    TRAPS,
    "weights.csv holds the weights of parcels: parcel, weight, unit (kg, g or lb; 1 lb is 0.45359237 kg). What is the mean "
    "weight in kilograms?",
    """
    import pandas as pd
    parcels = pd.read_csv("weights.csv")
    factor = parcels["unit"].str.strip().str.lower().map({"kg": 1.0, "g": 0.001, "lb": 0.45359237})
    answer = (parcels["weight"] * factor).mean()
    """,
    NumberGrader(1e-3),
)
def three_units(random: Generator, place: Path) -> float:
    """Bring a column with a unit beside it to one unit."""
    import numpy as np
    import pandas as pd

    weights = varied(toy("wine"), random, ["alcohol"])["alcohol"].to_numpy() / 3
    units = random.choice(["kg", "g", "lb", "KG", " kg"], len(weights))
    factors = {"kg": 1.0, "g": 1000.0, "lb": 1 / 0.45359237}
    given = [weight * factors[unit.strip().lower()] for weight, unit in zip(weights, units, strict=True)]
    frame = pd.DataFrame({"parcel": range(len(given)), "weight": np.round(given, 4), "unit": units})
    frame.to_csv(place / "weights.csv", index=False)
    return float(weights.mean())


@task(
    TRAPS,
    "response.csv holds the response rate of each survey wave, with the institute that ran it. notes.txt says how the "
    "institutes report. What is the mean rate over all waves, as a number between 0 and 1?",
    """
    import re
    import pandas as pd
    waves = pd.read_csv("response.csv")
    notes = open("notes.txt").read()
    in_percent = re.findall(r"(\\w+) reports in per cent", notes)
    rate = waves["rate"].where(~waves["institute"].isin(in_percent), waves["rate"] / 100)
    answer = rate.mean()
    """,
    NumberGrader(1e-4),
)
def percent_or_share(random: Generator, place: Path) -> float:
    """Tell from a note which values are a hundred times too large; some are below 1 per cent."""
    import pandas as pd

    institutes = ["Alder", "Birch", "Cedar", "Dogwood"]
    percent = list(random.choice(institutes, 2, replace=False))
    rates = random.beta(1.2, 30, 160).round(5)
    where = random.choice(institutes, len(rates))
    given = [round(rate * (100 if name in percent else 1), 5) for rate, name in zip(rates, where, strict=True)]
    pd.DataFrame({"wave": range(len(rates)), "institute": where, "rate": given}).to_csv(
        place / "response.csv", index=False
    )
    lines = [f"{name} reports in per cent." if name in percent else f"{name} reports shares." for name in institutes]
    (place / "notes.txt").write_text("\n".join(lines))
    return float(rates.mean())


@task(
    TRAPS,
    "orders.csv (order_id, customer, amount) and payments.csv (order_id, paid, method) belong together; an order may have "
    "been paid in several parts, or not at all. Make a table with the columns method and amount: for each method, the "
    "total amount of the orders that were paid with it at least in part, each order counted once for a method.",
    """
    import pandas as pd
    text = {"order_id": str}
    orders, payments = pd.read_csv("orders.csv", dtype=text), pd.read_csv("payments.csv", dtype=text)
    used = payments[["order_id", "method"]].drop_duplicates()
    joined = used.merge(orders, on="order_id", validate="many_to_one")
    answer = joined.groupby("method", as_index=False)["amount"].sum()
    """,
    TableGrader(("method",), 1e-6),
)
def paid_in_parts(random: Generator, place: Path) -> Any:
    """Join one to many without adding an amount more than once."""
    import pandas as pd

    orders = _orders(random, 180)
    amount_of = dict(zip(orders["order_id"], orders["amount"], strict=True))
    rows, totals = [], {"card": 0.0, "cash": 0.0, "transfer": 0.0}
    for order in orders["order_id"].sample(150, random_state=random):
        methods = [str(each) for each in random.choice(list(totals), int(random.integers(1, 5)))]
        rows += [(order, round(amount_of[order] / len(methods), 2), method) for method in methods]
        for method in set(methods):
            totals[method] += amount_of[order]
    orders.to_csv(place / "orders.csv", index=False)
    pd.DataFrame(rows, columns=["order_id", "paid", "method"]).to_csv(place / "payments.csv", index=False)
    return table(pd.DataFrame(sorted(totals.items()), columns=["method", "amount"]))


@task(
    TRAPS,
    "stock.csv (article, pieces) is from the warehouse, prices.csv (article, price in euros) from accounting. The "
    "warehouse writes articles with leading zeros to five digits, accounting without. What is the stock worth? Each "
    "article has a price.",
    """
    import pandas as pd
    stock = pd.read_csv("stock.csv", dtype={"article": str})
    prices = pd.read_csv("prices.csv", dtype={"article": str})
    prices["article"] = prices["article"].str.strip().str.zfill(5)
    joined = stock.merge(prices, on="article", validate="many_to_one")
    assert len(joined) == len(stock)
    answer = (joined["pieces"] * joined["price"]).sum()
    """,
    NumberGrader(1e-6),
)
def leading_zeros(random: Generator, place: Path) -> float:
    """Join by keys that are written in two ways, also such with letters."""
    import pandas as pd

    numbers = random.choice(9000, 150, replace=False)
    names = [f"{number:05d}" if at % 10 else f"{number:04d}X" for at, number in enumerate(numbers)]
    pieces = random.integers(0, 90, len(names))
    prices = varied(toy("wine"), random, ["alcohol"], rows=150)["alcohol"].to_numpy().round(2)
    pd.DataFrame({"article": names, "pieces": pieces}).to_csv(place / "stock.csv", index=False)
    short = [name.lstrip("0") for name in names]
    frame = pd.DataFrame({"article": short, "price": prices}).sample(frac=1, random_state=random)
    frame.to_csv(place / "prices.csv", index=False)
    return float((pieces * prices).sum())


@task(
    TRAPS,
    "health.csv holds a survey; codebook.csv says what its columns hold, and which codes stand for missing values. What is "
    "the mean of bmi of those whose age is known?",
    """
    import pandas as pd
    survey, codes = pd.read_csv("health.csv"), pd.read_csv("codebook.csv", dtype=str)
    for column, missing in zip(codes["column"], codes["missing"]):
        listed = [float(code) for code in str(missing).split(";") if code and code != "nan"]
        survey[column] = survey[column].mask(survey[column].isin(listed))
    answer = survey.loc[survey["age"].notna(), "bmi"].mean()
    """,
    NumberGrader(1e-5),
)
def codes_for_missing(random: Generator, place: Path) -> float:
    """Leave out values that are codes, which differ from column to column."""
    import numpy as np
    import pandas as pd

    frame = toy("diabetes")[["age", "bmi", "bp"]]
    frame = varied(frame, random, [], rows=300)
    age, bmi = (frame["age"] * 270 + 50).round(0), (frame["bmi"] * 90 + 27).round(2)
    missing_age, missing_bmi = random.random(300) < 0.12, random.random(300) < 0.1
    expected = float(bmi[~missing_age & ~missing_bmi].mean())
    codes = {"age": [-9, 999], "bmi": [99.9, -1]} if random.random() < 0.5 else {"age": [-1, 998], "bmi": [0, 77.7]}
    shown_age = np.where(missing_age, random.choice(codes["age"], 300), age)
    shown_bmi = np.where(missing_bmi, random.choice(codes["bmi"], 300), bmi)
    pd.DataFrame({"person": range(300), "age": shown_age, "bmi": shown_bmi}).to_csv(place / "health.csv", index=False)
    listed = [(name, ";".join(map(str, codes[name]))) for name in ("age", "bmi")]
    pd.DataFrame([("person", ""), *listed], columns=["column", "missing"]).to_csv(place / "codebook.csv", index=False)
    return expected


@task(
    TRAPS,
    "loans.csv holds loans with their columns described in columns.csv; defaulted says whether a loan was not paid back. "
    "A model is to tell at the time of the application. One column of loans.csv cannot be used for that, for it is known "
    "only after the end of a loan. Which one? Give its name.",
    """
    import pandas as pd
    described = pd.read_csv("columns.csv")
    late = described[described["recorded"].str.contains("end of the loan") & (described["column"] != "defaulted")]
    answer = late["column"].iloc[0]
    """,
    WordGrader(),
)
def known_too_late(random: Generator, place: Path) -> str:
    """Find the column that leaks the outcome."""
    import pandas as pd

    names = [f"x{number}" for number in random.choice(range(10, 99), 8, replace=False)]
    frame = varied(toy("breast_cancer"), random, [], rows=300)
    shown = pd.DataFrame({name: frame.iloc[:, at].round(3) for at, name in enumerate(names)})
    defaulted = (frame["target"] == "malignant").astype(int)
    late = str(random.choice(names))
    shown[late] = (defaulted * random.uniform(20, 90, len(shown)) + random.normal(0, 3, len(shown))).round(2)
    shown["defaulted"] = defaulted
    shown.to_csv(place / "loans.csv", index=False)
    when = dict.fromkeys(names, "at the application")
    when[late] = "by the dunning department, up to the end of the loan"
    when["defaulted"] = "at the end of the loan"
    rows = [(name, f"figure {name}", when[name]) for name in (*names, "defaulted")]
    pd.DataFrame(rows, columns=["column", "meaning", "recorded"]).to_csv(place / "columns.csv", index=False)
    return late


@task(
    TRAPS,
    "readings.csv holds readings of sensors (sensor, day, signal, load). Split it: the sensors that split.csv "
    "names for testing must not be seen in training. Fit a linear regression of load on signal (with an intercept) on the "
    "other sensors; what is the mean absolute error on the readings of the test sensors? A sensor's readings are "
    "repeated in the file; use each (sensor, day) once, the first one.",
    """
    import numpy as np
    import pandas as pd
    readings = pd.read_csv("readings.csv").drop_duplicates(["sensor", "day"], keep="first")
    tested = readings["sensor"].isin(pd.read_csv("split.csv")["sensor"])
    slope, start = np.polyfit(readings.loc[~tested, "signal"], readings.loc[~tested, "load"], 1)
    test = readings[tested]
    answer = float((test["load"] - (slope * test["signal"] + start)).abs().mean())
    """,
    NumberGrader(1e-4),
)
def groups_kept_apart(random: Generator, place: Path) -> float:
    """Split by group, and not by row, after removing repetitions."""
    import numpy as np
    import pandas as pd

    sensors = random.permutation(range(1, 31))
    signal = varied(toy("wine"), random, ["flavanoids"], rows=150)["flavanoids"].to_numpy()
    signal = np.tile(signal, 2)[:300].round(3)
    sensor, day = np.repeat(sensors, 10), np.tile(range(10), 30)
    offset = dict(zip(sensors, random.normal(0, 2, 30), strict=True))
    load = (signal * random.uniform(2, 4) + [offset[each] for each in sensor] + random.normal(0, 0.3, 300)).round(3)
    frame = pd.DataFrame({"sensor": sensor, "day": day, "signal": signal, "load": load})
    again = frame.sample(60, random_state=random)
    again = again.assign(load=(again["load"] + random.normal(0, 1, 60)).round(3))
    pd.concat([frame, again]).to_csv(place / "readings.csv", index=False)
    tests = [int(each) for each in sensors[:8]]
    pd.DataFrame({"sensor": tests}).to_csv(place / "split.csv", index=False)
    is_test = np.isin(sensor, tests)
    design = np.column_stack([signal, np.ones(300)])
    slope, start = np.linalg.lstsq(design[~is_test], load[~is_test], rcond=None)[0]
    return float(np.abs(load[is_test] - slope * signal[is_test] - start).mean())


@task(
    TRAPS,
    "events.csv holds events at a meter in Berlin; at is a time in UTC. Make a table with the columns day (as text, such as "
    "2023-03-26) and events: for each day of the calendar in Berlin on which there was one, the number of events.",
    """
    import pandas as pd
    events = pd.read_csv("events.csv")
    local = pd.to_datetime(events["at"], utc=True).dt.tz_convert("Europe/Berlin")
    counts = local.dt.strftime("%Y-%m-%d").value_counts().sort_index()
    answer = pd.DataFrame({"day": counts.index, "events": counts.to_numpy()})
    """,
    TableGrader(("day",), 0),
)
def days_in_berlin(random: Generator, place: Path) -> Any:
    """Count by local day, around a change of the clock."""
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo

    import pandas as pd

    middle = datetime(2023, 3, 26, tzinfo=UTC) if random.random() < 0.5 else datetime(2022, 10, 30, tzinfo=UTC)
    hours = random.triangular(-60, 0, 60, 400)
    times = [middle + timedelta(seconds=int(hour * 3600)) for hour in hours]
    times += [middle + timedelta(days=int(day), hours=22.6) for day in random.integers(-2, 2, 40)]
    pd.DataFrame({"at": [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times]}).to_csv(
        place / "events.csv", index=False
    )
    counts: dict[str, int] = {}
    for time in times:
        day = time.astimezone(ZoneInfo("Europe/Berlin")).date().isoformat()
        counts[day] = counts.get(day, 0) + 1
    return table(pd.DataFrame(sorted(counts.items()), columns=["day", "events"]))


@task(
    TRAPS,
    "branches.csv, as a German office writes it, holds each branch with the number of its customers and their mean "
    "satisfaction. What is the mean satisfaction of all customers?",
    """
    import pandas as pd
    branches = pd.read_csv("branches.csv", sep=";", decimal=",", thousands=".")
    answer = (branches["customers"] * branches["satisfaction"]).sum() / branches["customers"].sum()
    """,
    NumberGrader(1e-5),
)
def mean_of_means(random: Generator, place: Path) -> float:
    """Weigh means by what they are of, in a file with decimal commas and dots between thousands."""
    anes = varied(survey("anes96")[["TVnews", "age", "income"]], random, [], rows=60)
    customers = (random.lognormal(6.5, 1.2, 60)).astype(int) + 20
    satisfaction = (anes["age"].to_numpy() / 12 + random.normal(0, 0.3, 60) + customers / customers.max()).round(2)
    rows = [
        f"Filiale {at};{f'{count:,}'.replace(',', '.')};{f'{mean:.2f}'.replace('.', ',')}"
        for at, (count, mean) in enumerate(zip(customers, satisfaction, strict=True), 1)
    ]
    (place / "branches.csv").write_text("\n".join(["branch;customers;satisfaction", *rows]) + "\n")
    return float((customers * satisfaction).sum() / customers.sum())


TASKS = (
    exported_twice,
    written_differently,
    three_units,
    percent_or_share,
    paid_in_parts,
    leading_zeros,
    codes_for_missing,
    known_too_late,
    groups_kept_apart,
    days_in_berlin,
    mean_of_means,
)
