"""One piece of work in a real JupyterLab from beginning to end, as its user sees it, and what the file keeps of it.

With INDUS_NB_SCREENSHOT=1 the same run makes the pictures of the README.
"""

from __future__ import annotations

import base64
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import nbformat
import pytest
from film import Film, still
from jupyterlab_page import SCREENSHOTS, Lab, Notebook
from kernels import private_environment
from messages_api import Gate, MessagesApi, Reply, Text, Thinking, ToolUse
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

RECORDS = bool(os.environ.get("INDUS_NB_SCREENSHOT"))
DOCS = Path(__file__).parents[2] / "docs"
READ = 'import pandas as pd\n\nrides = pd.read_csv("rides.csv", parse_dates=["day"])\nrides.head(3)'
QUESTION = "how do the rides depend on the weather? Plot it"
PLOT = """\
import matplotlib.pyplot as plt

wet = rides.rain_mm > 1
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for name, days, colour in (("dry", ~wet, "tab:orange"), ("wet", wet, "tab:blue")):
    ax.scatter(rides.temperature[days], rides.rides[days], s=14, c=colour, alpha=0.7, label=f"{name} days")
ax.set(xlabel="temperature in °C", ylabel="rides per day")
ax.legend(frameon=False)
print(rides.groupby(wet).rides.agg(["count", "mean"]).round())"""
FOUND = """\
The rides follow the temperature, and rain costs about a fifth of them:

| days | number | rides a day |
|---|---|---|
| dry | 248 | **1,751** |
| wet (more than 1 mm) | 117 | **1,408** |

Below 10 °C rain matters most: on some wet days there are **fewer than half** of the usual rides."""
REPORT = """\
# Rides and the weather

- 365 days, 248 of them dry and 117 wet (more than 1 mm of rain).
- 1,751 rides on a dry day, 1,408 on a wet one.
"""
ADDED = "- The means are plain ones, over all days of a kind."
WATCH = """() => {
    window.shifts = [];
    new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map(({value}) => value)))
        .observe({type: 'layout-shift'});
}"""


def weather_and_rides() -> str:
    """A year of a city's shared bicycles, made up."""
    chance = random.Random(11)
    rows = ["day,temperature,rain_mm,rides"]
    for number in range(365):
        temperature = 21 - abs(number - 200) / 10 + chance.gauss(0, 3)
        rain = max(0.0, chance.gauss(-1, 4))
        rides = max(40, 900 + 75 * temperature - 110 * min(rain, 8) + chance.gauss(0, 180))
        rows.append(f"{date(2025, 1, 1) + timedelta(number)},{temperature:.1f},{rain:.1f},{rides:.0f}")
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    root = Path("/tmp/demo") if RECORDS else tmp_path_factory.mktemp("story")  # which dialogs show
    root.mkdir(exist_ok=not RECORDS)
    folder = root / "bicycles"
    folder.mkdir()
    (folder / "rides.csv").write_text(weather_and_rides())
    environment = private_environment(root)
    settings = {"defaultProvider": "demo", "defaultModel": "demo", "defaultThinkingLevel": "low"}
    cost = {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}
    model = {"id": "demo", "name": "Scripted demo", "reasoning": True, "input": ["text", "image"], "cost": cost}
    demo = {"baseUrl": api.url, "api": "anthropic-messages", "apiKey": "test-key", "models": [model]}
    (root / "agent" / "settings.json").write_text(json.dumps(settings))
    (root / "agent" / "models.json").write_text(json.dumps({"providers": {"demo": demo}}))
    # Matplotlib looks for fonts when it is first imported: not while somebody watches.
    fonts = subprocess.Popen([sys.executable, "-c", "import matplotlib.font_manager"], env=environment)
    with Lab(folder, environment) as lab:
        assert fonts.wait(120) == 0
        yield lab
    if RECORDS:
        shutil.rmtree(root)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    size = {"width": 960, "height": 800}
    page = browser.new_page(viewport=size, device_scale_factor=2 if RECORDS else 1)
    page.set_default_timeout(30_000)
    yield page
    page.close()


def pieces(text: str) -> tuple[Text, list[Gate]]:
    """A text that comes some words at a time, each behind a gate."""
    words = text.split(" ")
    gates = [Gate() for _ in range(0, len(words), 4)]
    parts: list[str | Gate] = []
    for number, gate in enumerate(gates):
        parts += [gate, " " * bool(number) + " ".join(words[4 * number : 4 * number + 4])]
    return Text(*parts), gates


