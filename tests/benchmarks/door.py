"""What the extension costs a start of JupyterLab, and what a newcomer's first minutes take with it and without.

    python tests/benchmarks/door.py [--starts 15] [--pictures DIRECTORY]

Two JupyterLabs with the same notebook, one of them with the extension disabled, are opened in turn, each time in a
browser context without a cache. Then somebody who has a notebook asks a first question, has an error mended and a
figure drawn, with the extension, without it, and with it but without a key: clicks, keys and seconds of each, from the
first click to the end of what the agent does, and a picture after each step. The model's part is scripted.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from file_keyring import with_keyring
from jupyterlab_page import TOKEN, Lab, Notebook, launch
from kernels import private_environment
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

KEY = "test-key-of-a-newcomer"
FRAME = """\
import matplotlib.pyplot as plt
import pandas as pd

sales = pd.DataFrame({'month': range(1, 13), 'tea': range(12, 24)})"""
FAILS = "sales.groupby('mnth').tea.sum().max()"
PLOT = "fig, ax = plt.subplots()\nax.plot(sales.month, sales.tea)"
ANSWER, MENDED, GROWS = "It has a month and the tea of it.", "The column is called month.", "It grows."
RESTORED = """async () => {
    while (!window.jupyterapp) await new Promise(requestAnimationFrame);
    await window.jupyterapp.restored;
    return performance.now();
}"""


@dataclass
class Hand:
    """Clicks and types, and counts both."""

    page: Page
    clicks: int = 0
    keys: int = 0
    began: float | None = None
    rows: list[tuple[str, int, int, float]] = field(default_factory=list[tuple[str, int, int, float]])

    def click(self, target: Locator) -> None:
        """Click into the middle of the target."""
        self.began = self.began or time.monotonic()
        target.click()
        self.clicks += 1

    def type(self, text: str, *keys: str) -> None:
        """Type, and press keys."""
        self.began = self.began or time.monotonic()
        self.page.keyboard.insert_text(text)
        for key in keys:
            self.page.keyboard.press(key)
        self.keys += len(text) + len(keys)

    def reached(self, what: str) -> None:
        """Note what was counted since the last time."""
        assert self.began is not None
        self.rows.append((what, self.clicks, self.keys, time.monotonic() - self.began))
        self.clicks, self.keys, self.began = 0, 0, None


def main() -> None:
    """Measure both, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=15, help="pairs of starts")
    parser.add_argument("--pictures", type=Path, help="where pictures of each step are kept")
    asked = parser.parse_args()
    with MessagesApi() as api, sync_playwright() as playwright:
        browser = launch(playwright)
        with lab_of(api, extension=True) as with_it, lab_of(api, extension=False) as without:
            if asked.starts:
                compare_starts(browser, with_it, without, asked.starts)
            print("\n| who | what | clicks | keys | seconds |\n|---|---|---|---|---|")
            film(browser, with_it, api, asked.pictures, "with the extension", in_panel)
            film(browser, without, api, asked.pictures, "without", in_cells)
        api.keys = {KEY}
        with lab_of(api, extension=True, keyless=True) as keyless:
            film(browser, keyless, api, asked.pictures, "without a key", from_no_key)


@contextmanager
def lab_of(api: MessagesApi, *, extension: bool, keyless: bool = False) -> Iterator[Lab]:
    """A JupyterLab with a notebook of two cells, the second of which fails."""
    root = Path(tempfile.mkdtemp())
    (root / "work").mkdir()
    key = {} if keyless else {"ANTHROPIC_API_KEY": KEY}
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, **key, **with_keyring(root / "passwords.json"))
    Path(environment["INDUS_NB_AGENT_DIR"], "settings.json").unlink()  # somebody is there to be asked
    with Lab(root / "work", environment, extension=extension) as lab:
        lab.write("tea.ipynb", FRAME, FAILS)
        yield lab


def compare_starts(browser: Browser, with_it: Lab, without: Lab, pairs: int) -> None:
    """Print what a start takes with the extension, without, and the difference of each pair.

    Both as the user waits, and as the page's main thread works, which differs less from start to start.
    """

    def start(lab: Lab) -> tuple[float, float]:
        context = browser.new_context(viewport={"width": 1200, "height": 1000})
        page = context.new_page()
        protocol = context.new_cdp_session(page)
        protocol.send("Performance.enable")
        page.goto(f"{lab.url}/lab?reset&token={TOKEN}")
        took = float(page.evaluate(RESTORED))
        metrics = {each["name"]: each["value"] for each in protocol.send("Performance.getMetrics")["metrics"]}
        context.close()
        return took, 1000 * metrics["TaskDuration"]

    both = (with_it, without)
    for lab in both:
        start(lab)
    found = [{lab: start(lab) for lab in (both if number % 2 else both[::-1])} for number in range(pairs)]
    for at, what in enumerate(("ms until JupyterLab is restored", "ms of the main thread until then")):
        ours, theirs = ([took[lab][at] for took in found] for lab in both)
        differences = sorted(one - other for one, other in zip(ours, theirs, strict=True))
        print(
            f"{what}, medians of {pairs} pairs: {statistics.median(ours):.0f} with,",
            f"{statistics.median(theirs):.0f} without; of the differences {statistics.median(differences):.0f}",
            f"(quartiles {differences[pairs // 4]:.0f}, {differences[-1 - pairs // 4]:.0f})",
            flush=True,
        )


