"""What people look at while they follow tutorials of the usual libraries: cells that compute, show, and change nothing.

    python tests/tutorials.py [PART OF A NAME]

gives each of them to the agent in a kernel, where nobody can be asked, and prints what would have been asked about. It
tries the tutorials whose libraries are installed; the tests of the package install some of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse


class Tutorial(NamedTuple):
    """A notebook: the modules it needs, its first cell, the others, and how many of them are asked about, and why."""

    needs: str
    begin: str
    cells: str
    asked: int = 0
    why: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether all that it imports is installed."""
        return all(find_spec(module) for module in self.needs.split())

    @property
    def looks(self) -> list[str]:
        """The cells."""
        return [cell.strip() for cell in self.cells.split("\n---\n")]


NOBODY = "approval"
"""In what the model reads where nobody can be asked."""

TUTORIALS = {
    "pandas, ten minutes": Tutorial(
        "pandas matplotlib",
        """
import numpy as np
import pandas as pd
dates = pd.date_range("2024-01-01", periods=600, freq="6h")
df = pd.DataFrame(np.random.default_rng(0).normal(size=(600, 4)), index=dates, columns=list("ABCD"))
df["kind"] = pd.Categorical(np.resize(["low", "mid", "high"], 600), categories=["low", "mid", "high"], ordered=True)
df.loc[df.index[::17], "B"] = np.nan
left = pd.DataFrame({"key": ["foo", "bar", "baz"], "lval": [1, 2, 3]})
right = pd.DataFrame({"key": ["foo", "bar", "qux"], "rval": [4, 5, 6]})
words = pd.Series(["Ant", "bee", None, "Cat and dog"])
""",
        """
df.head()
---
df.tail(3)
---
df.index
---
df.to_numpy()[:2]
---
df.describe(include="all")
---
df.T.iloc[:, :3]
---
df.sort_index(axis=1, ascending=False).head()
---
df.sort_values(by="B").head()
---
df.loc["2024-01-02":"2024-01-03", ["A", "B"]]
---
df.iloc[[1, 2, 4], [0, 2]]
---
df[df["A"] > 1.5]
---
df[df["kind"].isin(["low", "high"])].shape
---
df.dropna(how="any").shape, df.fillna(value=5).B.mean(), pd.isna(df).sum()
---
df.drop(columns="kind").agg(lambda x: np.mean(x) * 5.6)
---
df["kind"].value_counts()
---
words.str.lower(), words.str.split(expand=True)
---
pd.concat([df[:3], df[3:7]])
---
pd.merge(left, right, on="key", how="outer", indicator=True)
---
df.groupby("kind", observed=True)[["A", "C"]].sum()
---
df.drop(columns="kind").stack().unstack(0).iloc[:, :2]
---
pd.pivot_table(df, values="D", index=["kind"], columns=df.index.month, observed=True)
---
df["A"].resample("D").mean().head().tz_localize("UTC").tz_convert("US/Eastern")
---
df.groupby("kind", observed=True).size()
---
df["A"].cumsum().plot()
---
df.boxplot(column=["A", "B"], by="kind")
---
with pd.option_context("display.max_rows", 6, "display.precision", 2):
    display(df)
---
print(df.to_markdown() if False else df.head(2).to_string())
---
df.head(3).to_dict("records")
---
df.eval("A + B").abs().idxmax()
---
df.drop(columns="kind").corr().style.background_gradient().format(precision=2)
---
pd.get_dummies(df["kind"]).sum()
---
pd.cut(df["A"], 4).value_counts(sort=False)
---
df.sample(4, random_state=1)
""",
    ),
    "numpy, quickstart": Tutorial(
        "numpy matplotlib",
        """
import numpy as np
a = np.arange(15).reshape(3, 5)
b = np.array([(1.5, 2, 3), (4, 5, 6)])
rg = np.random.default_rng(1)
c = rg.random((3, 4))
points = np.zeros(5, dtype=[("x", "f8"), ("y", "i4")])
masked = np.ma.masked_greater(np.arange(6), 3)
""",
        """
a.shape, a.ndim, a.dtype.name, a.itemsize, a.size, type(a)
---
b.dtype
---
np.zeros((3, 4)), np.ones((2, 3, 4), dtype=np.int16), np.empty((2, 3)).shape
---
np.linspace(0, 2, 9)
---
print(np.arange(10000).reshape(100, 100))
---
a * 2 - b.sum()
---
c.sum(axis=0), c.min(axis=1), c.cumsum(axis=1)
---
np.exp(b), np.sqrt(b)
---
a[:, 1], a[1:3, :], a[-1], a[..., 2]
---
for row in a: print(row)
---
[element for element in a.flat][:4]
---
c.ravel()[:3], c.reshape(2, 6), c.T.shape
---
np.vstack((a, a)), np.hstack((a, a)).shape, np.column_stack((a[:, 0], a[:, 1]))
---
np.hsplit(c, 2)
---
a > 7, a[a > 7], np.nonzero(a % 2)
---
np.ix_([0, 1], [2, 3])
---
np.linalg.inv(c @ c.T), np.linalg.eigvals(c @ c.T)
---
np.histogram(c, bins=4)
---
points["x"], points.dtype.names
---
masked.mean(), masked.filled(-1)
---
np.unique(a % 3, return_counts=True)
---
np.einsum("ij,kj->ik", a, a)
---
np.allclose(a, a + 1e-9), np.array_equal(a, a.copy()), a.base is None, a.flags
---
np.info(np.ravel)
---
np.where(a > 5, a, -1)
---
np.array2string(c, precision=2)
---
with np.printoptions(precision=1): print(c)
---
np.polyfit([0, 1, 2, 3], [0, 1, 4, 9], 2).round(3)
---
try:
    a @ b
except ValueError as error:
    print("no:", error)
""",
    ),
    "matplotlib, pyplot": Tutorial(
        "matplotlib numpy",
        """
import matplotlib.pyplot as plt
import numpy as np
import matplotlib as mpl
t = np.arange(0.0, 5.0, 0.2)
data = {"a": np.arange(50), "c": np.linspace(0, 50, 50) % 7, "d": np.abs(np.sin(np.arange(50))) * 100}
""",
        """
plt.plot([1, 2, 3, 4])
plt.ylabel("some numbers")
plt.show()
---
plt.plot(t, t, "r--", t, t**2, "bs", t, t**3, "g^")
---
plt.scatter("a", "c", c="c", s="d", data=data)
plt.xlabel("entry a")
---
plt.figure(figsize=(9, 3))
plt.subplot(131); plt.bar(["x", "y"], [1, 10])
plt.subplot(132); plt.scatter(["x", "y"], [1, 10])
plt.suptitle("Categorical Plotting")
plt.show()
---
fig, ax = plt.subplots()
ax.plot(t, np.cos(2 * np.pi * t))
ax.annotate("local max", xy=(2, 1), xytext=(3, 1.5), arrowprops=dict(facecolor="black"))
---
plt.hist(np.sin(t) * 100, 50, density=True, facecolor="g", alpha=0.75)
plt.grid(True)
---
plt.yscale("log"); plt.plot(t, np.exp(t))
---
fig, axs = plt.subplots(2, 2, layout="constrained"); axs[0, 0].imshow(np.outer(t, t)); fig
---
plt.contourf(np.outer(t, t)); plt.colorbar()
---
with plt.style.context("ggplot"):
    plt.plot(t)
---
plt.style.available[:5]
---
mpl.rcParams["figure.dpi"], mpl.__version__, mpl.get_backend()
---
plt.pie([1, 2, 3], labels=list("abc")); plt.title("parts")
---
ax = plt.figure().add_subplot(projection="3d"); ax.plot(t, t, t)
---
plt.errorbar(t, t, yerr=0.5)
---
plt.boxplot([t, t * 2]); plt.show()
---
print(plt.colormaps()[:3])
---
fig = plt.figure(); fig.text(0.5, 0.5, r"$\\alpha_i > \\beta_i$"); plt.show()
---
plt.stem(t); plt.tight_layout(); plt.show()
---
plt.fill_between(t, np.sin(t), alpha=0.3); plt.axhline(0); plt.legend(["s"])
""",
    ),
    "seaborn, introduction": Tutorial(
        "seaborn pandas",
        """
import numpy as np
import pandas as pd
import seaborn as sns
draw = np.random.default_rng(2)
tips = pd.DataFrame({
    "total_bill": draw.gamma(4, 5, 240), "tip": draw.gamma(3, 1, 240), "size": draw.integers(1, 6, 240),
    "smoker": draw.choice(["Yes", "No"], 240), "day": draw.choice(["Thu", "Fri", "Sat"], 240),
    "time": draw.choice(["Lunch", "Dinner"], 240),
})
""",
        """
sns.relplot(data=tips, x="total_bill", y="tip", col="time", hue="smoker", style="smoker", size="size")
---
sns.lmplot(data=tips, x="total_bill", y="tip", col="time", hue="smoker")
---
sns.displot(data=tips, x="total_bill", col="time", kde=True)
---
sns.displot(data=tips, kind="ecdf", x="total_bill", hue="smoker", rug=True)
---
sns.catplot(data=tips, kind="swarm", x="day", y="total_bill", hue="smoker")
---
sns.catplot(data=tips, kind="violin", x="day", y="total_bill", hue="smoker", split=True)
---
sns.jointplot(data=tips, x="total_bill", y="tip", hue="time")
---
sns.pairplot(data=tips[["total_bill", "tip", "time"]], hue="time")
---
sns.heatmap(tips.select_dtypes("number").corr(), annot=True)
---
sns.boxplot(data=tips, x="day", y="tip"); sns.stripplot(data=tips, x="day", y="tip", color="k")
---
sns.regplot(data=tips, x="total_bill", y="tip")
---
sns.histplot(tips, x="tip", bins=20)
---
sns.color_palette("flare")
---
sns.barplot(tips, x="day", y="tip", errorbar=None)
---
sns.countplot(tips, x="day")
---
g = sns.FacetGrid(tips, col="time", row="smoker"); g.map(sns.scatterplot, "total_bill", "tip")
---
sns.kdeplot(tips, x="total_bill", y="tip", fill=True)
---
with sns.axes_style("whitegrid"):
    sns.lineplot(tips, x="size", y="tip")
---
sns.axes_style()["axes.facecolor"]
---
ax = sns.scatterplot(tips, x="tip", y="size"); ax.set(xlabel="Tip", title="Tips")
""",
    ),
    "plotly express": Tutorial(
        "plotly pandas",
        """
import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
from plotly.subplots import make_subplots
gap = pd.DataFrame({"year": [2000, 2005, 2010] * 4, "pop": range(12), "life": [60 + n % 7 for n in range(12)],
    "land": list("aaabbbcccddd"), "where": list("xxxxxxyyyyyy")})
px.line(x=[1], y=[1])  # the first figure loads half of plotly: each look would, in its copy (test_trials.py has that)
""",
        """
px.scatter(gap, x="year", y="life", color="land", size="pop", hover_name="land")
---
px.line(gap, x="year", y="pop", color="where", symbol="land")
---
px.bar(gap, x="land", y="pop", facet_col="where")
---
px.histogram(gap, x="life", nbins=5, marginal="box")
---
px.box(gap, x="where", y="life", points="all")
---
px.violin(gap, y="life", box=True)
---
px.pie(gap, values="pop", names="land")
---
px.sunburst(gap, path=["where", "land"], values="pop")
---
px.imshow([[1, 2], [3, 4]], text_auto=True)
---
px.scatter_3d(gap, x="year", y="pop", z="life")
---
px.parallel_coordinates(gap[["year", "pop", "life"]])
---
go.Figure(data=go.Scatter(x=[1, 2, 3], y=[4, 1, 2]), layout={"title": {"text": "A figure"}})
---
fig = make_subplots(rows=1, cols=2); fig.add_trace(go.Bar(y=[2, 3, 1]), row=1, col=1); fig
---
go.Figure(go.Indicator(mode="gauge+number", value=270)).to_dict()["data"][0]["value"]
---
px.data.iris().head()
---
print(px.scatter(gap, x="year", y="pop").layout.xaxis.title.text)
---
px.area(gap, x="year", y="pop", color="land").update_layout(template="plotly_white")
---
px.scatter_matrix(gap, dimensions=["pop", "life"], color="where")
---
px.colors.qualitative.Plotly[:3]
---
px.funnel(gap.head(4), x="pop", y="land").show()
""",
    ),
    "altair": Tutorial(
        "altair pandas",
        """
import altair as alt
import pandas as pd
cars = pd.DataFrame({"power": [130, 165, 150, 95], "miles": [18, 15, 16, 24], "origin": ["USA", "USA", "USA", "Japan"]})
""",
        """
cars.head()
---
alt.Chart(cars).mark_point().encode(x="power", y="miles")
---
alt.Chart(cars).mark_bar().encode(x="origin", y="average(miles)")
---
alt.Chart(cars).mark_point().encode(x="power", y="miles", color="origin").to_dict()["encoding"]
---
alt.Chart(cars).mark_line().encode(x="power", y="miles") + alt.Chart(cars).mark_point().encode(x="power", y="miles")
---
cars.groupby("origin").miles.mean()
---
print(alt.Chart(cars).mark_tick().encode(x="miles").to_json()[:100])
---
alt.__version__
""",
        asked=3,
        why="its charts are programs that the page runs",
    ),
    "scikit-learn, getting started": Tutorial(
        "sklearn pandas",
        """
import numpy as np
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, classification_report, confusion_matrix
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.decomposition import PCA
from sklearn.cluster import KMeans
X, y = load_iris(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
clf = RandomForestClassifier(n_estimators=10, random_state=0).fit(X_train, y_train)
pipe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(X_train, y_train)
""",
        """
X.shape, np.bincount(y)
---
clf.predict(X_test)[:5]
---
clf.score(X_test, y_test)
---
accuracy_score(pipe.predict(X_test), y_test)
---
print(classification_report(y_test, clf.predict(X_test)))
---
confusion_matrix(y_test, clf.predict(X_test))
---
cross_val_score(LogisticRegression(max_iter=500), X, y, cv=3).mean()
---
cross_validate(LinearRegression(), *make_regression(n_samples=200, random_state=0))["test_score"]
---
StandardScaler().fit(X).transform(X)[:2]
---
PCA(2).fit(X).explained_variance_ratio_
---
KMeans(3, n_init=2, random_state=0).fit(X).inertia_
---
clf.feature_importances_
---
clf.get_params()
---
pipe
---
GridSearchCV(LogisticRegression(max_iter=300), {"C": [0.1, 1]}, cv=3).fit(X, y).best_params_
---
[tree.get_depth() for tree in clf.estimators_]
---
pipe.named_steps["logisticregression"].coef_.round(2)
---
clf.predict_proba(X_test[:3])
---
load_iris(as_frame=True).frame.groupby("target").mean()
---
LinearRegression().fit(X[:, :1], X[:, 1]).coef_
---
print(load_iris().DESCR[:200])
---
from sklearn.inspection import permutation_importance
permutation_importance(clf, X_test, y_test, n_repeats=2, random_state=0).importances_mean
""",
    ),
    "statsmodels and scipy": Tutorial(
        "statsmodels scipy pandas",
        """
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import integrate, interpolate, linalg, optimize, signal, spatial, stats
draw = np.random.default_rng(5)
data = pd.DataFrame({"lottery": draw.normal(50, 9, 90), "literacy": draw.normal(40, 7, 90)})
data = data.assign(wealth=draw.normal(size=90), region=draw.choice(["N", "S"], 90))
fitted = smf.ols("lottery ~ literacy + wealth + C(region)", data=data).fit()
""",
        """
fitted.summary()
---
print(fitted.summary().tables[1])
---
fitted.params, fitted.rsquared, fitted.pvalues
---
fitted.conf_int()
---
sm.stats.linear_rainbow(fitted)
---
smf.ols("lottery ~ literacy", data=data).fit().predict(pd.DataFrame({"literacy": [40]}))
---
sm.OLS(data.lottery, sm.add_constant(data[["literacy"]])).fit().tvalues
---
smf.logit("I(lottery > 50) ~ literacy", data=data).fit(disp=0).params
---
sm.graphics.plot_partregress("lottery", "wealth", ["region", "literacy"], data=data, obs_labels=False)
---
sm.tsa.acf(data.wealth, nlags=5)
---
stats.ttest_ind(data.lottery, data.literacy)
---
stats.describe(data.wealth)
---
stats.norm.cdf([-1, 0, 1]), stats.norm(3, 2).ppf(0.95)
---
stats.linregress(data.literacy, data.lottery)
---
stats.pearsonr(data.literacy, data.wealth).statistic
---
integrate.quad(lambda x: np.exp(-x), 0, np.inf)
---
optimize.minimize(lambda v: (v[0] - 1) ** 2 + v[1] ** 2, [0, 0]).x.round(3)
---
optimize.curve_fit(lambda x, k: k * x, np.arange(5), 2 * np.arange(5))
---
interpolate.interp1d([0, 1, 2], [0, 1, 4])(1.5)
---
linalg.solve([[3, 2], [1, 2]], [2, 0])
---
signal.find_peaks(np.sin(np.linspace(0, 20, 200)))[0]
---
spatial.distance.pdist(data[["lottery", "wealth"]].head(4))
---
stats.kstest(data.wealth, "norm")
---
integrate.solve_ivp(lambda t, y: -0.5 * y, [0, 10], [2, 4]).y[:, -1]
""",
        asked=2,
        why="a summary gives the model an attribute that anybody can read",
    ),
    "networkx": Tutorial(
        "networkx matplotlib",
        """
import networkx as nx
import matplotlib.pyplot as plt
G = nx.path_graph(8)
G.add_edges_from([(0, 5), (2, 7)], weight=2.0)
H = nx.karate_club_graph()
D = nx.DiGraph([(1, 2), (2, 3), (1, 3)])
""",
        """
G.number_of_nodes(), G.number_of_edges()
---
list(G.nodes), list(G.edges)
---
list(G.adj[1]), G.degree[1]
---
G[0][5]
---
nx.shortest_path(G, 0, 7)
---
list(nx.connected_components(G))
---
sorted(d for n, d in G.degree())
---
nx.clustering(G)
---
nx.density(H), nx.diameter(H), nx.average_clustering(H)
---
sorted(nx.degree_centrality(H).items(), key=lambda item: -item[1])[:3]
---
nx.pagerank(H)[0]
---
nx.betweenness_centrality(H)[33]
---
list(nx.topological_sort(D))
---
nx.draw(G, with_labels=True, pos=nx.circular_layout(G))
---
nx.draw_networkx(H, pos=nx.spring_layout(H, seed=1)); plt.show()
---
nx.to_numpy_array(G)
---
for n, nbrs in G.adj.items(): print(n, dict(nbrs))
---
nx.is_tree(G), nx.is_directed_acyclic_graph(D)
---
list(nx.community.greedy_modularity_communities(H))[0]
---
G.subgraph([0, 1, 2]).edges
---
D.in_degree(3), list(D.predecessors(3))
---
nx.minimum_spanning_tree(G).size()
""",
        asked=1,
        why="a view of a graph is kept in a variable",
    ),
    "duckdb and SQLite": Tutorial(
        "duckdb pandas",
        """
import duckdb, sqlite3
import pandas as pd
trips = pd.DataFrame({"zone": ["a", "b", "a", "c"] * 50, "fare": range(200)})
con = duckdb.connect()
con.execute("create table stations as select range n, 'S' || range as name from range(20)")
lite = sqlite3.connect(":memory:")
lite.executescript("create table item (name, price); insert into item values ('tea', 3), ('milk', 1);")
""",
        """
duckdb.sql("select zone, avg(fare) from trips group by zone order by 1")
---
duckdb.sql("select count(*) from trips").fetchone()
---
con.sql("from stations limit 3").show()
---
con.execute("select * from stations where n > ?", [17]).fetchall()
---
con.execute("describe stations").df()
---
con.sql("show tables")
---
con.sql("explain select * from stations").fetchall()[0][0]
---
con.sql("summarize stations").df()
---
con.table("stations").filter("n < 3").project("name")
---
duckdb.query("select 42 as answer").df().answer[0]
---
con.execute("select name from stations").fetch_df().shape
---
con.sql("select zone, sum(fare) over (partition by zone) from trips limit 2").fetchall()
---
con.sql("pragma database_size").fetchall()[0][0]
---
pd.read_sql("select * from item", lite)
---
lite.execute("select name from item order by price").fetchall()
---
[row for row in lite.execute("select * from item")]
---
lite.execute("pragma table_info(item)").fetchall()
---
lite.execute("select count(*), avg(price) from item").fetchone()
---
lite.total_changes, sqlite3.sqlite_version
---
con.sql("select * from stations").columns
""",
    ),
    "xarray and sympy": Tutorial(
        "xarray sympy",
        """
import numpy as np
import xarray as xr
import sympy as sp
da = xr.DataArray(np.arange(12.0).reshape(3, 4), dims=("x", "y"), coords={"x": [10, 20, 30]}, attrs={"units": "m"})
ds = xr.Dataset({"t": da, "p": (("x",), [1, 2, 3])})
x, y = sp.symbols("x y")
expr = sp.sin(x) ** 2 + y * x
""",
        """
da
---
ds
---
da.values, da.dims, da.coords, da.attrs
---
da.isel(x=0), da.sel(x=20)
---
da.mean(dim="x")
---
da + 10, np.sin(da).sum()
---
da.groupby("x").map(lambda part: part.mean())
---
da.plot()
---
ds.to_dataframe().head()
---
da.to_series().head(3)
---
ds.t.rolling(y=2).mean()
---
expr
---
sp.diff(expr, x)
---
sp.integrate(expr, x)
---
sp.limit(sp.sin(x) / x, x, 0)
---
sp.solve(x**2 - 2, x)
---
expr.subs({x: 1, y: 2}).evalf()
---
sp.Matrix([[1, 2], [3, 4]]).eigenvals()
---
sp.lambdify(x, x**2)(3)
---
print(sp.latex(sp.Integral(sp.cos(x), x)))
---
sp.factor(x**2 - 1), sp.expand((x + y) ** 3), sp.series(sp.exp(x), x, 0, 4)
---
sp.pprint(sp.sqrt(x))
""",
    ),
    "Arrow": Tutorial(
        "pyarrow pandas",
        """
import pyarrow as pa
import pyarrow.compute as pc
import pandas as pd
days = pa.array([1, 12, 17, 23, 28], type=pa.int8())
table = pa.table({"days": days, "months": [1, 3, 5, 7, 1], "years": [1990, 2000, 1995, 2000, 1995]})
""",
        """
days
---
table
---
table.schema, table.num_rows
---
pc.value_counts(table["years"])
---
table.to_pandas()
---
table.group_by("years").aggregate([("days", "sum")])
---
table.filter(pc.field("days") > 12).num_rows
---
pc.mean(table["days"]), pc.min_max(table["months"])
---
table.slice(1, 2).to_pylist()
---
table.sort_by([("days", "descending")]).column("days")
---
pa.Table.from_pandas(pd.DataFrame({"a": [1, 2]})).schema
---
table["months"].chunk(0).to_numpy()
---
table.nbytes, pa.__version__
""",
    ),
    "plain Python, text and files": Tutorial(
        "numpy",
        """
import collections, csv, datetime, itertools, json, math, os, pathlib, re, statistics, textwrap
pathlib.Path("scores.csv").write_text("name,score\\nAnn,3\\nBob,5\\n")
pathlib.Path("notes.json").write_text('{"a": [1, 2, {"b": null}]}')
text = "It was the best of times, it was the worst of times"
people = [{"name": "Ann", "age": 31}, {"name": "Bob", "age": 25}]
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
    def norm(self): return math.hypot(self.x, self.y)
points = [Point(1, 2), Point(3, 4)]
def clean(words): return [word.strip(",.").lower() for word in words]
""",
        """
collections.Counter(text.split()).most_common(3)
---
clean(text.split())
---
sorted(people, key=lambda person: person["age"])[0]["name"]
---
[person["name"] for person in people if person["age"] > 30]
---
sum(point.norm() for point in points)
---
print(*(f"{point.x:>4}{point.y:>4}" for point in points), sep="\\n")
---
with open("scores.csv") as file: print(list(csv.DictReader(file)))
---
json.loads(pathlib.Path("notes.json").read_text())["a"][2]
---
print(json.dumps(people, indent=1))
---
os.listdir("."), pathlib.Path.cwd().name, pathlib.Path("scores.csv").stat().st_size
---
re.findall(r"\\b\\w{5}\\b", text), re.sub("times", "days", text)
---
statistics.mean([1, 2, 3]), statistics.stdev([1, 2, 3])
---
list(itertools.permutations("abc", 2))[:3]
---
datetime.date(2024, 2, 29) + datetime.timedelta(days=1)
---
datetime.datetime.now().year > 2000
---
help(str.split)
---
dir(points[0])[-2:], vars(points[0]), type(points[0]).__mro__
---
print(textwrap.fill(text, 20))
---
{word: len(word) for word in set(text.split())}
---
any(point.x > 2 for point in points), max(points, key=Point.norm).x
---
for number in range(3): print(number ** 2)
---
isinstance(points[0], Point), callable(clean), clean.__name__
---
import inspect; print(inspect.signature(Point))
---
points[5]
---
%whos
---
%pwd
---
clean?
---
%%time
sum(range(1000))
---
len([*pathlib.Path(".").glob("**/*.csv")])
""",
    ),
}


