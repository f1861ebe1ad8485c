"""States under names in the user's kernel, for the user and for the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("states")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root, environment) as kernel:
        yield kernel


@pytest.fixture
def kernel(shared: Kernel, tmp_path: Path) -> Iterator[Kernel]:
    """A kernel without steps, states and variables, in an empty folder."""
    assert shared.run(f"%reset -f\n%cd -q {tmp_path}\nfrom pathlib import Path").status == "ok"
    assert shared.run("%load_ext indus_nb").status == "ok"
    assert shared.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    yield shared
    assert shared.run("%unload_ext indus_nb").status == "ok"


def asked(kernel: Kernel, api: MessagesApi, *calls: ToolUse) -> Cell:
    api.add(*map(Reply, calls), Reply("Done."))
    cell = kernel.run("%agent go")
    assert cell.status == "ok", cell.error
    return cell


def python(code: str) -> ToolUse:
    return ToolUse("python", {"code": code})


def said(kernel: Kernel, line: str) -> str:
    cell = kernel.run(line)
    assert cell.status == "ok", cell.error
    return "\n".join(cell.shown)


def refused(kernel: Kernel, line: str) -> str:
    cell = kernel.run(line)
    return f"{cell.error} {cell.streams} {cell.shown}"


def results(api: MessagesApi) -> list[str]:
    """What the model has read of its calls, the last one last."""
    held = [block for message in api.requests[-1].body["messages"] for block in message["content"]]
    return [str(block["content"]) for block in held if block["type"] == "tool_result"]


def test_a_state_is_gone_back_to_and_left_again_in_the_objects(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("rows = [1]; also = rows; Path('a.txt').write_text('old')")
    recorded = "Your own cells are no steps: `%agent state on` makes steps of those that you run from then on."
    assert recorded in said(kernel, '%agent state save "before the filter"')
    assert said(kernel, "%agent state list").count("cells") == recorded.count("cells")
    asked(kernel, api, python("rows.append(2); Path('a.txt').write_text('new')"), python("rows.append(3); fresh = 1"))
    gone = said(kernel, '%agent state back "before the filter"')
    assert "This is “before the filter” again: a.txt, also, fresh (removed), rows." in gone
    look = "print(rows, also is rows, 'fresh' in globals(), Path('a.txt').read_text())"
    assert kernel.run(look).streams == "[1] True False old\n"
    asked(kernel, api, python("rows.append('other')"))
    said(kernel, "%agent state save other")
    said(kernel, '%agent state back "before the filter"')
    said(kernel, "%agent state back other")
    assert kernel.run(look).streams == "[1, 'other'] True False old\n"
    said(kernel, "%agent state back last")
    assert kernel.run(look).streams == "[1] True False old\n"
    api.requests.clear()
    api.add(Reply("I see."))
    kernel.run("%agent what now?")
    assert "The user has gone back to the state “before the filter”" in str(api.requests[-1].body["messages"])


def test_what_was_left_before_the_last_jump_and_is_in_no_other_state_is_kept(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("plan = ['raw']")
    said(kernel, "%agent state save A")
    asked(kernel, api, python("plan.append('b')"))
    said(kernel, "%agent state save B")
    asked(kernel, api, python("plan.append('unsaved')"))
    assert "What you had left" not in said(kernel, "%agent state back A")
    assert "What you had left before is last-2." in said(kernel, "%agent state back B")
    asked(kernel, api, python("plan.append('other')"))
    assert "What you had left before is last-2." in said(kernel, "%agent state back A")
    assert "A state's name is" in refused(kernel, "%agent state save last-2")
    said(kernel, "%agent state back last-2")
    assert kernel.run("print(plan)").streams == "['raw', 'b', 'unsaved']\n"
    said(kernel, "%agent state back last-2")
    assert kernel.run("print(plan)").streams == "['raw', 'b', 'other']\n"


@pytest.mark.parametrize(
    "command", ["back two words", "back two words over", "diff two words", "drop two words", "save two words"]
)
def test_a_known_name_of_several_words_without_quotes_is_answered_with_the_right_form_and_not_sent(
    kernel: Kernel, api: MessagesApi, command: str
) -> None:
    said(kernel, '%agent state save "two words"')
    asked(kernel, api)
    before = len(api.requests)
    right = command.replace("two words", '"two words"')
    shown = refused(kernel, f"%agent state {command}")
    assert f"Did you mean `%agent state {right}`? Nothing was sent." in shown
    assert len(api.requests) == before
    api.add("I see.")
    assert said(kernel, "%agent state back to the words that we had")
    assert len(api.requests) == before + 1


def test_the_users_cells_are_steps_once_that_is_asked_for(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("data = {'a': 1}; untouched = 1")
    assert "Your cells are steps." in said(kernel, "%agent state on")
    said(kernel, "%agent state save raw")
    kernel.run("data['a'] = 2; more = [1]")
    kernel.run("data['b'] = 3\n1 / 0")
    number = int(kernel.run("len(In) - 1").results[-1]["text/plain"])
    listed = said(kernel, "%agent undo list")
    assert listed.index(f"your cell [{number - 1}]") < listed.index(f"your cell [{number - 2}]")
    asked(kernel, api, python("data['c'] = 4"))
    assert "3 steps from here" in said(kernel, "%agent state list")
    shown = said(kernel, "%agent state diff raw")
    assert "Since “raw”: data 1 → 3 keys (b added; c added; a changed), more new." in shown
    assert kernel.run("print(data, more)").streams == "{'a': 2, 'b': 3, 'c': 4} [1]\n"
    said(kernel, "%agent state back raw")
    assert kernel.run("print(data, 'more' in globals())").streams == "{'a': 1} False\n"
    said(kernel, "%agent state back last")
    said(kernel, "%agent state off")
    kernel.run("data['mine'] = 5")
    assert "data was changed since" in refused(kernel, "%agent state back raw")
    assert kernel.run("print(data)").streams == "{'a': 2, 'b': 3, 'c': 4, 'mine': 5}\n"
    said(kernel, "%agent state back raw over")
    assert kernel.run("print(data)").streams == "{'a': 1}\n"
    said(kernel, "%agent state back last")
    assert kernel.run("print(data['mine'])").streams == "5\n"


def test_what_undo_leaves_as_the_user_has_it_is_brought_back_by_a_state(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("df = list(range(4000))")
    said(kernel, "%agent state save orig")
    asked(kernel, api, python("df = df[:2833]; tmp1 = 1"))
    said(kernel, "%agent state save two")
    kernel.run("df = df[:457]")
    assert "df was changed since" in refused(kernel, "%agent undo")
    said(kernel, "%agent undo keep")
    assert kernel.run("print(len(df), 'tmp1' in globals())").streams == "457 False\n"
    listed = said(kernel, "%agent state list")
    assert re.search(r"orig\s+changes of yours from here", listed)
    assert "changed since: df" in listed
    assert "Since “orig”: df 4000 → 457 items" in said(kernel, "%agent state diff orig")
    assert '`%agent state back "orig" over` overwrites it' in refused(kernel, "%agent state back orig")
    assert "This is “orig” again: df." in said(kernel, "%agent state back orig over")
    assert kernel.run("print(len(df))").streams == "4000\n"
    said(kernel, "%agent state back two")
    assert kernel.run("print(len(df), tmp1)").streams == "2833 1\n"


def test_what_was_redone_beside_what_the_user_has_goes_back_as_well(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("monthly, rows = [1], list(range(4000))")
    said(kernel, "%agent state save raw")
    asked(kernel, api, python("rows = [float(each) for each in rows[:2833]]; monthly = [2]"))
    kernel.run("rows = rows[:100]")
    said(kernel, "%agent undo both")
    said(kernel, "%agent redo")
    assert "rows was changed since" in refused(kernel, "%agent state back raw")
    for number, is_offered in (("4", True), ("3", False)):
        cell = kernel.begin("%agent state back raw", asks=True)
        question = cell.answer(number)
        assert "rows was changed since" in question
        assert ("Leave that, go back with the rest" in question) == is_offered
        cell.finish()
        said(kernel, "%agent state back raw keep")
    said(kernel, "%agent state back raw over")
    assert kernel.run("print(len(rows), type(rows[0]).__name__, monthly)").streams == "4000 int [1]\n"
    assert re.search(r"raw\s+here\b", said(kernel, "%agent state list"))
    assert "No step lies between here and “raw”" in said(kernel, "%agent state back raw")


def test_what_a_cell_changes_below_the_line_that_switches_steps_off_is_in_none(kernel: Kernel) -> None:
    kernel.run("rows = [1]")
    kernel.run("%agent state on")
    kernel.run("rows.append(2)\n%agent state off\nbelow = 1")
    kernel.run("later = 1")
    said(kernel, "%agent state save raw")
    said(kernel, "%agent undo")
    assert kernel.run("print(rows, below, later)").streams == "[1] 1 1\n"
    assert "Nothing was done: of the agent's steps in this kernel none can be taken back" in refused(
        kernel, "%agent undo"
    )


def test_a_file_that_the_user_changed_before_a_state_was_saved_is_as_in_it(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("%agent --approve never")
    asked(kernel, api, python("n = Path('f1.txt').write_text('a')"))
    kernel.run("n = Path('f1.txt').write_text('by hand')")
    said(kernel, "%agent state save handy")
    assert "cannot be brought back" not in said(kernel, "%agent state")
    assert "f1.txt" not in said(kernel, "%agent state diff handy")
    asked(kernel, api, ToolUse("write", {"path": "f1.txt", "content": "the agent's"}))
    assert "f1.txt edited" in said(kernel, "%agent state diff handy")
    shown = said(kernel, "%agent state back handy")
    assert "This is “handy” again: f1.txt." in shown
    assert "cannot be brought back" not in shown + said(kernel, "%agent state")
    assert kernel.run("print(Path('f1.txt').read_text())").streams == "by hand\n"


def test_a_file_changed_by_hand_between_a_state_and_a_tool_that_writes_it_is_named(
    kernel: Kernel, api: MessagesApi
) -> None:
    kernel.run("%agent --approve never")
    asked(kernel, api, python("n = Path('f1.txt').write_text('a')"))
    kernel.run("n = Path('f1.txt').write_text('by hand')")
    said(kernel, "%agent state save handy")
    kernel.run("n = Path('f1.txt').write_text('later')")
    asked(kernel, api, ToolUse("write", {"path": "f1.txt", "content": "the agent's"}))
    assert "cannot be brought back: f1.txt" in said(kernel, "%agent state")
    assert "f1.txt is not as in it, and cannot be brought back" in said(kernel, "%agent state back handy")
    assert kernel.run("print(Path('f1.txt').read_text())").streams == "later\n"


def test_a_state_that_is_here_is_not_left(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("rows = [1]")
    said(kernel, "%agent state save raw")
    asked(kernel, api, python("rows.append(2)"))
    said(kernel, "%agent state back raw")
    kernel.run("mine = 1")
    shown = said(kernel, "%agent state back raw")
    assert "No step lies between here and “raw”: nothing was changed." in shown
    assert "What your own cells changed since is not known. Your own cells are no steps" in shown
    kernel.run("%agent state on")
    assert "This is “raw” already. Nothing was changed." in said(kernel, "%agent state back raw")
    kernel.run("%agent state off")
    kernel.run("rows = [3]")
    assert "rows was changed since" in refused(kernel, "%agent state back last")
    said(kernel, "%agent state back last over")
    assert kernel.run("print(rows)").streams == "[1, 2]\n"


INTERRUPTED = """
import signal, sys
def interrupted(command, after):
    left = after
    def count(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.endswith(("undo/history.py", "undo/change.py", "undo/transaction.py")):
            return None
        left -= event == "line"
        if event == "line" and left == 0:
            signal.raise_signal(signal.SIGINT)
        return count
    sys.settrace(count)
    try:
        get_ipython().run_line_magic("agent", command)
    except BaseException:
        pass
    finally:
        sys.settrace(None)
    return left <= 0
"""


def test_an_interrupt_leaves_no_half_of_a_comparison_or_jump(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("rows = [1]; x = 1")
    said(kernel, "%agent state save raw")
    asked(kernel, api, python("rows.append(2); x = 2"), python("rows.append(3); y = [x]"))
    kernel.run(INTERRUPTED)
    cell = kernel.run(
        "points = 0\n"
        "while interrupted('state diff raw', 1 + points * 7):\n"
        "    points += 1\n"
        "    assert (rows, x, y) == ([1, 2, 3], 2, [2]), points"
    )
    assert cell.status == "ok", cell.error
    said(kernel, "%agent state save other")
    cell = kernel.run(
        "jumps = gone = 0\n"
        "while interrupted('state back raw', 1 + jumps * 7):\n"
        "    jumps += 1\n"
        "    gone += rows == [1]\n"
        "    there = ([1], 1, False) if rows == [1] else ([1, 2, 3], 2, True)\n"
        "    assert (rows, x, 'y' in globals()) == there, jumps\n"
        "    get_ipython().run_line_magic('agent', 'state back other')\n"
        "    assert (rows, x, y) == ([1, 2, 3], 2, [2]), jumps"
    )
    assert cell.status == "ok", cell.error
    assert kernel.run("print(points > 10, gone > 10, jumps > gone)").streams == "True True True\n"


def test_a_cell_that_the_agent_works_in_is_a_step_before_and_behind_it(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("%agent state on")
    kernel.run("steps = []")
    api.add(Reply(python("steps.append('agent')")), Reply("Done."))
    cell = kernel.run("steps.append('before')\nanswer = %agent go\nsteps.append('behind')")
    assert cell.status == "ok", cell.error
    for there in ("['before', 'agent']", "['before']", "[]"):
        said(kernel, "%agent undo")
        assert kernel.run("print(steps)").streams == f"{there}\n"


def test_what_could_not_be_remembered_is_named_with_its_cell_until_it_can_be(kernel: Kernel) -> None:
    kernel.run("%agent state on")
    kernel.run("from indus_nb import agent\nimport time\nheld, number, text = [n for n in [(m for m in 'ab')]], 1, 'x'")
    number = kernel.run("exec('next(held[0])')\nprint(len(In) - 1)").streams.strip()
    shown = said(kernel, "%agent state")
    assert (
        f"held (a generator) could not be remembered when cell [{number}] ran: "
        "what that cell changed inside of it cannot be taken back."
    ) in shown
    assert all(f"{name} (" not in shown for name in ("agent", "time", "number", "text"))
    kernel.run("held.pop()")
    assert "held (a generator)" in said(kernel, "%agent state")
    kernel.run("held.append(1)")
    assert "could not be remembered" not in said(kernel, "%agent state")


def test_the_model_saves_states_compares_and_goes_back(kernel: Kernel, api: MessagesApi) -> None:
    asked(kernel, api, python("frame = [1, 2, 3]"))
    assert "state" not in {tool["name"] for tool in api.requests[-1].body["tools"]}
    said(kernel, "%agent state on")
    said(kernel, "%agent state off")
    asked(
        kernel,
        api,
        ToolUse("state", {"action": "list"}),
        ToolUse("state", {"action": "save", "name": "raw"}),
        python("frame.pop(); Path('out.txt').write_text('x')"),
        ToolUse("state", {"action": "diff", "name": "raw"}),
        ToolUse("state", {"action": "back", "name": "raw"}),
        ToolUse("state", {"action": "back", "name": "nowhere"}),
    )
    texts = results(api)[1:]
    assert "There are no states." in texts[0]
    assert "This state is “raw” now." in texts[1]
    assert "Since “raw”: frame 3 → 2 items, out.txt new." in texts[3]
    assert "This is “raw” again: frame, out.txt (removed)." in texts[4]
    assert "There is no state “nowhere”. There are “raw”, “last”." in texts[5]
    assert kernel.run("print(frame, Path('out.txt').exists())").streams == "[1, 2, 3] False\n"
    said(kernel, "%agent state back last")
    assert kernel.run("print(frame, Path('out.txt').exists())").streams == "[1, 2] True\n"


def test_the_user_is_asked_what_going_back_would_change(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("rows = [1]")
    said(kernel, "%agent state save raw")
    asked(kernel, api, python("rows.append(2); Path('b').touch()"))
    kernel.run("%agent --approve effects")
    api.add(
        Reply(ToolUse("state", {"action": "diff", "name": "raw"})),
        Reply(ToolUse("state", {"action": "back", "name": "raw"})),
        Reply(ToolUse("state", {"action": "back", "name": "raw"})),
        Reply("Done."),
    )
    cell = kernel.begin("%agent go", asks=True)
    question = cell.answer("n")
    assert "Go back to the state “raw”?" in question
    assert "changes rows" in question
    assert "/b" in question
    cell.answer("y")
    assert cell.finish().status == "ok"
    assert "rows 1 → 2 items" in results(api)[-3]
    assert "The user did not allow this call." in results(api)[-2]
    assert "This is “raw” again: b (removed), rows." in results(api)[-1]
    assert kernel.run("print(rows, Path('b').exists())").streams == "[1] False\n"


def test_the_model_takes_no_name_of_the_users_and_few_of_its_own(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("rows = [1]")
    said(kernel, "%agent state save mine")

    def save(name: str) -> ToolUse:
        return ToolUse("state", {"action": "save", "name": name})

    asked(kernel, api, python("rows.append(2)"), save("mine"), save("try 0"), save("try 0"))
    texts = results(api)
    assert "Nothing was saved: “mine” is a state of the user's. Choose another name." in texts[-3]
    assert "This is “try 0” now, and no longer an earlier one" not in texts[-2]
    assert "This state is “try 0” now, and no longer an earlier one." in texts[-1]
    asked(kernel, api, *(save(f"try {number}") for number in range(1, 11)))
    texts = results(api)
    assert "This state is “try 9” now." in texts[-2]
    assert "Nothing was saved: there are 10 states of yours: try 0, try 1" in texts[-1]
    said(kernel, '%agent state save "try 0"')
    asked(kernel, api, save("try 0"), save("try 10"))
    assert "“try 0” is a state of the user's" in results(api)[-2]
    assert "This state is “try 10” now." in results(api)[-1]
    said(kernel, "%agent state back mine")
    assert kernel.run("print(rows)").streams == "[1]\n"


def test_what_was_once_refused_is_not_in_the_way_of_what_need_not_be_asked(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("rows = [1]")
    said(kernel, "%agent state save raw")
    asked(kernel, api, python("rows.append(2)"))
    back = ToolUse("state", {"action": "back", "name": "raw"})
    kernel.run("%agent --approve effects")
    api.add(Reply(back), Reply("Well."))
    cell = kernel.begin("%agent go", asks=True)
    cell.answer("n")
    assert cell.finish().status == "ok"
    kernel.run("%agent --approve never")
    asked(kernel, api, python("rows.append(3)"), back)
    assert "This is “raw” again: rows." in results(api)[-1]
    assert kernel.run("print(rows)").streams == "[1]\n"


@pytest.fixture
def no_free_memory(kernel: Kernel) -> Iterator[None]:
    kernel.run("import indus_nb.kernel.toolset.undoing as u; free_memory, u.free_memory = u.free_memory, lambda: 0")
    yield
    assert kernel.run("u.free_memory = free_memory").status == "ok"


@pytest.mark.usefixtures("no_free_memory")
def test_a_state_is_lost_with_a_sentence_when_there_is_no_memory_left_for_it(kernel: Kernel) -> None:
    kernel.run("big = bytearray(100 << 20)")
    kernel.run("%agent state on")
    said(kernel, "%agent state save raw")
    kernel.run("big[0] = 1")
    assert "1 step from here  200.0 MB" in said(kernel, "%agent state list")
    assert "the state “raw” is lost, as there is no memory left for it" in kernel.run("big[0] = 2").streams
    assert "There is no state “raw”" in refused(kernel, "%agent state back raw")


def test_names_are_checked_and_prompts_that_begin_alike_are_none(kernel: Kernel, api: MessagesApi) -> None:
    assert "A state's name is a line" in refused(kernel, "%agent state save last")
    assert "There is no state “x”. There are none" in refused(kernel, "%agent state drop x")
    said(kernel, "%agent state save x")
    assert "no state any more" in said(kernel, "%agent state drop x")
    api.requests.clear()
    api.add(Reply("Well."))
    kernel.run("%agent state back to what it was about")
    assert len(api.requests) == 1
    assert "Did you mean `%agent state back x`?" in refused(kernel, "%agent state bakc x")
    assert len(api.requests) == 1


def test_what_going_back_put_beside_the_users_own_stays_at_the_way_back_and_that_is_said(
    kernel: Kernel, api: MessagesApi
) -> None:
    kernel.run("from pathlib import Path; Path('a.txt').write_text('old'); many = [1]; other = 1")
    said(kernel, "%agent state save raw")
    asked(kernel, api, python("Path('a.txt').write_text('new'); many.append(2); other = 2"))
    kernel.run("Path('a.txt').write_text('mine'); many.append(3)")
    back = said(kernel, "%agent state back raw both")
    assert "new beside it: a.before.txt, many_before. `%agent state back last` turns that around, but leaves" in back
    assert "but leaves many_before." in back
    assert "turns that around." in said(kernel, "%agent state back last")
    look = "print(Path('a.txt').read_text(), Path('a.before.txt').exists(), many, many_before, other)"
    assert kernel.run(look).streams == "mine False [1, 2, 3] [1] 2\n"
