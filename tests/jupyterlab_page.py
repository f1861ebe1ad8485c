"""A JupyterLab or Notebook 7 of its own and a real browser in front of it, for tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self
from urllib.error import HTTPError

import nbformat
from playwright.sync_api import Browser, Error, Page, Playwright, ViewportSize, expect, sync_playwright

TOKEN = "tests-only"
EXTENSION = Path(__file__).parent.parent / "indus_nb" / "lab" / "labextension"
SCREENSHOTS = Path(__file__).parent / "browser" / "screenshots"
KERNEL_IS_READY = """() => {
    const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
    const kernel = context?.isReady && context.session?.kernel;
    return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
"""What a page says once the notebook in front can run cells."""
CLEAR = """() => {
    const shell = window.jupyterapp?.shell;
    for (const document of [...(shell?.widgets('main') ?? [])]) document.dispose();
    shell?.collapseRight();
}"""
IS_CLEARED = """() => {
    // A page that was loaded again may open the document of its address once more, late.
    const [{ type }] = performance.getEntriesByType('navigation');
    if (type === 'reload' || !window.jupyterapp) return false;
    return ![...window.jupyterapp.shell.widgets('main')].some(({context}) => context);
}"""
OPEN = """async path => {
    const { commands, shell } = window.jupyterapp;
    await commands.execute('docmanager:open', { path, factory: 'Notebook' });
    for (const launcher of [...shell.widgets('main')].filter(({context}) => !context)) launcher.dispose();
}"""
BUSY_FROM_THE_RUN_ON = """seconds => {
    window.jupyterapp.commands.execute('notebook:run-cell');
    setTimeout(() => { const end = Date.now() + 1000 * seconds; while (Date.now() < end) {} }, 20);
}"""
VIEWPORT: ViewportSize = {"width": 1200, "height": 1000}
_WITHOUT = (
    # Two pages of the browser's own, which each window loads for an address bar that nobody sees: as much work as all
    # else that a browser does to start.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
    # Of two flags like this the last one counts: these are what Playwright's names.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "LensOverlay"),
    *("HttpsFirstBalancedModeAutoEnable", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning"),
    *("AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints", "NetworkTimeServiceQuerying", "AimEnabled"),
    "PreconnectToSearch",
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=" + ",".join(_WITHOUT),
)


def launch(playwright: Playwright) -> Browser:
    """The browser named by INDUS_NB_CHROMIUM, a Chromium on PATH, or Playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = os.environ.get("INDUS_NB_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    try:
        return playwright.chromium.launch(
            executable_path=path, headless=True, args=[*FLAGS], ignore_default_args=["--hide-scrollbars"]
        )
    except Error as error:
        raise AssertionError(
            "The browser tests need Chromium: install it (`python3 tests/check.py --install-browser`, or `playwright "
            f"install chromium`) or set INDUS_NB_CHROMIUM to its path. Trying it ended with: {error.message}"
        ) from None


def keep_screenshot(page: Page, name: str) -> None:
    """Keep a picture of a page for people to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.mouse.move(0, 0)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


START_SECONDS = 150
"""Patience with a server of Jupyter: before it answers it runs Node several times, which a busy machine makes slow."""


def _extensions(folder: Path) -> Path:
    """A directory with our extension as it stands in the sources: an environment may have one of earlier."""
    made = folder / "labextensions"
    made.mkdir(exist_ok=True)
    if not (made / "indus_nb").exists():
        (made / "indus_nb").symlink_to(EXTENSION, target_is_directory=True)
    return made


def clear(page: Page) -> None:
    """Leave a page of JupyterLab as it was before the first notebook was opened in it, for the next test."""
    page.set_viewport_size(VIEWPORT)
    page.evaluate(CLEAR)


class Lab:
    """A server of JupyterLab, or of Notebook 7, whose root is ``folder``, with or without our extension of it."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        *,
        program: Literal["jupyterlab", "notebook"] = "jupyterlab",
        extension: bool = False,
        python: Path = Path(sys.executable),
    ) -> None:
        self.folder = folder
        self._place = {"jupyterlab": "lab/tree", "notebook": "notebooks"}[program]
        self._environment = environment
        self._log = (folder.parent / "lab.log").open("wb")
        page_config = Path(environment["JUPYTER_CONFIG_DIR"]) / "labconfig" / "page_config.json"
        page_config.parent.mkdir(parents=True, exist_ok=True)
        disabled = {
            "@jupyterlab/apputils-extension:announcements": True,
            "@voila-dashboards/jupyterlab-preview": True,
            "jupyterlab-jupytext": True,
            "indus_nb": not extension,
        }
        page_config.write_text(json.dumps({"disabledExtensions": disabled}))
        # Jupytext, which the tests use as a program, would read and write all files otherwise.
        server_config = {"ServerApp": {"jpserver_extensions": {"jupyterlab_jupytext": False}}}
        (page_config.parents[1] / "jupyter_server_config.json").write_text(json.dumps(server_config))
        self._process = subprocess.Popen(
            [
                str(python),
                *("-m", program, "--no-browser", "--allow-root", "--port=0", "--expose-app-in-browser"),
                *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"),
                *("--ServerApp.ip=127.0.0.1", "--LabApp.collaborative=False"),
                *(
                    f"--{app}.extra_labextensions_path={_extensions(folder.parent)}"
                    for app in ("LabApp", "JupyterNotebookApp")
                ),
            ],
            env=dict(environment),
            cwd=folder.parent,  # where jupyter-collaboration keeps what it has shared
            stdout=self._log,
            stderr=self._log,
        )
        self.url = self._wait_until_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def write(self, name: str, *cells: str, kernel: str = "python3") -> None:
        """Put a notebook with these code cells into the folder; a cell that begins with ``# `` is Markdown."""
        made = nbformat.v4.new_notebook(
            cells=[
                nbformat.v4.new_markdown_cell(cell) if cell.startswith("# ") else nbformat.v4.new_code_cell(cell)
                for cell in cells
            ]
        )
        made.metadata.kernelspec = {"name": kernel, "display_name": "Python 3 (ipykernel)", "language": "python"}
        nbformat.write(made, self.folder / name)

    def open(self, page: Page, name: str) -> Notebook:
        """Open a notebook, which starts its kernel; in a page that is kept, beside no other document."""
        for patience in (60_000, 120_000):
            if page.url.startswith(self.url) and page.evaluate(IS_CLEARED):
                page.evaluate(OPEN, name)
            else:
                page.goto(f"{self.url}/{self._place}/{name}?reset&token={TOKEN}")
            try:
                page.locator(".jp-Notebook").wait_for(timeout=patience)
                page.wait_for_function(KERNEL_IS_READY, timeout=patience)
                break
            except Error:  # the page and a new kernel may miss each other: a user would load it again
                if patience > 60_000:
                    raise
        return Notebook(page)

    def open_beside(self, page: Page, name: str, *, on_own_kernel: bool = False) -> Notebook:
        """Open another notebook on the kernel of the one in front, as *Change Kernel* does, or on a new one."""
        page.evaluate(
            """async ([name, isOnOwn]) => {
                const {id} = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                const kernel = isOnOwn ? undefined : {id};
                const panel = await window.jupyterapp.commands.execute(
                    'docmanager:open', {path: name, factory: 'Notebook', kernel});
                await panel.sessionContext.ready;
            }""",
            [name, on_own_kernel],
        )
        page.wait_for_function(
            "name => window.jupyterapp.shell.currentWidget?.context?.path.endsWith(name)", arg=name, timeout=60_000
        )
        page.wait_for_function(KERNEL_IS_READY, timeout=60_000)
        return Notebook(page, ".jp-NotebookPanel:not(.lm-mod-hidden) ")

    def switch_to_kernel_of(self, page: Page, name: str) -> None:
        """Switch the notebook in front to the kernel of another open one, as *Change Kernel* does."""
        page.evaluate(
            """async name => {
                const {shell} = window.jupyterapp;
                const other = [...shell.widgets('main')].find(({context}) => context?.path.endsWith(name));
                const {id} = other.sessionContext.session.kernel;
                await shell.currentWidget.sessionContext.changeKernel({id});
            }""",
            name,
        )
        page.wait_for_function(KERNEL_IS_READY, timeout=60_000)

    def open_without_kernel(self, page: Page, name: str) -> Notebook:
        """Open a notebook without starting a kernel for it."""
        page.goto(f"{self.url}/lab?reset&token={TOKEN}")
        page.wait_for_function("window.jupyterapp !== undefined")
        page.evaluate(
            """async name => {
                await window.jupyterapp.started;
                await window.jupyterapp.commands.execute('docmanager:open', {
                    path: name, factory: 'Notebook', kernelPreference: {shouldStart: false, autoStartDefault: false}
                });
            }""",
            name,
        )
        page.locator(".jp-Notebook").wait_for(timeout=60_000)
        return Notebook(page)

    def shut_down_kernels(self) -> None:
        """Shut down every kernel."""
        for session in self._request("GET", "api/sessions"):
            with suppress(HTTPError):  # another session had the same kernel
                self._request("DELETE", f"api/sessions/{session['id']}")

    def _request(self, method: str, path: str) -> Any:
        request = urllib.request.Request(
            f"{self.url}/{path}", method=method, headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            body = response.read()
        return json.loads(body) if body else None

    def _wait_until_ready(self) -> str:
        deadline = time.monotonic() + START_SECONDS
        runtime = Path(self._environment["JUPYTER_RUNTIME_DIR"])
        while time.monotonic() < deadline and self._process.poll() is None:
            for path in runtime.glob("jpserver-*.json"):
                try:
                    url = str(json.loads(path.read_text())["url"]).rstrip("/")
                    urllib.request.urlopen(f"{url}/api", timeout=5).close()
                except (OSError, ValueError):
                    continue
                return url
            time.sleep(0.1)
        self.__exit__()
        raise AssertionError(f"Jupyter did not start:\n{Path(self._log.name).read_text()[-3000:]}")


class Notebook:
    """An open notebook; cells are counted from 0."""

    def __init__(self, page: Page, within: str = "") -> None:
        self.page = page
        self._within = within

    def cell(self, number: int) -> Any:
        """The element of a cell."""
        return self.page.locator(f"{self._within}.jp-Notebook .jp-Cell").nth(number)

    def id_of(self, number: int) -> str:
        """The id of a cell of the notebook in front, by which models name it."""
        widget = "window.jupyterapp.shell.currentWidget"
        return self.page.evaluate(f"number => {widget}.content.widgets[number].model.sharedModel.getId()", number)

    def run(self, number: int) -> None:
        """Click into the cell and press shift-enter."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def run_by_mouse(self, number: int) -> None:
        """Click into the cell and press the button."""
        self.cell(number).locator(".cm-content").click()
        self.page.locator('.jp-NotebookPanel-toolbar [data-command="notebook:run-cell-and-select-next"]').first.click()

    def run_in_busy_page(self, number: int, *, seconds: float) -> None:
        """Click into the cell and run it, in a page that does nothing else for so long."""
        self.cell(number).locator(".cm-content").click()
        self.page.evaluate(BUSY_FROM_THE_RUN_ON, seconds)

    def wait_until_run(self, number: int) -> None:
        """Return when the cell has got its number, which is when it has ended."""
        expect(self.cell(number).locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]:"), timeout=120_000)

    def interrupt(self) -> None:
        """Press the button."""
        self.page.locator('.jp-NotebookPanel-toolbar [data-command="notebook:interrupt-kernel"]').first.click()

    def save(self) -> None:
        """Press the keys, and wait until the file is written."""
        self.page.keyboard.press("Control+s")
        self.page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=60_000)

    def use_theme(self, name: str) -> None:
        """Switch to a theme."""
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def screenshot(self, name: str) -> None:
        """Keep a picture of the page for people to look at."""
        keep_screenshot(self.page, name)


if __name__ == "__main__":  # whether there is a browser, for tests/check.py
    with sync_playwright() as started:
        launch(started).close()
