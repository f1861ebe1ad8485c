"""What the agent's code shows: to the user as the outputs of a cell, to the model in short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("outputs")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Kernel:
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    api.requests.clear()
    return kernel


def until(condition: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def ran(claude: Kernel, api: MessagesApi, code: str) -> tuple[Cell, list[dict[str, Any]]]:
    """The cell in which the agent ran ``code``, and the parts of the result that the model read."""
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
    cell = claude.run("%agent go")
    assert cell.status == "ok", cell.error
    return cell, told(api)


def told(api: MessagesApi) -> list[dict[str, Any]]:
    content = api.requests[-1].body["messages"][-1]["content"][0]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(parts: list[dict[str, Any]]) -> str:
    return "".join(part.get("text", "") for part in parts)


def test_a_progress_bar_is_its_last_state(claude: Kernel, api: MessagesApi) -> None:
    code = "import sys\nfor done in range(101):\n    sys.stderr.write(f'\\r{done:3}%')\nprint('\\nend')"
    cell, parts = ran(claude, api, code)
    assert text_of(parts) == "100%\nend\n"
    assert any("100%" in card and "99%" not in card for card in cell.shown)


def test_what_code_printed_before_it_was_stopped_is_kept(claude: Kernel, api: MessagesApi) -> None:
    sign = claude.folder / "printed"
    code = "import time\nprint('step 1')\nopen('printed', 'w').close()\ntime.sleep(1000)"
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
    cell = claude.begin("%agent go")
    until(sign.exists)
    claude.interrupt()
    assert cell.finish().status == "error"
    assert any("step 1" in card and "was interrupted" in card for card in cell.shown)
    assert claude.run("%agent and now?").status == "ok"
    results = [part for message in api.requests[-1].body["messages"] for part in message["content"]]
    results = [part for part in results if isinstance(part, dict) and part["type"] == "tool_result"]
    result = str(results[-1]["content"])
    assert "step 1" in result
    assert "The run was aborted: the code was interrupted." in result
    assert claude.run("%agent export stopped.html").status == "ok"
    assert "> · step 1 · stopped · Changed: printed new" in (claude.folder / "stopped.html").read_text()


def bundles(cell: Cell, kind: str) -> list[Any]:
    """What the cell's displays of a kind hold at the end."""
    return [shown[-1][kind] for shown in cell.displays.values() if kind in shown[-1]]


def own_tables(cell: Cell) -> list[str]:
    return [html for html in bundles(cell, "text/html") if "<table" in html and "indus-" not in html]


def test_a_table_is_shown_to_the_user_as_its_html_and_to_the_model_in_short(claude: Kernel, api: MessagesApi) -> None:
    code = "import pandas as pd\nprint('before')\ntable = pd.DataFrame({'n': range(6), 'word': list('abcdef')})\ntable"
    cell, parts = ran(claude, api, code)
    claude.run("users = table.copy()")
    assert own_tables(cell) == [bundles(claude.run("display(users)"), "text/html")[0]]
    assert text_of(parts).startswith("before\npandas.DataFrame: 6 rows \N{MULTIPLICATION SIGN} 2 columns\n- n: int64")
    card = next(text for text in cell.shown if "before" in text)
    assert "DataFrame 6 \N{MULTIPLICATION SIGN} 2" in card
    assert "int64" not in card
    order = list(cell.displays.values())
    table = next(number for number, shown in enumerate(order) if "dataframe" in shown[-1].get("text/html", ""))
    assert "before" in order[table - 1][-1]["text/plain"]  # the card stands right above
    assert "Done." in order[table + 1][-1]["text/plain"]


def test_what_has_only_html_is_given_to_the_model_as_its_words(claude: Kernel, api: MessagesApi) -> None:
    code = "from IPython.display import HTML\nHTML('<style>p{}</style><p>so <b>many</b></p><td>1</td><td>2</td>')"
    cell, parts = ran(claude, api, code)
    assert text_of(parts) == "so many\n1 | 2\n"
    assert any(html.startswith("<style>p{}") for html in bundles(cell, "text/html"))


def test_markdown_is_shown_as_an_output_of_its_own(claude: Kernel, api: MessagesApi) -> None:
    cell, parts = ran(
        claude, api, "from IPython.display import Markdown\ndisplay(Markdown('**so**'), metadata={'a': 1})"
    )
    assert text_of(parts) == "**so**\n"
    assert "**so**" in bundles(cell, "text/markdown")


def test_an_interactive_chart_is_shown_and_the_model_is_told_what_it_has_not_seen(
    claude: Kernel, api: MessagesApi
) -> None:
    kind = "application/vnd.plotly.v1+json"
    code = f"display({{'{kind}': {{'data': [{{'type': 'bar', 'y': [1]}}], 'layout': {{}}}}}}, raw=True)"
    cell, parts = ran(claude, api, code)
    assert [chart["data"][0]["type"] for chart in bundles(cell, kind)] == ["bar"]
    assert text_of(parts).startswith("[An interactive chart (plotly: bar) is shown to the user; you have not seen it")


def test_a_vega_chart_is_drawn_for_the_model_where_that_can_be(claude: Kernel, api: MessagesApi) -> None:
    assert claude.run("import altair as alt, pandas as pd, vl_convert", timeout=180).status == "ok"
    code = "d = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})\n"
    cell, parts = ran(claude, api, f"{code}alt.Chart(d).mark_bar().encode(x='a', y='b')")
    told_of = "[An interactive chart (Vega-Lite: bar) is shown to the user; its picture is attached.]"
    assert text_of(parts) == told_of
    assert [part["type"] for part in parts] == ["text", "image"]
    assert any("vega" in html for html in bundles(cell, "text/html"))


