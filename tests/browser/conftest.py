"""The browser and the server that all browser tests share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jupyterlab_page import VIEWPORT, Lab, clear, launch
from kernels import private_environment
from messages_api import MessagesApi
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=60_000)  # a machine may be busy


@pytest.fixture(scope="module")
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as api:
        yield api


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    """A server of the module's, whose ``LAB`` says what it has otherwise: options of `Lab`, and the user's settings.

    Without settings nobody is there to be asked.
    """
    options = dict(getattr(request.module, "LAB", {}))
    root = tmp_path_factory.mktemp("lab")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    if (settings := options.pop("settings", None)) is not None:
        Path(environment["INDUS_NB_AGENT_DIR"], "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    with Lab(folder, environment, **options) as lab:
        yield lab


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Playwright holds an event loop on this thread while it is open: asynchronous tests must not run meanwhile.
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def kept_page(browser: Browser) -> Iterator[Page]:
    with _new_page(browser) as page:
        yield page


@pytest.fixture
def own_page(browser: Browser) -> Iterator[Page]:
    """A page of the test's own, also in a module that ``KEEPS_PAGE``: for tests that change more than notebooks."""
    with _new_page(browser) as page:
        yield page


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A new page; where the module ``KEEPS_PAGE`` one for all its tests, cleared: loading it takes longest."""
    if getattr(request.module, "KEEPS_PAGE", False):
        kept: Page = request.getfixturevalue("kept_page")
        yield kept
        clear(kept)
    else:
        with _new_page(browser) as page:
            yield page


@contextmanager
def _new_page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport=VIEWPORT)
    page.set_default_timeout(60_000)
    yield page
    page.close()