class Look(NamedTuple):
    """What became of a cell."""

    code: str
    asked: str
    """What the user would have been asked; empty if nothing."""
    given: str
    """What the model read."""
    seconds: float


def looked(tutorial: Tutorial, root: Path, api: MessagesApi) -> Iterator[Look]:
    """Let the agent run the cells of a tutorial in a new kernel, in mode ``effects``."""
    (work := root / "work").mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (root / "agent" / "settings.json").write_text(json.dumps({"approve": "effects", "looksSeconds": 600}))
    with Kernel(work, environment) as kernel:
        begun = kernel.run(tutorial.begin)
        assert begun.status == "ok", begun.error
        kernel.run("%load_ext indus_nb\n%agent --new --model anthropic/claude-sonnet-4-5 --thinking off")
        for code in tutorial.looks:
            began = time.monotonic()
            given = _given(kernel, api, code)
            seconds = time.monotonic() - began
            yield Look(code, _question(kernel, api, code) if NOBODY in given else "", given, seconds)


def _given(kernel: Kernel, api: MessagesApi, code: str) -> str:
    api.add(Reply(ToolUse("python", {"code": code})), Reply("I see."))
    done = kernel.run("%agent go")
    assert done.status == "ok", done.error
    return _result(api.requests[-1].body["messages"][-1]["content"])


