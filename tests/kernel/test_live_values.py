"""Live values: an answer's expressions are looked up when it is whole, and their values stand in their places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import Gate, HttpError, MessagesApi, Reply, Thinking, ToolUse
from nbclient import NotebookClient
from nbconvert import get_exporter
from panel_pages import Page, Wire

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")

VIEW = "application/vnd.jupyter.widget-view+json"
ENDLESS = "[0 for _ in iter(int, 1)]"
KEY = "test-key-of-a-length-that-is-distinct"
SET_UP = """
import os, pathlib, time
items, n = [3, 1, 2], 7
db_password = 'Tr0ub4dor-and-3'
settings = {'db_password': db_password}
plain = 'sk-ant-api03-' + 'Ab1Cd2Ef3G' * 9
class Odd:
    def __str__(self): raise OSError('out of order')
odd = Odd()
class Loud:
    def __str__(self): items.append(9); return 'loud'
loud = Loud()
"""
FRAME = """
import pandas as pd
flights = pd.DataFrame({'delay': [1.0, 2.5], 'name': ['<b>x</b>', '`y`']})
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("live")
    (root / "work").mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY)
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        assert kernel.run(SET_UP).status == "ok"
        assert kernel.run("%agent --thinking off --model anthropic/claude-sonnet-4-5").status == "ok"
        yield kernel


def answered(kernel: Kernel, api: MessagesApi, *answers: str | Reply) -> str:
    """Return what a cell shows for answers, as plain text without its closing line."""
    for answer in answers:
        api.add(answer)
    cell = kernel.run("%agent so")
    assert cell.status == "ok", cell.error
    return "\n".join(cell.shown[: -1 if len(cell.shown) > 1 else None])


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("items.append(4)", "changes items"),
        ("str(loud) * 0 or items", "changes items"),
        ("loud", "changes items"),
        ("pathlib.Path('made').write_text('x')", "writes made"),
        ("os.system('touch made')", "touch made"),
        ("'x' * 10 ** 10", "memory"),
        ("odd", "OSError"),
        ("input()", "asks for input"),
        ("os._exit(1)", "without a result"),
        ("nothing", "NameError"),
        ("db_password", "it reads db_password, and secrets are not shown"),
        ("settings['db_password']", "it reads db_password"),
        ("os.environ['ANTHROPIC_API_KEY']", "it reads ANTHROPIC_API_KEY"),
        ("items and plain", "its value holds a secret"),
        ("(a := 4)", "binds a name"),
        ("import os", "not one Python expression"),
    ],
)
def test_what_does_more_than_look_has_no_value(kernel: Kernel, api: MessagesApi, expression: str, why: str) -> None:
    text = f"One is `{{python}} n`, one `{{python}} {expression}`."
    assert f"One is 7, one `{expression}` (no value)." in answered(kernel, api, text, text)
    note = api.requests[-1].texts[-1]
    assert f"- {expression}: no value (" in note
    assert why in note
    assert kernel.run("print(items, os.listdir())").streams == "[3, 1, 2] []\n"


def test_the_model_gets_values_with_the_next_prompt_and_no_request_is_made_for_them(
    kernel: Kernel, api: MessagesApi
) -> None:
    assert answered(kernel, api, "It is `{python} n + 1`.").endswith("It is 8.")
    before = len(api.requests)
    api.add("fine")
    assert kernel.run("%agent and now?").status == "ok"
    assert len(api.requests) == before + 1
    along = "\n".join(api.requests[-1].texts)
    assert "the user saw:\n- n + 1: 8" in along
    api.add("fine")
    assert kernel.run("%agent again").status == "ok"
    assert "- n + 1: 8" not in "\n".join(api.requests[-1].texts)


def test_a_cell_that_asks_again_gives_the_model_the_values_of_the_answer_before_it_again(
    kernel: Kernel, api: MessagesApi
) -> None:
    api.add("It is `{python} n + 2`.", "fine", "fine")
    kernel.run("%agent what is it?", cell_id="first")
    kernel.run("%agent and now?", cell_id="second")
    before = api.requests[-1].body["messages"]
    assert "the user saw:\n- n + 2: 9" in str(before).replace("\\n", "\n")
    kernel.run("%agent and now?", cell_id="second")
    assert api.requests[-1].body["messages"] == before


def test_what_has_no_value_is_sent_back_once_and_the_new_answer_takes_its_place(
    kernel: Kernel, api: MessagesApi
) -> None:
    before = len(api.requests)
    shown = answered(kernel, api, "It is `{python} n` or `{python} absent`.", "Then `{python} missing`.")
    assert shown == "Then `missing` (no value)."
    assert len(api.requests) == before + 2
    api.add("It is `{python} n` or `{python} absent`.", "It is `{python} n + 1`.")
    cell = kernel.run("%agent so")
    assert next(text for text in cell.shown if text) == "It is 8."
    assert "absent" not in "".join(str(bundles[-1]) for bundles in cell.displays.values())
    assert "n + 1" in str(kernel.run("%agent claims").displays)
    assert "absent" not in str(kernel.run("%agent claims").displays)


