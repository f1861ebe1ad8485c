"""What the agent's Python changed in the user's kernel is said, and taken back."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from panel_pages import Page, Wire


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("undo")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
        yield kernel


def changed_by_the_agent(kernel: Kernel, api: MessagesApi, code: str) -> str:
    """What the cell shows when the agent has run ``code``."""
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
    cell = kernel.run("%agent go")
    assert cell.status == "ok", cell.error
    return "\n".join(cell.shown)


def unwrapped(question: str) -> str:
    """A question without the marks and ends of its lines."""
    return " ".join(re.sub("[│┆]", " ", question).split())


def test_what_changed_is_said_and_taken_back_in_the_objects(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("rows = [1, 2, 3]; also = rows; x = 5")
    shown = changed_by_the_agent(kernel, api, "rows.pop(); x = 6; fresh = 1")
    assert "x 5 → 6, also 3 → 2 items, rows 3 → 2 items, fresh new" in shown
    assert "Taken back: also, fresh (removed), rows, x." in "\n".join(kernel.run("%agent undo").shown)
    assert kernel.run("print(rows, also is rows, x, 'fresh' in globals())").streams == "[1, 2, 3] True 5 False\n"
    api.requests.clear()
    api.add(Reply("I see."))
    kernel.run("%agent what now?")
    assert "The user has taken back what your last call changed" in str(api.requests[-1].body["messages"])
    kernel.run("%agent redo")
    assert kernel.run("print(rows, x, fresh)").streams == "[1, 2] 6 1\n"


def test_what_can_be_taken_back_is_listed_the_next_step_first(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("first = [1]")
    changed_by_the_agent(kernel, api, "first.append(2)")
    changed_by_the_agent(kernel, api, "second = 2")
    listed = "\n".join(kernel.run("%agent undo list").shown)
    assert listed.startswith("What can be taken back, the next step first: `%agent undo N` does that with the first N.")
    assert listed.index("second new") < listed.index("first 1 → 2 items")
    assert "None of the agent's steps in this kernel can be done once more." in kernel.run("%agent redo list").shown


def test_a_step_that_only_imported_is_listed_by_the_name_that_it_bound(kernel: Kernel, api: MessagesApi) -> None:
    changed_by_the_agent(kernel, api, "import math as sums")
    assert re.search(r"\b1\W+\d\d:\d\d:\d\d\W+imports sums\b", "\n".join(kernel.run("%agent undo list").shown))


def test_an_undo_without_a_number_takes_back_with_a_change_what_looks_have_imported_since(
    kernel: Kernel, api: MessagesApi
) -> None:
    kernel.run("total = 1")
    changed_by_the_agent(kernel, api, "total = 2")
    changed_by_the_agent(kernel, api, "import colorsys; print(total)")
    changed_by_the_agent(kernel, api, "from html import escape; print(total)")
    shown = "\n".join(kernel.run("%agent undo").shown)
    assert "Taken back: colorsys (removed), escape (removed), total. `%agent redo 3` turns that around." in shown
    assert kernel.run("print(total)").streams == "1\n"
    kernel.run("%agent redo 3")
    assert kernel.run("print(total, escape('<'), colorsys.__name__)").streams == "2 &lt; colorsys\n"
    kernel.run("%agent undo 3")


def test_what_a_step_imported_and_defined_beside_is_listed_and_named_when_it_is_taken_back(
    kernel: Kernel, api: MessagesApi
) -> None:
    changed_by_the_agent(
        kernel, api, "import math as maths, time\nfrom os.path import join\ndef twice(x): return 2 * x\nresult = 1"
    )
    listed = " ".join("\n".join(kernel.run("%agent undo list").shown).split())
    assert "result new, twice defined, imports join, maths and time" in listed
    shown = "\n".join(kernel.run("%agent undo").shown)
    assert "Taken back: join (removed), maths (removed), result (removed), time (removed), twice (removed)" in shown


def test_what_the_user_changed_since_is_asked_about(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("mine = [1]; other = [1]")
    changed_by_the_agent(kernel, api, "mine.append(2); other.append(2)")
    kernel.run("mine.append(3)")
    refused = kernel.run("%agent undo")
    assert "mine was changed since" in f"{refused.error} {refused.streams} {refused.shown}"
    assert kernel.run("print(mine, other)").streams == "[1, 2, 3] [1, 2]\n"
    kernel.run("%agent undo keep")
    assert kernel.run("print(mine, other)").streams == "[1, 2, 3] [1]\n"


def test_a_cell_that_can_ask_asks_what_becomes_of_what_the_user_changed_since(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("mine = [1]; other = [1]")
    changed_by_the_agent(kernel, api, "mine.append(2); other.append(2)")
    kernel.run("mine.append(3)")
    cell = kernel.begin("%agent undo", asks=True)
    question = unwrapped(cell.answer("4"))
    assert "Undo this step? ⚠ mine was changed since, by you." in question
    assert "The step: mine 1 → 2 items, other 1 → 2 items." in question
    assert "Leave that, take back the rest" in question
    assert "Overwrite it" in question
    assert "emove it" not in question
    assert "Nothing was changed." in cell.finish().error["traceback"][0]
    cell = kernel.begin("%agent undo", asks=True)
    cell.answer("1")
    assert any("Taken back: other" in shown for shown in cell.finish().shown)
    assert kernel.run("print(mine, other)").streams == "[1, 2, 3] [1]\n"


@pytest.mark.parametrize(
    ("code", "since", "over", "beside", "rest"),
    [
        ("Path('made.txt').write_text('new')", "Path('made.txt').write_text('mine')", "Remove it", False, False),
        ("made = [1]", "made.append(2)", "Remove it", False, False),
        ("made = [1]; held.append(2)", "made.append(2); held.append(3)", "Overwrite or remove them", True, False),
        ("made = [1]; held.append(2)", "made.append(2)", "Remove it", False, True),
        ("made = [1]; random.seed(1)", "made.append(2)", "Remove it", False, True),
    ],
)
def test_the_answers_say_that_what_the_call_had_made_would_be_removed_and_offer_the_rest_where_there_is_one(
    kernel: Kernel, api: MessagesApi, code: str, since: str, over: str, beside: bool, rest: bool
) -> None:
    kernel.run(
        "import random; from pathlib import Path; Path('made.txt').unlink(missing_ok=True)\n"
        "globals().pop('made', 0); held = [1]"
    )
    kernel.run("%agent --approve never")
    changed_by_the_agent(kernel, api, code)
    kernel.run(since)
    does = re.sub(r"e\b", "es", over.lower())
    refusal = refused(kernel, "%agent undo")
    assert f"over` {does}, `" in refusal
    assert ("`%agent undo keep` leaves that as it is and does the rest" in refusal) == rest
    cell = kernel.begin("%agent undo", asks=True)
    question = unwrapped(cell.answer("2" if rest else "1"))
    assert f"{2 if rest else 1} {over} · " in question
    assert ("Leave that, take back the rest" in question) == rest
    assert ("beside them" in question) == beside
    assert cell.finish().status == "ok"
    assert kernel.run("print('made' in globals(), Path('made.txt').exists(), held)").streams == "False False [1]\n"


def test_steps_that_are_done_once_more_are_asked_about_as_such(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("%agent --approve never")
    kernel.run("again = [1]")
    for number in (2, 3):
        changed_by_the_agent(kernel, api, f"again.append({number}); apart = {number}")
    kernel.run("%agent undo 2")
    kernel.run("again.append('mine')")
    cell = kernel.begin("%agent redo 2", asks=True)
    question = unwrapped(cell.answer("4"))
    assert "Redo these 2 steps?" in question
    assert "The steps: apart" in question
    assert "Leave that, do the rest once more" in question
    cell.finish()


def test_a_panel_asks_anew_where_more_was_changed_by_the_time_of_the_answer_and_does_what_was_shown(
    tmp_path: Path, api: MessagesApi
) -> None:
    environment = private_environment(
        tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME="undo.ipynb"
    )
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --approve never")
        kernel.run("mine = [1]; other = [1]")
        changed_by_the_agent(kernel, api, "mine.append(2); other.append(2)")
        kernel.run("mine.append(3)")
        shown = kernel.begin("%agent panel", asks=True).finish()
        bundle = [bundles[-1] for bundles in shown.displays.values()][-1]
        wire = Wire(kernel)
        page = Page(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])

        def asked(names: str) -> Any:
            wire.wait_for(lambda: any(names in str(each.dialog) for each in page.dialogs.values()))
            return [each.dialog for each in page.dialogs.values()][-1]

        page.prompt("/undo")
        first = asked("mine was changed since")
        kernel.run("other.append(3)")
        page.tell("answer", id=first["id"], value="Overwrite it")
        second = asked("mine, other were changed since")
        assert kernel.run("print(mine, other)").streams == "[1, 2, 3] [1, 2, 3]\n"
        page.tell("answer", id=second["id"], value="Overwrite them")
        wire.wait_for(lambda: "Taken back: mine, other." in page.text)
        wire.close()
        assert kernel.run("print(mine, other)").streams == "[1] [1]\n"


def test_commands_that_answer_for_a_whole_prompt_move_all_of_it(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("mine = [1]; other = [1]; apart = [1]")
    kernel.run("%agent --approve never")
    calls = [Reply(ToolUse("python", {"code": code})) for code in ("other.append(2)", "mine.append(2)")]
    api.add(Reply(ToolUse("python", {"code": "apart.append(2)"})), Reply("Done."), *calls, Reply("Done."))
    kernel.run("%agent first")
    kernel.run("%agent then")
    kernel.run("mine.append(3)")
    refused = kernel.run("%agent undo prompt")
    shown = f"{refused.error} {refused.streams} {refused.shown}"
    for answer in ("keep", "over", "both"):
        assert f"`%agent undo prompt {answer}`" in shown
    refused = kernel.run("%agent undo 3")
    assert "`%agent undo 3 keep`" in f"{refused.error} {refused.streams} {refused.shown}"
    kernel.run("%agent undo prompt keep")
    assert kernel.run("print(mine, other, apart)").streams == "[1, 2, 3] [1] [1, 2]\n"


def test_all_that_the_user_changed_since_is_named_before_it_is_overwritten(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("%agent --approve never")
    kernel.run("one = [1]; two = [1]; three = [1]")
    api.add(*(Reply(ToolUse("python", {"code": f"{name}.append(2)"})) for name in ("one", "two", "three")))
    api.add(Reply("Done."))
    kernel.run("%agent go")
    kernel.run("for each in (one, two, three): each.append(3)")
    assert "Nothing was changed: one, three, two were changed since, by you. `%agent" in refused(
        kernel, "%agent undo prompt"
    )
    assert kernel.run("print(one, two, three)").streams == "[1, 2, 3] [1, 2, 3] [1, 2, 3]\n"
    kernel.run("%agent undo prompt over")
    kernel.run("for each in (one, two): each.append(4)")
    assert "Nothing was changed: one, two were changed since, by you. `%agent" in refused(kernel, "%agent redo prompt")
    assert kernel.run("print(one, two, three)").streams == "[1, 4] [1, 4] [1]\n"


def test_what_the_user_changed_stays_the_users_when_it_was_overwritten_and_redone(
    kernel: Kernel, api: MessagesApi
) -> None:
    kernel.run("held = [1]; apart = [1]")
    changed_by_the_agent(kernel, api, "held.append(2); apart.append(2)")
    kernel.run("held.append('mine')")
    kernel.run("%agent undo over")
    kernel.run("%agent redo")
    assert "Nothing was changed: held was changed since, by you. `%agent" in refused(kernel, "%agent undo")
    assert "left as the user has it: held" in refused(kernel, "%agent undo keep")
    assert kernel.run("print(held, apart)").streams == "[1, 2, 'mine'] [1]\n"


def test_of_very_many_variables_the_first_are_named_and_the_others_counted(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("%agent --approve never")
    names = [f"variable_number_{number:02}" for number in range(53)]
    kernel.run("; ".join(f"{name} = [1]" for name in names))
    api.add(Reply(ToolUse("python", {"code": "; ".join(f"{name}.append(2)" for name in names)})), Reply("Done."))
    kernel.run("%agent go")
    kernel.run("; ".join(f"{name}.append(3)" for name in names))
    assert f"Nothing was changed: {', '.join(names[:50])}, 3 more were changed since, by you." in refused(
        kernel, "%agent undo"
    )


def test_several_steps_are_taken_back_at_once(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("steps = []")
    for number in (1, 2, 3):
        changed_by_the_agent(kernel, api, f"steps.append({number})")
    undone = kernel.run("%agent undo 2")
    assert undone.status == "ok", undone.error
    assert kernel.run("print(steps)").streams == "[1]\n"


def in_another(kernel: Kernel, api: MessagesApi, *codes: str) -> None:
    """Have another conversation of the kernel run code in one prompt, and go back to the first one."""
    for code in codes:
        api.add(Reply(ToolUse("python", {"code": code})))
    api.add(Reply("Done."))
    assert kernel.run("%agent --name other --model anthropic/claude-sonnet-4-5 --approve never go").status == "ok"
    kernel.run("%agent --name main")


def refused(kernel: Kernel, command: str) -> str:
    cell = kernel.run(command)
    return f"{cell.error} {cell.streams} {cell.shown}"


def test_steps_of_another_conversation_are_moved_only_where_that_is_said(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("one = two = 0; three = []")
    changed_by_the_agent(kernel, api, "one = 1")
    kernel.run("%agent state save before")
    in_another(kernel, api, "two = one", "three.append(1); one = 5")
    alone = "`%agent undo` alone is for what was asked in this conversation, from step 3 on."
    assert alone in "\n".join(kernel.run("%agent undo list").shown)
    gone = "\n".join(kernel.run("%agent state back before").shown)
    assert "This is “before” again: one, three, two, with what was made in conversation 'other'." in gone
    kernel.run("%agent state back last\n%agent state drop before\n%agent state drop last")
    api.add("I see.")
    kernel.run("%agent --name other what now?\n%agent --name main")
    told = [str(message["content"]) for message in api.requests[-1].body["messages"]]
    assert "calls of this one are among what that moved: The user has gone back to the state “before”" in str(told)
    for asked in ("undo", "undo prompt"):
        why = refused(kernel, f"%agent {asked}")
        assert "Nothing was taken back: one was changed in this conversation, and after that in conversation 'o" in why
        assert "`%agent undo 1` takes back the step that is to go first (one 1 → 5, three 0 → 1 items)" in why
    assert kernel.run("print(one, two, three)").streams == "5 1 [1]\n"
    kernel.run("three.append(2)")
    cell = kernel.run("%agent undo 1")
    assert "`%agent undo 1 over`" in f"{cell.error} {cell.streams} {cell.shown}"
    shown = "\n".join(kernel.run("%agent undo 1 over").shown)
    assert "Taken back: one, three; made in conversation 'other'. `%agent redo 1` turns that around." in shown
    cell = kernel.run("%agent redo")
    assert "Nothing was done once more" in f"{cell.error} {cell.streams} {cell.shown}"
    assert "Taken back: one. `%agent redo` turns that around." in "\n".join(kernel.run("%agent undo").shown)
    assert kernel.run("print(one, two, three)").streams == "0 1 []\n"
    kernel.run("%agent undo 1")


def test_a_conversation_is_told_of_its_steps_that_the_agent_of_another_has_left(
    kernel: Kernel, api: MessagesApi
) -> None:
    kernel.run("one = two = 0")
    changed_by_the_agent(kernel, api, "one = 1")
    kernel.run("%agent state save before")
    in_another(kernel, api, "two = 2")
    api.add(Reply(ToolUse("state", {"action": "back", "name": "before"})), Reply("It is as before."))
    assert kernel.run("%agent --approve never go").status == "ok"
    assert kernel.run("print(one, two)").streams == "1 0\n"
    api.add("I see.")
    kernel.run("%agent --name other what now?\n%agent --name main")
    told = str([message["content"] for message in api.requests[-1].body["messages"]])
    assert "among what that moved: The agent has gone back to the state “before”. As in it again: two." in told


def test_a_step_below_one_of_another_conversation_is_taken_back_where_they_share_nothing(
    kernel: Kernel, api: MessagesApi
) -> None:
    kernel.run("from pathlib import Path; kept = [1]; theirs = {'held': [1]}; alike = kept")
    for code in ("kept.append(2); Path('kept.txt').write_text('1')", "kept.append(3)"):
        api.add(Reply(ToolUse("python", {"code": code})))
    api.add(Reply("Done."))
    assert kernel.run("%agent go").status == "ok"
    in_another(kernel, api, "theirs['held'].append(2); Path('theirs.txt').write_text('1')")
    assert "Taken back: alike, kept. `%agent redo` turns" in "\n".join(kernel.run("%agent undo").shown)
    look = "print(kept, theirs, *(Path(name).exists() for name in ('kept.txt', 'theirs.txt')))"
    assert kernel.run(look).streams == "[1, 2] {'held': [1, 2]} True True\n"
    kernel.run("%agent redo")
    assert kernel.run(look).streams == "[1, 2, 3] {'held': [1, 2]} True True\n"
    in_another(kernel, api, "theirs['held'].append(3)")
    assert "Taken back: alike, kept, kept.txt (removed)." in "\n".join(kernel.run("%agent undo prompt").shown)
    assert kernel.run(look).streams == "[1] {'held': [1, 2, 3]} False True\n"
    kernel.run("%agent undo 2")
    assert kernel.run(look).streams == "[1] {'held': [1]} False False\n"


@pytest.mark.parametrize(
    ("own", "newer", "both"),
    [
        ("Path('both.txt').write_text('1')", "Path('both.txt').write_text('2')", "both.txt"),
        ("pair = [[1]]", "inner = pair[0]; inner.append(2)", "pair"),
        ("held.append(2)", "alias.append(3)", "alias, held"),
    ],
)
def test_a_step_is_left_where_another_conversation_has_changed_the_same(
    kernel: Kernel, api: MessagesApi, own: str, newer: str, both: str
) -> None:
    kernel.run("from pathlib import Path; held = [1]; alias = held")
    changed_by_the_agent(kernel, api, own)
    in_another(kernel, api, newer)
    were = "were" if "," in both else "was"
    assert f"Nothing was taken back: {both} {were} changed in this" in refused(kernel, "%agent undo")
    assert "`keep`, `over` and `both` do not help here." in refused(kernel, "%agent undo both")
    kernel.run("%agent undo 1")
    assert "Taken back: " in "\n".join(kernel.run("%agent undo").shown)
    assert kernel.run("print('pair' in globals(), held, Path('both.txt').exists())").streams == "False [1] False\n"


def test_code_that_fails_is_taken_back_as_far_as_it_came(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("half = {}")
    changed_by_the_agent(kernel, api, "half['done'] = 1; 1 / 0")
    kernel.run("%agent undo")
    assert kernel.run("print(half)").streams == "{}\n"


def test_files_are_taken_back_with_the_variables(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("from pathlib import Path; Path('clean.py').write_text('old'); Path('data.csv').write_text('a'); n = 1")
    shown = changed_by_the_agent(kernel, api, "n = 2; Path('clean.py').write_text('new'); Path('data.csv').unlink()")
    assert "Changed: n 1 → 2, clean.py edited, data.csv deleted" in shown
    assert "Taken back: clean.py, data.csv (put back), n." in "\n".join(kernel.run("%agent undo").shown)
    look = "print(n, Path('clean.py').read_text(), Path('data.csv').exists())"
    assert kernel.run(look).streams == "1 old True\n"
    kernel.run("%agent redo")
    assert kernel.run(look).streams == "2 new False\n"


def test_what_tools_and_commands_did_to_files_is_taken_back_by_prompt(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("Path('kept.txt').write_text('mine'); Path('notes.md').write_text('# Notes')")
    kernel.run("%agent --approve never")
    api.add(
        Reply(ToolUse("write", {"path": "sub/fresh.txt", "content": "fresh"})),
        Reply(ToolUse("edit", {"path": "notes.md", "oldText": "Notes", "newText": "News"})),
        Reply(ToolUse("bash", {"command": "rm kept.txt; echo hi > from-bash"})),
        Reply("Done."),
    )
    shown = "\n".join(kernel.run("%agent go").shown)
    for what in ("sub/fresh.txt new", "from-bash new", "kept.txt deleted"):
        assert what in shown
    asked = kernel.run("%agent undo prompt")  # of a command that was not tried nobody knows what it wrote
    assert "from-bash, kept.txt were changed while the code ran, perhaps by you or another program" in str(asked.error)
    kernel.run("%agent undo prompt over")
    kernel.run("names = 'kept.txt', 'notes.md', 'sub', 'sub/fresh.txt', 'from-bash'")
    look = "print(*(name for name in names if Path(name).exists()))"
    assert kernel.run(look).streams == "kept.txt notes.md\n"
    assert kernel.run("print(Path('kept.txt').read_text(), Path('notes.md').read_text())").streams == "mine # Notes\n"
    kernel.run("%agent redo prompt")
    assert kernel.run(look).streams == "notes.md sub sub/fresh.txt from-bash\n"


def test_what_another_program_did_to_files_while_code_ran_is_not_taken_back_unasked(
    kernel: Kernel, api: MessagesApi
) -> None:
    thesis, other, begun = (kernel.folder / name for name in ("thesis.txt", "other.txt", "begun"))
    thesis.write_text("line 1\n")
    kernel.run("from pathlib import Path; a = 1")
    kernel.run("%agent --approve never")
    code = (
        "a = 2; Path('begun').touch()\nwhile not Path('other.txt').exists(): pass\nPath('mine.txt').write_text('own')"
    )
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
    cell = kernel.begin("%agent go")
    while not begun.exists():
        time.sleep(0.01)
    thesis.write_text("line 1\nline 2\n")
    (kernel.folder / "half").write_text("mine")
    (kernel.folder / "half").rename(other)
    shown = "\n".join(cell.finish().shown)
    assert (
        "begun new, mine.txt new, other.txt new, thesis.txt edited (the last 2 perhaps by you or another program)"
        in shown
    )
    asked = str(kernel.run("%agent undo").error)
    assert "other.txt, thesis.txt were changed while the code ran, perhaps by you or another program." in asked
    assert "Taken back: a, begun (removed), mine.txt (removed)" in "\n".join(kernel.run("%agent undo keep").shown)
    assert (thesis.read_text(), other.read_text()) == ("line 1\nline 2\n", "mine")
    assert kernel.run("print(a, Path('mine.txt').exists())").streams == "1 False\n"


def test_undo_brings_back_what_was_saved_into_a_file_before_running_code_wrote_over_it(
    kernel: Kernel, api: MessagesApi
) -> None:
    todo, begun = kernel.folder / "todo.txt", kernel.folder / "read"
    todo.write_text("a\n")
    kernel.run("import time; from pathlib import Path")
    kernel.run("%agent --approve never")
    code = """
        text = Path('todo.txt').read_text(); Path('read').touch()
        while not Path('todo.txt').read_text().endswith('mine'): time.sleep(0.01)
        Path('todo.txt').write_text(text.upper())
    """
    api.add(Reply(ToolUse("python", {"code": dedent(code)})), Reply("Done."))
    cell = kernel.begin("%agent go")
    while not begun.exists():
        time.sleep(0.01)
    todo.write_text("a\nmine")
    assert "todo.txt edited, over what was saved while the code ran" in "\n".join(cell.finish().shown)
    assert todo.read_text() == "A\n"
    kernel.run("%agent undo")
    assert todo.read_text() == "a\nmine"


def test_undo_brings_back_a_file_that_was_made_while_code_ran_which_then_wrote_over_it(
    kernel: Kernel, api: MessagesApi
) -> None:
    draft, begun = kernel.folder / "draft.txt", kernel.folder / "looks"
    kernel.run("import time; from pathlib import Path")
    kernel.run("%agent --approve never")
    code = """
        Path('looks').touch()
        while not Path('draft.txt').exists() or Path('draft.txt').read_text() != 'mine': time.sleep(0.01)
        Path('draft.txt').write_text('of the code'); Path('made.txt').write_text('of the code')
    """
    api.add(Reply(ToolUse("python", {"code": dedent(code)})), Reply("Done."))
    cell = kernel.begin("%agent go")
    while not begun.exists():
        time.sleep(0.01)
    draft.write_text("mine")
    shown = "\n".join(cell.finish().shown)
    assert "draft.txt edited, over what was saved while the code ran" in shown
    assert "made.txt new" in shown
    kernel.run("%agent undo")
    assert (draft.read_text(), (kernel.folder / "made.txt").exists()) == ("mine", False)


def test_what_was_saved_into_a_file_that_running_code_has_written_is_not_taken_back_unasked(
    kernel: Kernel, api: MessagesApi
) -> None:
    report, begun = kernel.folder / "report.txt", kernel.folder / "begun"
    kernel.run("import time; from pathlib import Path")
    kernel.run("%agent --approve never")
    code = """
        Path('report.txt').write_text('of the code'); Path('begun').touch()
        while not Path('saved').exists(): time.sleep(0.01)
    """
    api.add(Reply(ToolUse("python", {"code": dedent(code)})), Reply("Done."))
    cell = kernel.begin("%agent go")
    while not begun.exists():
        time.sleep(0.01)
    until = time.monotonic() + 1
    while time.monotonic() < until:
        report.write_text(f"of the code, and mine of {time.monotonic()}")
    mine = report.read_text()
    (kernel.folder / "saved").touch()
    assert "report.txt new, saved new (the last 2 perhaps by you or another program)" in "\n".join(cell.finish().shown)
    asked = str(kernel.run("%agent undo").error)
    assert "report.txt, saved were changed while the code ran, perhaps by you or another program." in asked
    kernel.run("%agent undo keep")
    assert report.read_text() == mine


def test_files_that_a_command_was_asked_about_are_taken_back_without_a_question(
    kernel: Kernel, api: MessagesApi
) -> None:
    (kernel.folder / "gone.txt").write_text("kept")
    kernel.run("%agent --approve effects")
    command = "echo hi > first.txt; mv first.txt second.txt; rm gone.txt; mkdir -p deep; echo ho > deep/third.txt"
    api.add(Reply(ToolUse("bash", {"command": command})), Reply("Done."))
    cell = kernel.begin("%agent go", asks=True)
    cell.answer("1")
    assert "another program" not in "\n".join(cell.finish().shown)
    taken_back = kernel.run("%agent undo")
    kernel.run("%agent --approve never")
    assert taken_back.status == "ok", taken_back.error
    names = [name for name in ("second.txt", "gone.txt", "deep") if (kernel.folder / name).exists()]
    assert names == ["gone.txt"]


def test_a_file_the_user_changed_since_is_asked_about_and_both_can_be_had(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("from pathlib import Path; Path('both.txt').write_text('old'); many = [1]")
    changed_by_the_agent(kernel, api, "Path('both.txt').write_text('new'); many.append(2)")
    kernel.run("Path('both.txt').write_text('mine'); many.append(3)")
    refused = kernel.run("%agent undo")
    asked = f"{refused.error} {refused.streams} {refused.shown}"
    assert "many was changed since, by you. both.txt was changed since, by you or another program. `%agent" in asked
    assert "new beside it: both.before.txt, many_before" in "\n".join(kernel.run("%agent undo both").shown)
    look = "print(Path('both.txt').read_text(), Path('both.before.txt').read_text(), many, many_before)"
    assert kernel.run(look).streams == "mine old [1, 2, 3] [1]\n"
    redone = "\n".join(kernel.run("%agent redo").shown)
    assert "Done once more: both.before.txt (removed)" in redone
    assert kernel.run("print(Path('both.before.txt').exists(), Path('both.txt').read_text())").streams == "False mine\n"
    api.requests.clear()
    api.add(Reply("I see."))
    kernel.run("%agent what now?")
    assert "changed in the kernel, in files and in cells: both.before.txt (removed)" in str(api.requests[-1].body)
    kernel.run("%agent undo over")
    assert kernel.run("print(Path('both.txt').read_text(), many)").streams == "mine [1, 2, 3]\n"


def test_going_back_in_the_tree_names_what_takes_back_the_rest(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("%agent --new")
    kernel.run("there = 1")
    api.add(Reply("Hello."))
    kernel.run("%agent hello")
    changed_by_the_agent(kernel, api, "there = 2")
    changed_by_the_agent(kernel, api, "there = 3")
    listed = "\n".join(kernel.run("%agent tree").shown)
    entry = next(line.split()[0] for line in listed.splitlines() if "Hello." in line)
    went = "\n".join(kernel.run(f"%agent tree {entry}").shown)
    assert "there 1 → 2, there 2 → 3" in went
    assert "%agent undo 2" in went
    kernel.run("%agent undo 2")
    assert kernel.run("print(there)").streams == "1\n"


def test_another_kernel_takes_back_what_an_earlier_one_did_to_files(
    api: MessagesApi, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("again")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root, environment) as first:
        first.run("%load_ext indus_nb\nfrom pathlib import Path; Path('a.txt').write_text('old')")
        first.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off")
        changed_by_the_agent(first, api, "Path('a.txt').write_text('new')")
    with Kernel(root, environment) as second:
        second.run("%load_ext indus_nb")
        assert "Taken back: a.txt" in "\n".join(second.run("%agent --continue undo").shown)
        assert second.run("print(open('a.txt').read())").streams == "old\n"


def test_the_end_of_an_answer_says_what_changed_in_all(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("total = 1; rows = [1]")
    api.add(
        Reply(ToolUse("python", {"code": "total = 2; rows.append(2); passing = 1"})),
        Reply(ToolUse("python", {"code": "total = 5; del passing"})),
        Reply("Done."),
    )
    shown = "\n".join(kernel.run("%agent go").shown)
    assert "Changed in all: total 1 → 5, rows 1 → 2 items" in shown
    assert "%agent undo prompt takes it back." in shown
    kernel.run("%agent undo prompt")
    assert kernel.run("print(total, rows)").streams == "1 [1]\n"


def test_a_call_that_cannot_be_undone_says_so(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run(
        "import indus_nb.kernel.undo.objects.outside as o; kept = o.settings\n"
        "def broken():\n    raise OSError('no settings')"
    )
    kernel.run("o.settings = broken")
    try:
        shown = changed_by_the_agent(kernel, api, "fine = 1")
    finally:
        kernel.run("o.settings = kept")
    assert "This call cannot be undone (variables: OSError: no settings)" in shown