def ready(dialog: Locator, name: str) -> Locator:
    """A button of a dialog, once it takes answers."""
    button = dialog.get_by_role("button", name=re.compile(f"{name}$"))
    expect(button).to_be_enabled()
    return button


def sent_images(body: dict[str, Any]) -> list[bytes]:
    """The images in the results of tools that a request holds."""
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    results = [block for content in contents for block in content if block["type"] == "tool_result"]
    parts = [part for result in results for part in result["content"] if part["type"] == "image"]
    return [base64.b64decode(part["source"]["data"]) for part in parts]


class Story:
    """What happens in one notebook, chapter by chapter."""

    def __init__(self, lab: Lab, api: MessagesApi, page: Page) -> None:
        self.lab, self.api, self.page = lab, api, page
        self.film = Film(page, runs=RECORDS)
        lab.write(
            "rides.ipynb",
            "# Rides and the weather",
            "%load_ext indus_nb",
            READ,
            "",
        )
        self.notebook: Notebook = lab.open(page, "rides.ipynb")
        page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
        for number in (1, 2):
            self.notebook.run(number)
            self.notebook.wait_until_run(number)
        page.evaluate(WATCH)

    def run(self, number: int, code: str) -> Locator:
        """Write code into the cell, the last one, and run it."""
        cell = self.notebook.cell(number)
        cell.locator(".cm-content").click()
        self.page.keyboard.insert_text(code)
        self.page.keyboard.press("Shift+Enter")
        return cell

    def begin_view_at(self, place: Locator) -> None:
        place.evaluate(
            "node => { const outer = node.closest('.jp-WindowedPanel-outer'); "
            "outer.scrollTop += node.getBoundingClientRect().top - outer.getBoundingClientRect().top - 8 }"
        )

    def keep(self, name: str) -> None:
        self.notebook.screenshot(f"story-{name}")

    def a_plot_is_asked_for(self) -> None:
        film, notebook = self.film, self.notebook
        looks, looking = pieces("I look at the frame that you loaded.")
        plots, plotting = pieces(
            "A row for each day of a year, and nothing is missing. I plot them against the temperature."
        )
        finds, finding = pieces(FOUND)
        thought = Thinking("A plot is asked for. First I look at what is there.")
        self.api.add(
            Reply(thought, looks, ToolUse("variables", {"pattern": "rides"}), usage={"input_tokens": 2143}),
            Reply(plots, ToolUse("python", {"code": PLOT}), usage={"input_tokens": 2438}),
            Reply(finds, usage={"input_tokens": 3612}),
        )
        cell = notebook.cell(3)
        cell.locator(".cm-content").click()
        film.look(0.8)
        film.type(f"%agent {QUESTION}")
        film.look(0.4)
        self.page.keyboard.press("Shift+Enter")
        film.stream(looking)
        expect(cell.locator(".indus-call").first).to_contain_text("365 rows")
        film.follow(0.6)
        film.stream(plotting)
        expect(cell.locator("img")).to_be_visible()
        expect(cell.get_by_role("dialog")).to_have_count(0)  # it only makes a figure and variables
        expect(cell.locator(".indus-call").last).to_contain_text("1751")
        self.keep("figure")
        self.begin_view_at(cell.locator("img"))
        film.look(1)
        film.stream(finding)
        notebook.wait_until_run(3)
        expect(cell.locator(".indus-answer table")).to_be_visible()
        film.look(3)
        self.keep("answered")

    def a_report_is_written_and_steered(self) -> None:
        notebook, page = self.notebook, self.page
        page.set_viewport_size({"width": 1200, "height": 1160})
        reads = Gate()
        edit = {"path": "report.md", "edits": [{"oldText": "a wet one.\n", "newText": f"a wet one.\n{ADDED}\n"}]}
        self.api.add(
            Reply("I write it down.", ToolUse("write", {"path": "report.md", "content": REPORT})),
            Reply(Text("Written. I read it once more", reads, ": it says what we saw.")),
            Reply(ToolUse("edit", edit)),
            Reply("`report.md` now says also how the means were made."),
        )
        cell = self.run(4, "%agent --no-wait write what you found into report.md")
        notebook.wait_until_run(4)
        dialog = cell.get_by_role("dialog")
        expect(dialog).to_contain_text("report.md")
        expect(dialog).to_contain_text("1,751 rides on a dry day")
        ready(dialog, "^Yes")
        assert not (self.lab.folder / "report.md").exists()
        self.begin_view_at(notebook.cell(3).locator("img"))
        self.keep("asks-to-write")
        if RECORDS:
            still(page, DOCS / "screenshot.png")
        ready(dialog, "^Yes").click()
        expect(cell.locator(".indus-answer").last).to_contain_text("once more")
        assert (self.lab.folder / "report.md").read_text() == REPORT
        self.run(5, "%agent steer say also how the means were made")
        notebook.wait_until_run(5)
        expect(notebook.cell(5)).to_contain_text("The agent will read it")
        reads.open()
        expect(cell.locator(".indus-said")).to_have_text("say also how the means were made")
        expect(cell.locator(".indus-usage")).to_be_visible()
        expect(dialog).to_have_count(0)  # the file is the agent's own: changing it asks nothing again
        assert ADDED in (self.lab.folder / "report.md").read_text()
        self.keep("written")

    def an_answer_is_stopped(self) -> None:
        notebook = self.notebook
        self.api.add(
            Reply(Text("I compare each day with what its temperature lets expect.\n\n1. **5 August**: ", Gate()))
        )
        cell = self.run(6, "%agent which days are far off?")
        expect(cell.locator(".indus-answer")).to_contain_text("5 August")
        self.keep("streams")
        cell.get_by_role("button", name="Stop").click()
        notebook.wait_until_run(6)
        expect(self.run(7, "len(rides)").locator(".jp-OutputArea-output")).to_have_text("365")
        self.keep("stopped")
        notebook.save()

    def is_told_by(self, first: Locator, second: Locator, third: Locator, figure: Image.Image) -> None:
        """Check what can be seen of the three runs."""
        expect(first.locator("img")).to_have_js_property("naturalWidth", figure.width)
        expect(first).to_contain_text("365 rows")
        expect(first).to_contain_text("ax.scatter")
        expect(first).to_contain_text("in a copy")
        expect(first).to_contain_text("Below 10 °C rain matters most")
        expect(first.locator(".indus-usage").last).to_contain_text("demo")
        expect(second).to_contain_text("Wrote 139 bytes to report.md")
        expect(second).to_contain_text("say also how the means were made")
        expect(second).to_contain_text(ADDED)
        expect(second).to_contain_text("report.md now says also")
        expect(third).to_contain_text("5 August")
        expect(third).to_contain_text("Stopped: the agent was told to end.")