def test_an_answer_that_is_not_written_anew_after_all_is_shown(kernel: Kernel, api: MessagesApi) -> None:
    api.add("It is `{python} absent`.", Reply("So ", HttpError(400, "invalid_request_error", "no")))
    cell = kernel.run("%agent so")
    assert "It is `absent` (no value)." in cell.shown
    api.clear()


def test_a_secret_is_in_no_form_of_the_output(kernel: Kernel, api: MessagesApi) -> None:
    api.add(*["It is `{python} db_password`, `{python} settings` and `{python} plain`."] * 2)
    cell = kernel.run("%agent so")
    assert "(no value)" in str(cell.displays)
    assert "Tr0ub4dor" not in str(vars(cell))
    assert "Ab1Cd2Ef3GAb1Cd2" not in str(vars(cell))


def test_what_does_not_end_leaves_time_for_others_and_is_not_sent_back(kernel: Kernel, api: MessagesApi) -> None:
    before = len(api.requests)
    shown = answered(kernel, api, f"One `{{python}} {ENDLESS}`, one `{{python}} n`.")
    assert f"One `{ENDLESS}` (no value), one 7." in shown
    assert len(api.requests) == before + 1
    api.add("fine")
    assert kernel.run("%agent and?").status == "ok"
    note = "\n".join(api.requests[-1].texts)
    assert re.search(r"it takes longer than \d(\.\d)? s\)", note)


NO_COPY = """
from indus_nb.front.notebook import conversations_of
trials = type(conversations_of(get_ipython()).kernel.trials)
original = trials._obstacle
async def _obstacle(self, code): return 'this is a test'
trials._obstacle = _obstacle
"""


def test_where_there_can_be_no_copy_the_model_writes_numbers(kernel: Kernel, api: MessagesApi) -> None:
    assert kernel.run(NO_COPY).error is None
    shown = answered(kernel, api, "It is `{python} n`.", "It is 7.")
    assert kernel.run("trials._obstacle = original").error is None
    assert shown.endswith("It is 7.")
    assert "(no value)" not in shown
    assert "- n: no value (could not be tried in a copy of the kernel: this is a test)" in api.requests[-1].texts[-1]


FENCED = """\
```python
`{python} n`
```

~~~
`{python} n`
~~~

    `{python} n`

\\`{python} n\\` {python} n `n`"""


def test_text_that_is_no_inline_code_of_the_answer_stays_text(kernel: Kernel, api: MessagesApi) -> None:
    shown = answered(
        kernel,
        api,
        Reply(Thinking("Is it `{python} n`?"), ToolUse("python", {"code": "print('`{python} n`')"})),
        FENCED,
    )
    assert "7" not in shown.replace("token", "")
    assert shown.count("{python} n") == 8


def test_a_mark_stands_in_the_place_while_the_answer_grows(kernel: Kernel, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply("Some `{python} n` of them, ", gate, "and no more."))
    cell = kernel.begin("%agent so")
    assert gate.reached.wait(60)
    cell.wait_for(lambda cell: any(text.startswith("Some …") for text in cell.shown))
    gate.open()
    assert "Some 7 of them, " in cell.finish().shown


def test_the_value_of_a_cell_has_values_too(kernel: Kernel, api: MessagesApi) -> None:
    api.add("It is `{python} n`.")
    assert kernel.run("%agent -o told how many?").status == "ok"
    assert kernel.run("print(told)").streams == "It is 7.\n"


def test_a_saved_notebook_shows_values_in_every_form(tmp_path: Path, api: MessagesApi) -> None:
    text = "The mean is `{python} f'{sum(items) / 4:.2f}'`, of `{python} absent`."
    api.add(f"At first. {text}", text)
    cells = ["%load_ext indus_nb\nitems = [1, 2]", "%agent --thinking off --model anthropic/claude-sonnet-4-5 what?"]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    (tmp_path / "work").mkdir()
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY)
    client = NotebookClient(made, timeout=None, resources={"metadata": {"path": str(tmp_path / "work")}})
    client.execute(env=environment)
    saved = nbformat.reads(nbformat.writes(made), as_version=4)
    assert "At first" not in nbformat.writes(made)
    assert all(output.data["text/plain"] for output in saved.cells[1].outputs)
    kept = next(output.metadata["indus_nb"] for output in saved.cells[1].outputs if "indus_nb" in output.metadata)
    assert kept["values"] == [
        {"expression": "f'{sum(items) / 4:.2f}'", "value": "0.75", "reads": ["items"]},
        {"expression": "absent", "problem": "NameError: name 'absent' is not defined"},
    ]
    html = get_exporter("html")().from_notebook_node(saved)[0]
    assert "&#x27;{sum(items) / 4:.2f}&#x27;" in html or "'{sum(items) / 4:.2f}'" in html
    assert re.search(r"The mean is <span [^>]*>0\.75</span>, of", html)
    markdown = get_exporter("markdown")().from_notebook_node(saved)[0]
    assert "0.75" in markdown
    assert "{python}" not in markdown + html