def test_a_styled_frame_is_a_styled_table_and_a_table_for_the_model(claude: Kernel, api: MessagesApi) -> None:
    cell, parts = ran(
        claude, api, "import pandas as pd\npd.DataFrame({'a': [1, 22]}).style.highlight_max(color='gold')"
    )
    (html,) = [html for html in bundles(cell, "text/html") if "<table" in html]
    assert "background-color: gold" in html
    assert "22" in text_of(parts)
    assert "background-color" not in text_of(parts)


def test_a_display_that_is_updated_changes_in_its_place(claude: Kernel, api: MessagesApi) -> None:
    code = (
        "shown = display('first', display_id='the-one')\nprint('between')\n"
        "from IPython.display import update_display\n"
        "for n in range(3):\n    update_display(f'at {n}', display_id='the-one')"
    )
    cell, parts = ran(claude, api, code)
    assert text_of(parts) == "between\n\n\n'at 2'"
    assert cell.displays["the-one"][-1]["text/plain"] == "'at 2'"
    later = claude.run("shown = display('mine', display_id='mine')")
    assert later.displays["mine"][-1]["text/plain"] == "'mine'"
    again, _ = ran(claude, api, "from IPython.display import update_display\nupdate_display('new', display_id='mine')")
    assert again.displays["mine"][-1]["text/plain"] == "'new'"  # by the front end it is found in the user's cell


def test_cleared_output_is_gone_and_its_place_is_taken(claude: Kernel, api: MessagesApi) -> None:
    code = (
        "from IPython.display import HTML, clear_output\nfor n in range(4):\n    clear_output(wait=True)\n"
        "    print('round', n)\n    display(HTML(f'<p>chart {n}</p>'))"
    )
    cell, parts = ran(claude, api, code)
    assert text_of(parts) == "round 3\nchart 3\n"
    assert [html for html in bundles(cell, "text/html") if "chart" in html and "indus-" not in html] == [
        "<p>chart 3</p>"
    ]
    assert not any("round 2" in text for text in cell.shown)


def test_a_widget_is_shown_and_told_as_it_is_at_the_end(claude: Kernel, api: MessagesApi) -> None:
    code = "import ipywidgets\nslider = ipywidgets.IntSlider(value=3)\ndisplay(slider)\nslider.value = 5"
    cell, parts = ran(claude, api, code)
    assert text_of(parts) == "[A widget is shown to the user: IntSlider(value=5)]"
    assert len(bundles(cell, "application/vnd.jupyter.widget-view+json")) == 1


def test_values_that_are_secret_are_in_no_output(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import os\nos.environ['SOME_SERVICE_TOKEN'] = '0123456789abcdef'")
    cell, _ = ran(
        claude, api, "from IPython.display import HTML\nHTML('<p>' + os.environ['SOME_SERVICE_TOKEN'] + '</p>')"
    )
    assert "0123456789abcdef" not in str(cell.displays)
    assert any("[secret SOME_SERVICE_TOKEN]" in html for html in bundles(cell, "text/html"))


WITHIN = """\
import ipywidgets
from IPython.display import HTML, clear_output
out, inner = ipywidgets.Output(), ipywidgets.Output()
print('before')
with out:
    print('first')
    with inner:
        print('nested')
    print('second')
    display(HTML('<b>bold</b>'))
print('after')
"""


def test_what_is_shown_within_an_output_widget_stands_there(claude: Kernel, api: MessagesApi) -> None:
    cell, parts = ran(claude, api, WITHIN)
    held = claude.run("print([o.get('text') or o['data']['text/html'] for o in out.outputs], out.msg_id == '')")
    assert held.streams == "['first\\nsecond\\n', '<b>bold</b>'] True\n"
    assert claude.run("print(inner.outputs[0]['text'])").streams == "nested\n\n"
    card = next(shown for shown in cell.shown if "before" in shown)
    assert "after" in card
    assert not any(word in line for line in card.splitlines()[-4:] for word in ("first", "nested"))
    assert not any("<b>bold</b>" in html for html in bundles(cell, "text/html"))
    told = text_of(parts)
    assert told.startswith("before\nfirst\nnested\nsecond\n")
    assert told.endswith("after\n")


def test_an_output_widget_is_cleared_and_keeps_an_error(claude: Kernel, api: MessagesApi) -> None:
    claude.run(WITHIN)  # the user's own
    own = claude.run("print(out.outputs == ())")
    assert own.streams == "True\n", "front ends fill it for the user's cells"
    code = """\
with out:
    print('old')
    clear_output(wait=True)
    print('new')
    1 / 0
print('goes on')"""
    cell, parts = ran(claude, api, code)
    assert "goes on" in text_of(parts)
    text = claude.run("print(out.outputs[0]['text'])").streams
    assert text.startswith("new\n")
    assert "ZeroDivisionError" in text
    assert not any("ZeroDivisionError" in shown for shown in cell.shown[-2:])


def test_interact_shows_its_result_in_its_widget(claude: Kernel, api: MessagesApi) -> None:
    code = "import ipywidgets\nshown = ipywidgets.interactive(lambda x: print('x is', x), x=3)\nshown.update()"
    ran(claude, api, code)
    assert claude.run("print(shown.out.outputs[0]['text'])").streams == "x is 3\n\n"