def test_a_plot_a_report_and_a_stop_are_all_told_by_the_file_alone(
    lab: Lab, api: MessagesApi, page: Page, tmp_path: Path
) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(f"{error}\n{error.stack}"))
    story = Story(lab, api, page)
    story.a_plot_is_asked_for()
    story.a_report_is_written_and_steered()
    story.an_answer_is_stopped()
    assert errors == []
    assert sum(page.evaluate("window.shifts")) < 3  # to follow the end makes about 1 of it

    schema, figure = api.requests[1], api.requests[2]
    assert "- temperature: float64" in "\n".join(schema.texts)
    assert "1751.0" in "\n".join(figure.texts)
    [sent] = sent_images(figure.body)
    image = Image.open(io.BytesIO(sent))

    lab.shut_down_kernels()
    page.set_viewport_size({"width": 1200, "height": 2400})
    reopened = lab.open_without_kernel(page, "rides.ipynb")
    story.is_told_by(*(reopened.cell(number) for number in (3, 4, 6)), image)
    expect(page.locator(".jp-Notebook").locator("button.ia-stop, .ia-root")).to_have_count(0)
    reopened.screenshot("story-reopened")

    convert = [sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(tmp_path)]
    subprocess.run([*convert, str(lab.folder / "rides.ipynb")], check=True, capture_output=True)
    exported = (tmp_path / "rides.html").read_text()
    assert "ia-root" not in exported
    assert "widget-view" not in exported
    page.goto((tmp_path / "rides.html").as_uri())
    cells = page.locator(".jp-Cell")
    story.is_told_by(*(cells.nth(number) for number in (3, 4, 6)), image)
    page.screenshot(path=SCREENSHOTS / "story-exported.png", full_page=True)

    saved = nbformat.read(lab.folder / "rides.ipynb", as_version=4)
    shown = [output.data["image/png"] for output in saved.cells[3].outputs if "image/png" in output.get("data", {})]
    assert [base64.b64decode(data) for data in shown] == [sent]
    assert "widgets" not in saved.metadata
    assert "ia-root" not in nbformat.writes(saved)
    if RECORDS:
        story.film.save(DOCS / "demo.gif", 960)
