"""A key in the first minute: from a form below the failed cell or in the panel, and where nobody finds it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_keyring import NAME, with_keyring
from kernels import Cell, Kernel, private_environment
from messages_api import HttpError, MessagesApi
from panel_pages import Page, Wire

VIEW = "application/vnd.jupyter.widget-view+json"
KEY = "test-key-that-only-the-keyring-may-have"


@pytest.fixture(autouse=True)
def keys(api: MessagesApi) -> None:
    api.keys = {KEY}
    api.lists.clear()
    api.clear()


@pytest.fixture
def kernel(tmp_path: Path, api: MessagesApi) -> Iterator[Kernel]:
    """A kernel without a key, which a page looks at."""
    environment = private_environment(
        tmp_path, ANTHROPIC_BASE_URL=api.url, JPY_SESSION_NAME="x.ipynb", **with_keyring(tmp_path / "passwords.json")
    )
    (tmp_path / "work").mkdir()
    with Kernel(tmp_path / "work", environment) as kernel:
        kernel.run("%load_ext indus_nb")
        yield kernel


@pytest.fixture
def wire(kernel: Kernel) -> Iterator[Wire]:
    wire = Wire(kernel)
    yield wire
    wire.close()


def run(kernel: Kernel, code: str) -> Cell:
    """Run a cell whose user is there; it asks nothing."""
    return kernel.begin(code, asks=True).finish()


def form_below(kernel: Kernel, wire: Wire, code: str) -> tuple[Page, Cell]:
    """The form that a cell shows, below what it has shown of its prompt."""
    cell = run(kernel, code)
    shown = [bundles[0][VIEW]["model_id"] for bundles in cell.displays.values() if VIEW in bundles[0]]
    page = Page(wire, shown[-1])
    page.wait_for(lambda: page.state.get("keys"))
    return page, cell


def files_with(root: Path, text: str) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_key_from_the_form_below_a_failed_prompt_counts_at_once_and_stands_in_the_keyring_alone(
    kernel: Kernel, wire: Wire, api: MessagesApi, tmp_path: Path
) -> None:
    page, failed = form_below(kernel, wire, "%agent hello")
    assert "No model is chosen" in failed.error["evalue"]
    assert failed.error["evalue"].endswith("Or fill in the form above, and run this cell again.")
    form = page.state["keys"]
    assert form["providers"][0] == {"provider": "anthropic", "model": "Claude Opus 5.5"}
    assert form["place"] == NAME
    assert any("no language model" in note for note in form["notes"])
    page.tell("key", provider="anthropic", key="a-wrong-key", keep=True)
    page.wait_for(lambda: "refuses this key (status 401)" in page.state["keys"]["problem"])
    assert files_with(tmp_path, "a-wrong-key") == []
    state = kernel.run("import ipywidgets; print(ipywidgets.Widget.get_manager_state())").streams
    assert page.comm_id in state
    assert "a-wrong-key" not in state
    page.tell("key", provider="anthropic", key=f" {KEY}\n", keep=True)
    page.wait_for(lambda: page.state["keys"] is None)
    failed.idle = False
    failed.wait_for(lambda cell: any("You can ask now" in text for text in cell.shown))
    (told,) = [text for text in failed.shown if "You can ask now" in text]
    assert f"It is kept in {NAME}" in told
    assert told.endswith("the error below is from before, and goes when you run this cell again.")
    assert "The model is Claude Opus 5.5. A first prompt costs about $0." in told
    api.add("Here.")
    assert "Here." in run(kernel, "%agent hello").shown
    assert api.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert api.lists == ["a-wrong-key", KEY]
    assert files_with(tmp_path, KEY) == ["passwords.json"]
    kernel.run("import os")
    assert KEY not in kernel.run("print(In, _ih, dict(os.environ))").streams
    assert KEY not in json.dumps(page.messages)


def test_a_key_in_the_keyring_is_there_for_the_next_kernel_and_is_hidden_like_others(
    kernel: Kernel, wire: Wire, api: MessagesApi, tmp_path: Path
) -> None:
    page, cell = form_below(kernel, wire, "%agent key")
    page.tell("key", provider="anthropic", key=KEY, keep=True)
    page.wait_for(lambda: page.state["keys"] is None)
    cell.idle = False
    cell.wait_for(lambda cell: any(text.endswith("You can ask now.") for text in cell.shown))
    kernel.restart()
    run(kernel, "%load_ext indus_nb")
    api.add("Again here.", "And here.")
    assert "Again here." in run(kernel, "%agent hello").shown
    assert "Again here." not in run(kernel, f"%agent my key is {KEY}").shown
    assert "[secret key of anthropic]" in api.requests[-1].texts[-1]
    assert KEY not in str(api.requests[-1].body)


NO_KEYRING = "import os; os.environ['PYTHON_KEYRING_BACKEND'] = 'keyring.backends.fail.Keyring'"


def test_without_a_keyring_a_file_for_the_user_alone_keeps_the_key_for_kernels_to_come(
    kernel: Kernel, wire: Wire, api: MessagesApi, tmp_path: Path
) -> None:
    kernel.run(NO_KEYRING)
    page, _ = form_below(kernel, wire, "%agent hello")
    file = tmp_path / "agent" / "auth.json"
    assert page.state["keys"]["place"] == f"{file}, readable by you alone"
    assert page.state["keys"]["notes"][0].endswith("The file is not encrypted: copies of your files hold the key, too.")
    assert not file.exists()
    page.tell("key", provider="anthropic", key=KEY, keep=True)
    page.wait_for(lambda: page.state["keys"] is None)
    assert json.loads(file.read_text()) == {"anthropic": {"type": "api_key", "key": KEY}}
    assert file.stat().st_mode & 0o777 == 0o600
    kernel.restart()
    run(kernel, "%load_ext indus_nb")
    api.add("Again here.")
    assert "Again here." in run(kernel, "%agent hello").shown
    assert files_with(tmp_path, KEY) == ["auth.json"]
    assert KEY not in json.dumps(page.messages)
    api.add(REFUSED)
    assert f"Check `anthropic.key` in {file}." in run(kernel, "%agent hello").error["evalue"]


def test_where_neither_keyring_nor_file_can_keep_a_key_the_form_says_why_and_takes_it_for_the_kernel(
    kernel: Kernel, wire: Wire, tmp_path: Path
) -> None:
    kernel.run(NO_KEYRING)
    (tmp_path / "agent" / "auth.json").write_text("{ broken")
    page, _ = form_below(kernel, wire, "%agent key")
    assert page.state["keys"]["place"] == ""
    assert "it is left as it is. To keep a key all the same, set its variable" in page.state["keys"]["notes"][0]
    page.tell("key", provider="anthropic", key=KEY, keep=True)
    page.wait_for(lambda: page.state["keys"] is None)
    assert (tmp_path / "agent" / "auth.json").read_text() == "{ broken"


def test_a_key_for_this_kernel_only_ends_with_it(kernel: Kernel, wire: Wire, api: MessagesApi, tmp_path: Path) -> None:
    page, _ = form_below(kernel, wire, "%agent key")
    page.tell("key", provider="anthropic", key=KEY, keep=False)
    page.wait_for(lambda: page.state["keys"] is None)
    api.add("Here.")
    assert "Here." in run(kernel, "%agent hello").shown
    assert kernel.run("!env | grep -c only-the-keyring").streams.strip() == "0"
    kernel.restart()
    run(kernel, "%load_ext indus_nb")
    assert "No model is chosen" in run(kernel, "%agent --new hello").error["evalue"]
    assert files_with(tmp_path, KEY) == []


def test_the_panel_shows_the_form_until_there_is_a_key_and_then_what_the_first_prompt_costs(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    page, _ = form_below(kernel, wire, "%agent panel")
    page.tell("key", provider="anthropic", key=KEY, keep=False)
    page.wait_for(lambda: page.state["keys"] is None and "The key for anthropic works" in page.text)
    assert page.state["current_model"]["provider"] == "anthropic"
    api.add("Here.")
    page.prompt("hello")
    page.wait_until_idle("Here.")


def test_a_key_that_is_set_in_a_cell_meanwhile_counts_in_the_panel_at_once(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    page, _ = form_below(kernel, wire, "%agent panel")
    page.prompt("hello")
    page.wait_for(lambda: page.state["keys"]["problem"])
    assert page.state["keys"]["problem"].endswith("Fill in this form, and send it again.")
    page.wait_for(lambda: page.state.get("composer", {}).get("text") == "hello")
    assert page.toasts == []
    kernel.run(f"import os; os.environ['ANTHROPIC_API_KEY'] = {KEY!r}")
    api.add("Here.")
    page.prompt("hello")
    page.wait_until_idle("Here.")
    page.wait_for(lambda: page.state["keys"] is None)


def test_a_prompt_that_was_not_sent_for_want_of_a_key_names_no_conversation(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    kernel.run("orders = [1]; sales = [2]")
    page, _ = form_below(kernel, wire, "%agent panel")
    assert "No model is chosen" in run(kernel, "%agent which of {orders} are open?").error["evalue"]
    page.settle()
    assert page.state["session"]["name"] is None
    kernel.run(f"import os; os.environ['ANTHROPIC_API_KEY'] = {KEY!r}")
    api.add("None.")
    run(kernel, "%agent which of {sales} are old?")
    page.wait_for(lambda: page.state["session"]["name"] == "which of {sales} are old?")


WRONG = "import os; os.environ['ANTHROPIC_API_KEY'] = 'a-wrong-key'"
REFUSED = HttpError(401, "authentication_error", "invalid x-api-key")


def test_a_key_that_the_server_refuses_is_asked_for_below_the_prompt(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    kernel.run(WRONG)
    api.add(REFUSED)
    page, failed = form_below(kernel, wire, "%agent hello")
    assert "401" in failed.error["evalue"]
    assert page.state["keys"]["provider"] == "anthropic"
    page.tell("key", provider="anthropic", key=KEY, keep=False)
    page.wait_for(lambda: page.state["keys"] is None)
    api.add("Here.")
    assert "Here." in run(kernel, "%agent hello").shown
    assert api.requests[-1].headers["authorization"] == f"Bearer {KEY}"


def test_a_key_that_the_server_refuses_is_asked_for_in_the_panel_and_an_answer_ends_that(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    kernel.run(WRONG)
    cell = run(kernel, "%agent panel")
    page = Page(wire, next(shown[0][VIEW]["model_id"] for shown in cell.displays.values() if VIEW in shown[0]))
    api.add(REFUSED)
    page.prompt("hello")
    page.wait_for(lambda: page.state.get("keys"))
    assert page.state["keys"]["provider"] == "anthropic"
    api.add("It was a mistake of the server.")
    page.prompt("hello")
    page.wait_until_idle("It was a mistake of the server.")
    page.wait_for(lambda: page.state["keys"] is None)
    assert 'Your prompt before, which nothing answered, goes along: "hello"' in page.text
    api.add(HttpError(400, "invalid_request_error", "max_tokens: too large"))
    page.prompt("once more")
    page.wait_until_idle("max_tokens: too large")
    page.settle()
    assert page.state["keys"] is None


def test_another_error_after_a_refused_key_is_not_about_the_key(kernel: Kernel, wire: Wire, api: MessagesApi) -> None:
    kernel.run(WRONG)
    api.add(REFUSED)
    form_below(kernel, wire, "%agent hello")
    cell = run(kernel, "%agent panel")
    page = Page(wire, next(shown[0][VIEW]["model_id"] for shown in cell.displays.values() if VIEW in shown[0]))
    page.wait_for(lambda: page.state.get("keys"))
    api.add(HttpError(400, "invalid_request_error", "max_tokens: too large"))
    failed = run(kernel, "%agent once more")
    assert failed.error["evalue"] == "400 invalid_request_error: max_tokens: too large"
    page.wait_for(lambda: page.state["keys"] is None)
    api.add(HttpError(400, "invalid_request_error", "Incorrect API key provided"))
    _, failed = form_below(kernel, wire, "%agent and again")
    assert "Incorrect API key provided. Or fill in the form above" in failed.error["evalue"]
    page.wait_for(lambda: page.state["keys"])


def test_in_a_console_a_refused_key_leads_to_the_command_that_asks_for_one(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run(f"{WRONG}; del os.environ['JPY_SESSION_NAME']")
    api.add(REFUSED)
    assert "`%agent key` asks for a key" in run(kernel, "%agent hello").error["evalue"]


def test_where_a_hub_manages_the_keys_the_form_says_so_and_takes_none(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    kernel.run("import os; os.environ['INDUS_NB_KEYS_FROM'] = 'hub'")
    page, _ = form_below(kernel, wire, "%agent hello")
    assert page.state["keys"]["providers"] == []
    assert "ask those who run it" in page.state["keys"]["notes"][0]
    panel, _ = form_below(kernel, wire, "%agent panel")
    panel.prompt("hello")
    panel.wait_for(lambda: panel.state["keys"]["problem"])
    assert panel.state["keys"]["problem"] == "Your prompt was not sent: no key is known."
    page.tell("key", provider="anthropic", key=KEY, keep=False)
    page.wait_for(lambda: "None is taken here" in page.state["keys"]["problem"])
    assert api.lists == []


def test_in_a_console_the_key_is_asked_for_as_a_password(kernel: Kernel, api: MessagesApi, tmp_path: Path) -> None:
    kernel.run("import os; del os.environ['JPY_SESSION_NAME']")
    cell = kernel.begin("%agent key", asks=True)
    assert "Whose models?" in cell.answer("")
    message = cell.client.get_stdin_msg(timeout=240)["content"]
    assert message["password"]
    cell.client.input(KEY)
    assert f"Keep it in {NAME}?" in cell.answer("n")
    cell.finish()
    assert "The key for anthropic works" in cell.shown[0]
    assert "The model is Claude Opus 5.5. A first prompt costs about" in cell.shown[0]
    api.add("Here.")
    assert "Here." in run(kernel, "%agent hello").shown
    assert files_with(tmp_path, KEY) == []


def test_without_anybody_to_type_no_key_is_asked_for(tmp_path: Path) -> None:
    with Kernel(tmp_path, private_environment(tmp_path)) as kernel:
        kernel.run("%load_ext indus_nb")
        assert "Nobody is there to type a key" in kernel.run("%agent key").error["evalue"]
        assert not any(VIEW in shown for cell in kernel.run("%agent hello").displays.values() for shown in cell)