def film(
    browser: Browser,
    lab: Lab,
    api: MessagesApi,
    pictures: Path | None,
    who: str,
    acts: Callable[[Notebook, Hand, MessagesApi, Callable[[str], None]], None],
) -> None:
    """Open the notebook, run its first cell, and let somebody act."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    notebook = lab.open(page, "tea.ipynb")
    hand, shots = Hand(page), iter(range(1, 100))

    def picture(what: str) -> None:
        if pictures:
            pictures.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=pictures / f"{who.replace(' ', '-')}-{next(shots):02d}-{what}.png")

    notebook.run(0)
    notebook.wait_until_run(0)
    picture("opened")
    acts(notebook, hand, api, picture)
    page.close()
    for what, clicks, keys, seconds in hand.rows:
        print(f"| {who} | {what} | {clicks} | {keys} | {seconds:.1f} |", flush=True)


def in_panel(notebook: Notebook, hand: Hand, api: MessagesApi, picture: Callable[[str], None]) -> None:
    """Ask in the side panel, mend by its button, and plot."""
    page = notebook.page
    hand.click(page.locator("[data-id='indus_nb-panel']"))
    chat = page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")
    expect(chat.locator("textarea")).to_be_focused(timeout=30_000)
    picture("panel")
    ask_in_panel(chat, hand, api)
    picture("answer")
    mend_and_plot(notebook, chat, hand, api, picture)


def ask_in_panel(chat: Locator, hand: Hand, api: MessagesApi) -> None:
    """Ask the first question where the cursor already is."""
    api.add(ANSWER)
    hand.type("What is in $sales?", "Enter")
    expect(chat.locator(".indus-answer").last).to_have_text(ANSWER, timeout=30_000)
    hand.reached("first answer")


def mend_and_plot(
    notebook: Notebook, chat: Locator, hand: Hand, api: MessagesApi, picture: Callable[[str], None]
) -> None:
    """Press *Fix* below a traceback, accept, and ask for a figure."""
    notebook.run(1)
    notebook.wait_until_run(1)
    picture("error")
    mended = {"replace": "2", "source": FAILS.replace("mnth", "month")}
    api.add(Reply(ToolUse("propose_cell", mended)), MENDED)
    hand.click(notebook.cell(1).get_by_role("button", name="Fix"))
    accept = chat.get_by_role("button", name="Accept and run")
    expect(accept).to_be_visible(timeout=30_000)
    picture("proposal")
    hand.click(accept)
    expect(notebook.cell(1).locator(".jp-OutputArea-executeResult")).to_contain_text("23")
    hand.reached("error mended")
    expect(chat.locator(".indus-answer").last).to_have_text(MENDED)
    picture("mended")
    api.add(Reply(ToolUse("python", {"code": PLOT})), GROWS)
    hand.click(chat.locator("textarea"))
    hand.type("Plot tea by month", "Enter")
    expect(chat.locator("img")).to_be_visible(timeout=30_000)
    hand.reached("column plotted")
    expect(chat.locator(".indus-answer").last).to_have_text(GROWS)
    picture("plotted")


def in_cells(notebook: Notebook, hand: Hand, api: MessagesApi, picture: Callable[[str], None]) -> None:
    """Type magics into cells, as a front end without the extension has it."""
    page = notebook.page

    def below(number: int, line: str) -> Locator:
        hand.click(notebook.cell(number).locator(".cm-content"))
        page.keyboard.press("Escape")
        page.keyboard.press("b")
        page.keyboard.press("Enter")
        hand.keys += 3
        hand.type(line, "Shift+Enter")
        return notebook.cell(number + 1)

    api.add(ANSWER)
    below(1, "%load_ext indus_nb")
    expect(notebook.cell(2).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"), timeout=60_000)
    picture("loaded")
    asked = below(2, "%agent What is in $sales?")
    expect(asked).to_contain_text(ANSWER, timeout=30_000)
    hand.reached("first answer")
    picture("answer")
    notebook.run(1)
    notebook.wait_until_run(1)
    picture("error")
    api.add(Reply(ToolUse("propose_cell", {"replace": "2", "source": FAILS.replace("mnth", "month")})), MENDED)
    asked = below(3, "%agent fix")
    accept = asked.get_by_role("button", name="Accept and run")
    expect(accept).to_be_visible(timeout=30_000)
    picture("proposal")
    hand.click(accept)
    expect(notebook.cell(1).locator(".jp-OutputArea-executeResult")).to_contain_text("23", timeout=30_000)
    hand.reached("error mended")
    expect(asked).to_contain_text(MENDED, timeout=30_000)
    picture("mended")
    api.add(Reply(ToolUse("python", {"code": PLOT})), GROWS)
    asked = below(4, "%agent Plot tea by month")
    expect(asked.locator("img")).to_be_visible(timeout=30_000)
    hand.reached("column plotted")
    expect(asked).to_contain_text(GROWS, timeout=30_000)
    picture("plotted")


def from_no_key(notebook: Notebook, hand: Hand, api: MessagesApi, picture: Callable[[str], None]) -> None:
    """Open the panel, paste a key into its form, and ask."""
    page = notebook.page
    hand.click(page.locator("[data-id='indus_nb-panel']"))
    chat = page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")
    key = chat.get_by_label("API key")
    expect(key).to_be_visible(timeout=30_000)
    picture("form")
    hand.click(key)
    hand.type(KEY, "Enter")
    expect(chat).to_contain_text("A first prompt costs about", timeout=30_000)
    hand.reached("key tested and kept")
    picture("key")
    hand.click(chat.locator("textarea"))
    ask_in_panel(chat, hand, api)
    picture("answer")


if __name__ == "__main__":
    main()
