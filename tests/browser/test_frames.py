"""In a real browser nothing runs in the frame of an output, nothing is fetched for it, and it stays where it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hostile_html import HOSTILE
from playwright.sync_api import Browser, Page

from indus_nb.kernel.run.inert import inert


class Site:
    """A server of one page, which knows what else it is asked for."""

    def __init__(self) -> None:
        self.page = ""
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != "/":
                    site.asked.append(self.path)
                self.send_response(200 if self.path == "/" else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(site.page.encode() if self.path == "/" else b"")

            do_POST = do_GET  # noqa: N815 - the name is the server's

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever)
    thread.start()
    yield site
    site.server.shutdown()
    thread.join()
    site.server.server_close()


RUN = "top.document.title=1;parent.document.title=1;document.title=1;alert(1);location=1"


def written(html: str, number: int, site: Site) -> str:
    return html.replace("ADDRESS", f"{site.url}/fetched-{number}").replace("RUN", RUN.replace("1", "&quot;ran&quot;"))


def test_nothing_runs_in_frames_and_nothing_is_fetched_for_them(page: Page, site: Site) -> None:
    shown = [
        str((inert({"text/html": written(html, number, site)}) or {}).get("text/html", ""))
        for number, html in enumerate(HOSTILE)
    ]
    assert all(each.startswith("<iframe sandbox ") for each in shown)
    site.page = f"<!DOCTYPE html><title>page</title><link rel=icon href='data:,'>{''.join(shown)}"
    page.goto(site.url)
    page.wait_for_timeout(1500)
    assert [frame.url for frame in page.frames[1:]] == ["about:srcdoc"] * len(HOSTILE)
    for frame in page.frames[1:]:
        for link in frame.query_selector_all("a, button, input, summary"):
            link.dispatch_event("click")
    page.wait_for_timeout(500)
    assert (site.asked, page.title()) == ([], "page")
    assert [frame.url for frame in page.frames[1:]] == ["about:srcdoc"] * len(HOSTILE)


def test_as_it_is_the_same_html_does_run_and_fetch(browser: Browser, site: Site) -> None:
    fetched: set[int] = set()
    for number, html in enumerate(HOSTILE):
        site.page = (
            f"<!DOCTYPE html><title>page</title><link rel=icon href='data:,'><body>{written(html, number, site)}"
        )
        one = browser.new_page()  # one that goes elsewhere may overtake what it is sent to next
        one.on("dialog", lambda dialog: dialog.dismiss())
        one.goto(site.url)
        one.wait_for_timeout(150)
        if site.asked or "ran" in one.title():
            fetched.add(number)
        one.close()
        site.asked.clear()
    assert len(fetched) > len(HOSTILE) / 2