def _question(kernel: Kernel, api: MessagesApi, code: str) -> str:
    api.add(Reply(ToolUse("python", {"code": code})), Reply("I see."))
    cell = kernel.begin("%agent go", asks=True)
    asked = cell.answer("n")
    cell.finish()
    return " ".join(asked.replace("\n┆ ", "").replace("│", " ").split())


def _result(blocks: list[dict[str, Any]]) -> str:
    content = next(block for block in blocks if block["type"] == "tool_result")["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "[image]") for part in content)


def main() -> None:
    """Print what is asked about."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    count = asked = 0
    for name, tutorial in TUTORIALS.items():
        if wanted not in name or not tutorial.is_possible:
            continue
        with tempfile.TemporaryDirectory() as root, MessagesApi() as api:
            looks = [*looked(tutorial, Path(root), api)]
        count, asked = count + len(looks), asked + sum(bool(look.asked) for look in looks)
        slowest = max(looks, key=lambda look: look.seconds)
        print(
            f"{name}: {sum(bool(look.asked) for look in looks)} of {len(looks)} asked; slowest {slowest.seconds:.1f} s"
        )
        for look in looks:
            if look.asked:
                print(f"    {look.code!r}\n        {look.asked[:300]}", flush=True)
    print(f"{asked} of {count} asked ({asked / max(count, 1):.1%})")


if __name__ == "__main__":
    main()