def test_an_interrupt_ends_a_look(kernel: Kernel, api: MessagesApi) -> None:
    api.add("It is `{python} [0 for _ in iter(int, 1)]`, and `{python} n`.")
    cell = kernel.begin("%agent so")
    cell.wait_for(lambda cell: any("It is …, and …." in text for text in cell.shown))
    before = len(api.requests)
    kernel.interrupt()
    cell.finish()
    assert cell.status == "error"
    assert len(api.requests) == before
    assert "It is `{python} [0 for _ in iter(int, 1)]`, and `{python} n`." in cell.shown
    assert kernel.run("n").status == "ok"


def test_a_panel_is_answered_where_computing_again_changes_nothing(tmp_path: Path, api: MessagesApi) -> None:
    environment = private_environment(
        tmp_path, JPY_SESSION_NAME=str(tmp_path / "a.ipynb"), ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY
    )
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        wire = Wire(kernel)
        shown = kernel.begin("%agent panel", asks=True).finish()
        page = Page(wire, next(each[VIEW]["model_id"] for (each,) in shown.displays.values() if VIEW in each))
        page.settle()
        before = page.state.pop("outdated")
        page.tell("check_values")
        page.wait_for(lambda: "outdated" in page.state)
        assert (page.state["outdated"], page.toasts) == (before, [])
        wire.close()


def test_after_a_restart_a_panel_shows_the_values_that_an_answer_had(tmp_path: Path, api: MessagesApi) -> None:
    environment = private_environment(
        tmp_path, JPY_SESSION_NAME=str(tmp_path / "a.ipynb"), ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY
    )
    with Kernel(tmp_path, environment) as kernel:

        def ask(line: str) -> Cell:
            return kernel.begin(f"%agent {line}", asks=True).finish()

        kernel.run(f"%load_ext indus_nb\n{SET_UP}")
        api.add("Done: `{python} n` rows are left.")
        asked = ask("--thinking off --model anthropic/claude-sonnet-4-5 how many?")
        assert "Done: 7 rows are left." in asked.shown
        kernel.restart()
        kernel.run("%load_ext indus_nb")
        wire = Wire(kernel)
        ask("--continue")
        shown = ask("panel")
        page = Page(wire, next(each[VIEW]["model_id"] for (each,) in shown.displays.values() if VIEW in each))
        page.wait_for(lambda: "rows are" in page.text)
        assert "Done: 7 rows are left." in page.text
        assert re.search(r'title="n \(as of \d{4}-\d\d-\d\d \d\d:\d\d\)"', "".join(page.blocks.values()))
        wire.close()


@pytest.fixture(scope="module")
def kernel_with_pandas(kernel: Kernel) -> Kernel:
    """The kernel from here on: each copy of one that has loaded pandas takes longer."""
    assert kernel.run(FRAME).status == "ok"
    return kernel


def test_a_value_stands_in_the_place_of_its_expression(kernel_with_pandas: Kernel, api: MessagesApi) -> None:
    api.add('The mean is `{python} f"{flights.delay.mean():.2f}"` of `n`.')
    cell = kernel_with_pandas.run("%agent what is the mean?")
    assert cell.status == "ok", cell.error
    assert "The mean is 1.75 of `n`." in cell.shown
    assert "assistant: The mean is 1.75 of `n`." in "".join(kernel_with_pandas.run("%agent tree").shown)


def test_a_value_is_a_short_line_of_text_without_keys_and_is_escaped(
    kernel_with_pandas: Kernel, api: MessagesApi
) -> None:
    api.add("`{python} flights.name[0]` `{python} flights.name[1]` `{python} 'long ' * 1000` `{python} flights`")
    cell = kernel_with_pandas.run("%agent so")
    answer = next(bundles[-1] for bundles in cell.displays.values() if "long long" in bundles[-1]["text/plain"])
    html, markdown = answer["text/html"], answer["text/markdown"]
    assert "<b>" not in html + markdown
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "&#96;y&#96;" in markdown
    assert 200 < len(max(markdown.split("&#96;y&#96; ")[1:])) < 500
    api.add("`{python} [*os.environ.values()]`", "I cannot tell.")  # the other values may look like secrets, too
    assert KEY not in str(vars(kernel_with_pandas.run("%agent so")))
    api.clear()
