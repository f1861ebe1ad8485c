"""The panel at the side in Notebook 7: narrow, dark, by keyboard, and for screen readers."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from jupyterlab_page import Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Browser, Locator, Page, expect

LAB = {"extension": True, "program": "notebook", "settings": {}}

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PANEL = ".indus_nb-SidePanel"
CUT_OFF = """within => {
    const { left, right } = within.getBoundingClientRect();
    const sticksOut = node => {
        const box = node.getBoundingClientRect();
        return box.left < left - 1 || box.right > right + 1 || box.right > innerWidth + 1;
    };
    const isCut = node => node.matches('button') && node.scrollWidth > node.clientWidth + 1;
    return [...within.querySelectorAll('button, textarea, input, select, .ia-heading, .ia-dialog')]
        .filter(node => node.checkVisibility() && node.clientWidth > 1 && (sticksOut(node) || isCut(node)))
        .map(node => node.outerHTML.slice(0, 200));
}"""


def serious_problems(page: Page) -> list[str]:
    found = Axe().run(page, PANEL, {"runOnly": {"type": "tag", "values": RULES}}).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


def test_a_question_is_answered_by_keyboard_in_a_narrow_dark_window(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("narrow.ipynb", "x = 1")
    notebook = lab.open(page, "narrow.ipynb")
    page.set_viewport_size({"width": 560, "height": 900})
    notebook.use_theme("JupyterLab Dark")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    expect(page.locator(f"{PANEL} textarea")).to_be_focused()
    assert serious_problems(page) == []
    api.add(Reply(ToolUse("bash", {"command": "touch made"})), "It is there.")
    page.keyboard.type("make a file")
    page.keyboard.press("Enter")
    expect(page.locator(PANEL).get_by_role("dialog")).to_be_visible()
    notebook.screenshot("door-question")
    assert serious_problems(page) == []
    page.wait_for_timeout(600)  # a key counts once the question has been there for a moment
    page.keyboard.press("1")
    expect(page.locator(f"{PANEL} .indus-answer").last).to_have_text("It is there.")
    assert (lab.folder / "made").exists()
    box = page.locator(f"{PANEL} textarea").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 560
    notebook.screenshot("door-narrow")


def all_can_be_pressed(within: Locator) -> None:
    """Nothing within it is cut off at a side, and nothing lies over a button."""
    assert within.evaluate(CUT_OFF) == []
    for button in within.get_by_role("button").all():
        if button.is_visible() and button.is_enabled():
            button.click(trial=True)


def test_at_twice_the_size_nothing_of_panel_and_bar_is_cut_off_or_covered(
    lab: Lab, browser: Browser, api: MessagesApi
) -> None:
    lab.write("large.ipynb", "1 / 0")
    page = browser.new_page(viewport={"width": 640, "height": 512}, device_scale_factor=2)
    page.set_default_timeout(60_000)
    notebook = lab.open(page, "large.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    all_can_be_pressed(page.locator(".indus-error-bar"))
    notebook.screenshot("door-large-bar")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    panel = page.locator(PANEL)
    expect(panel.locator("textarea")).to_be_focused()
    all_can_be_pressed(panel)
    api.add(Reply(ToolUse("bash", {"command": "touch made-large"})), "It is there.")
    page.keyboard.type("make a file")
    page.keyboard.press("Enter")
    yes = panel.get_by_role("dialog").get_by_role("button", name="Yes", exact=False).first
    expect(yes).to_be_enabled()
    notebook.screenshot("door-large-question")
    all_can_be_pressed(panel)
    yes.click()
    expect(panel.locator(".indus-answer").last).to_have_text("It is there.")
    notebook.screenshot("door-large")
    all_can_be_pressed(panel)
    page.close()


def test_in_a_wide_window_the_panel_has_the_width_of_its_place(lab: Lab, browser: Browser) -> None:
    lab.write("wide.ipynb", "1")
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(60_000)
    lab.open(page, "wide.ipynb")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    expect(page.locator(f"{PANEL} textarea")).to_be_focused()
    all_can_be_pressed(page.locator(PANEL))
    edge = page.locator(f"{PANEL} .ia-composer").evaluate("node => node.getBoundingClientRect().right")
    assert 1380 < edge < 1396
    page.close()
