"""What a line or a cell asks for: options, prompts, sub-commands, and values that are put into prompts."""

from __future__ import annotations

import re

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from indus_nb.base.errors import UsageError
from indus_nb.base.mistyped import unknown_command
from indus_nb.front.notebook.magic import literal_lines
from indus_nb.front.notebook.magic.options import COMMANDS
from indus_nb.front.notebook.magic.request import Command, Request, Rows, parse


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("hello", Request(text="hello")),
        ("  two  words  ", Request(text="two  words")),
        ("--provider offline", Request(provider="offline")),
        ("--provider=offline hi", Request(provider="offline", text="hi")),
        ("--model 'a b' --new hi", Request(model="a b", new=True, text="hi")),
        ('--session "my file.jsonl"', Request(session="my file.jsonl")),
        ("--continue", Request(continue_last=True)),
        ("--no-session --tools read,ls x", Request(no_session=True, tools="read,ls", text="x")),
        ('--new --tools "" x', Request(new=True, tools="", text="x")),
        ("--name 'the sales' x", Request(name="the sales", text="x")),
        ("--image a.png --image=fig x", Request(images=("a.png", "fig"), text="x")),
        ("--no-wait x", Request(wait=False, text="x")),
        ("--max-cost 0.5 x", Request(max_cost=0.5, text="x")),
        ("--max-cost=$2 x", Request(max_cost=2.0, text="x")),
        ("-o answer x", Request(output="answer", text="x")),
        ("-o=antwört x", Request(output="antwört", text="x")),
        ("--output answer x", Request(output="answer", text="x")),
        ("-o n --result list[Invoice] x", Request(output="n", result="list[Invoice]", text="x")),
        ("--result \"Literal['a', 'b']\" x", Request(result="Literal['a', 'b']", text="x")),
        ("say --new things", Request(text="say --new things")),
        ("-- --new things", Request(text="--new things")),
        ("--new -- --model x", Request(new=True, text="--model x")),
        ("--- a rule", Request(text="--- a rule")),
        ("-x", Request(text="-x")),
        ("- o no option", Request(text="- o no option")),
        ("-only", Request(text="-only")),
        ("'quoted' \"text\"", Request(text="'quoted' \"text\"")),
    ],
)
def test_options_stand_in_front_and_the_rest_is_the_prompt(line: str, request_: Request) -> None:
    assert parse(line) == request_


def test_a_cells_prompt_is_its_lines_and_what_stands_behind_the_options() -> None:
    assert parse("--new", "\n  a\n\n  b\n") == Request(new=True, text="  a\n\n  b")
    assert parse("--new explain", "x = 1\n") == Request(new=True, text="explain\nx = 1")


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ('map -o k "What is {a}?" over df', Rows("What is {a}?", "df", "k")),
        ("-o k map 'a \"b\" {c}' over df.head(3)", Rows('a "b" {c}', "df.head(3)", "k")),
        ('map -o k "What is {a}?" over rows + more', Rows("What is {a}?", "rows + more", "k")),
        ('map -o k --result "list[int]" "x" over [1, 2]', Rows("x", "[1, 2]", "k", "list[int]")),
        ('map --output=k --parallel 4 "x" over over', Rows("x", "over", "k", None, {"parallel": 4})),
        ('map -o k --batch "x" over df', Rows("x", "df", "k", None, {"batch": True})),
        (
            'map -o k --rpm 2.5 --max-cost $1 --journal "my file" --tools read,ls "x" over df',
            Rows("x", "df", "k", None, {"rpm": 2.5, "max_cost": 1.0, "journal": "my file", "tools": "read,ls"}),
        ),
    ],
)
def test_map_asks_a_question_over_data(line: str, rows: Rows) -> None:
    assert parse(line) == Request(rows=rows)


def test_the_question_of_map_may_stand_in_the_lines_below() -> None:
    assert parse("map -o k over df", "\n  What is\n{a}?\n") == Request(rows=Rows("  What is\n{a}?", "df", "k"))


def test_in_front_of_map_stand_options_of_the_conversation_whose_model_answers() -> None:
    request = parse('--name big --model opus --new map -o k "x" over df')
    assert request == Request(name="big", model="opus", new=True, rows=Rows("x", "df", "k"))


@pytest.mark.parametrize(
    ("line", "cell"),
    [
        ("map the sales over the years", None),
        ('map "a" to "b"', None),
        ('map "a" over the top', None),
        ("map the sales of {city} over the years", None),
        ("mapping -o x", None),
        ("map over the sales", "below"),
        ("map the sales over df", "below"),
        ('-- map -o k "x" over df', None),
    ],
)
def test_what_only_sounds_like_map_is_a_prompt(line: str, cell: str | None) -> None:
    request = parse(line, cell)
    assert request.rows is None
    assert request.text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('map "{a}" over df', "needs a variable for the answers, which are paid for: -o NAME"),
        ("map order {n}: {region} over sample", "takes the question in quotes"),
        ("map what is {a}? over df.head(3)", "takes the question in quotes"),
        ("map what is {a:.2f}? over df", "takes the question in quotes"),
        ('map {a} over db["all over the world"]', "takes the question in quotes"),
        ('map "x {note}" small', '`over` is missing: `%agent map -o NAME "x {note}" over DATA`. Nothing was sent.'),
        ('map -o k "x {note}"', '`over` is missing: `%agent map -o NAME "x {note}" over DATA`.'),
        ("map -o k what is it", 'Behind the options of `map` comes "QUESTION" over DATA'),
        ('map -o k "x" over a b', 'comes "QUESTION" over DATA'),
        ('map --paralel 2 "x" over df', "Did you mean --parallel?"),
        ('map --parallel no "x" over df', "--parallel no: give a number above zero"),
        ('map --rpm 0 "x" over df', "--rpm 0: give a number above zero"),
        ('--image a.png map -o k "x" over df', "`%agent map` cannot do with --image."),
        ('--no-wait map -o k "x" over df', "`%agent map` cannot do with --no-wait"),
        ('--new --continue map -o k "x" over df', "exclude each other"),
    ],
)
def test_a_mistake_in_map_is_named_and_nothing_is_asked(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--provider", "--provider needs a value"),
        ("--provider --new", "--provider needs a value"),
        ("--provider= x", "--provider needs a value"),
        ("--bad", "There is no option --bad. `%agent help` shows all of them. A prompt that"),
        ("--modell x", "Did you mean --model?"),
        ("--imge x", "Did you mean --image?"),
        ("--new=yes", "--new takes no value"),
        ("--no-wait=1 x", "--no-wait takes no value"),
        ("--new --session x", "--new and --session exclude each other"),
        ("--approve sometimes x", "choose never, effects, writes, always or looks"),
        ("--thinking hard x", "--thinking hard: choose off, minimal, low, medium, high or xhigh."),
        ("--name ' ' x", "--name needs a name"),
        ("-o", "-o needs a value: -o VALUE"),
        ("-o 2x y", "-o 2x: that is no name of a variable"),
        ("--output class y", "no name of a variable"),
        ("-o a.b y", "no name of a variable"),
        ("--max-cost much x", "--max-cost much: give an amount"),
        ("--max-cost 0 x", "above zero"),
        ("--max-cost nan x", "above zero"),
        ("--max-cost inf x", "above zero"),
        ("--doctor why?", "--doctor goes with no prompt"),
    ],
)
def test_a_mistake_is_named(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "name", "argument"),
    [
        ("model", "model", ""),
        ("model sonnet:high", "model", "sonnet:high"),
        ("thinking", "thinking", ""),
        ("thinking high", "thinking", "high"),
        ("compact", "compact", ""),
        ("compact --", "compact", ""),
        ("compact -- keep the numbers", "compact", "keep the numbers"),
        ("fork", "fork", ""),
        ("fork 0a1b2c3d", "fork", "0a1b2c3d"),
        ("tree", "tree", ""),
        ("tree 0a1b2c3d", "tree", "0a1b2c3d"),
        ("sessions", "sessions", ""),
        ("sessions sales", "sessions", "sales"),
        ("stats", "stats", ""),
        ("export", "export", ""),
        ("export report.html", "export", "report.html"),
        ("export 'my report.jsonl'", "export", "my report.jsonl"),
        ("abort", "abort", ""),
        ("steer", "steer", ""),
        ("steer leave the tests alone?", "steer", "leave the tests alone?"),
        ("queue", "queue", ""),
        ("queue clear", "queue", "clear"),
        ("panel", "panel", ""),
        ("doctor", "doctor", ""),
        ("--doctor", "doctor", ""),
        ("help", "help", ""),
        ("  stats  ", "stats", ""),
    ],
)
def test_a_line_that_fits_is_a_sub_command(line: str, name: str, argument: str) -> None:
    assert parse(line) == Request(command=Command(name, argument))


def test_options_may_stand_in_front_of_a_sub_command() -> None:
    assert parse("--continue tree") == Request(continue_last=True, command=Command("tree"))


@pytest.mark.parametrize(
    "line",
    [
        "model the sales as a tree",
        "model?",
        "Model",
        "thinking aloud",
        "thinking high and low",
        "compact the data frame",
        "compact: keep the numbers",
        "compact --keep",
        "fork this",
        "fork facade",
        "tree 0a1b2c3d and so on",
        "tree view of the folder",
        "sessions of last week",
        "stats about the frame",
        "export the frame to csv",
        "export frame.csv",
        "export the frame.html",
        "export 'a b.html",
        "abort the loop",
        "queue clear all",
        "queue theory",
        "panel data",
        "doctor who",
        "help me",
        "helper",
        "say stats",
    ],
)
def test_a_line_that_only_begins_like_a_sub_command_is_a_prompt(line: str) -> None:
    assert parse(line) == Request(text=line)
    assert parse(f"-- {line}") == Request(text=line)


def test_a_sub_command_is_a_prompt_behind_two_dashes_and_in_a_cell() -> None:
    for name in COMMANDS:
        assert parse(f"-- {name}") == Request(text=name)
        assert parse("", f"{name}\n") == Request(text=name)
        assert parse(name, "\n") == Request(text=name)


def transformed(cell: str) -> list[tuple[str, str, str | None]]:
    """The magics that IPython would call for a cell."""
    manager = TransformerManager()
    manager.cleanup_transforms.append(literal_lines)
    calls: list[tuple[str, str, str | None]] = []

    class Shell:
        def run_line_magic(self, name, line):
            calls.append((name, line, None))

        def run_cell_magic(self, name, line, body):
            calls.append((name, line, body))

    exec(manager.transform_cell(cell), {"get_ipython": Shell})
    return calls


@pytest.mark.parametrize(
    "text",
    [
        "is it?",
        "is it??",
        "isn't it",
        'say "x',
        "an odd (bracket",
        "[list",
        "{x} $y",
        "a = b",
        "# no comment",
        "a ; b;",
    ],
)
def test_a_line_reaches_the_magic_as_it_was_typed(text: str) -> None:
    assert transformed(f"%agent {text}") == [("agent", text, None)]
    assert transformed(f"if True:\n    %agent {text}\nx = 1\n%agent {text}\n") == [("agent", text, None)] * 2


def test_lines_that_are_not_ours_stay_as_they_were() -> None:
    assert transformed("%agents x\n%agent\n") == [("agents", "x", None), ("agent", "", None)]
    assert transformed("s = '''\n%agent is it?\n'''") == []
    assert transformed("%%other\n%agent is it?\n") == [("other", "", "%agent is it?\n")]
    assert transformed("%%agent --new\n%agent is it?\n") == [("agent", "--new", "%agent is it?\n")]
    assert transformed("%agent one \\\ntwo") == [("agent", "one  two", None)]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("sesions", "Did you mean `%agent sessions`?"),
        ("compct", "Did you mean `%agent compact`?"),
        ("panle", "Did you mean `%agent panel`?"),
        ("modle", "Did you mean `%agent model`?"),
        ("comapct", "Did you mean `%agent compact`?"),
        ("undoo", "Did you mean `%agent undo`?"),
        ("fixx", "Did you mean `%agent fix`?"),
        ("stats list", "`%agent stats` takes nothing, and no `list`."),
        ("list", "Did you mean `%agent state list`?"),
        ("stat", "Did you mean `%agent stats`?"),
        ("stas", "Did you mean `%agent stats`?"),
        ("doktor", "Did you mean `%agent doctor`?"),
        ("quue", "Did you mean `%agent queue`?"),
        ("modle sonnet", "Did you mean `%agent model sonnet`?"),
        ("cel all", "Did you mean `%agent cell all`?"),
        ("undo promt", "Did you mean `%agent undo prompt`?"),
        ("thinking hgh", "Did you mean `%agent thinking high`?"),
        ("claims chekc", "Did you mean `%agent claims check`?"),
        ("state bakc raw", "Did you mean `%agent state back raw`?"),
        ("state dif 'before it'", "Did you mean `%agent state diff 'before it'`?"),
        ("state bakc raw over", "Did you mean `%agent state back raw over`?"),
        ("sttae back raw", "Did you mean `%agent state back raw`?"),
        ("state save two words", 'Did you mean `%agent state save "two words"`?'),
    ],
)
def test_what_nearly_is_a_command_is_doubted(line: str, hint: str) -> None:
    assert hint in parse(line).doubt
    assert f"`%agent -- {line}`" in parse(line).doubt
    for meant in (parse(f"-- {line}"), parse("", line)):
        assert (meant.text, meant.doubt) == (line, "")


@pytest.mark.parametrize(
    ("line", "hint"),
    [("fork 6590", "at least eight characters"), ("-provider offline", "two dashes: --provider")],
)
def test_what_is_no_sentence_is_not_sent(line: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(hint)):
        parse(line)
    assert parse(f"-- {line}").text == line
    assert parse("", line).text == line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/undoo", "There is no command /undoo. Did you mean /undo?"),
        ("/modle sonnet", "There is no command /modle. Did you mean /model?"),
        ("/frobnicate", "There is no command /frobnicate."),
        ("/frobnicate the rows", None),
        ("/etc/passwd", None),
        ("/model sonnet", None),
        ("what is /undoo?", None),
    ],
)
def test_a_slash_command_that_is_not_there_is_told(text: str, said: str | None) -> None:
    assert unknown_command(text, COMMANDS) == said


def test_a_command_may_be_written_with_a_slash() -> None:
    assert parse("/help").command == Command("help", "", "/help")
    assert parse("/compact -- the numbers").command == Command("compact", "the numbers", "/compact -- the numbers")
    assert parse("/review this").command is None
    assert parse("", "/help").command is None


@pytest.mark.parametrize(
    "line",
    [
        "more",
        "three",
        "work",
        "about",
        "reset all",
        "thinking aloud",
        "help me",
        "undo all",
        "explain this",
        "Stat",
        "map it",
        "state bakc to what it was about",
        "state back to the start",
        "state drop all of them",
        "state the problem",
        "sttae the problem first",
    ],
)
def test_a_word_or_two_that_are_no_command_are_a_prompt(line: str) -> None:
    assert (parse(line).text, parse(line).doubt) == (line, "")


@pytest.mark.parametrize("line", ["--help", "-h", "?", "help"])
def test_help_is_found_however_it_is_asked_for(line: str) -> None:
    assert parse(line).command == Command("help")


@pytest.mark.parametrize("line", ["map --help", "map -h", "--model opus map --help"])
def test_help_behind_map_shows_its_options(line: str) -> None:
    assert parse(line).command == Command("map")


@pytest.mark.parametrize("line", ["verify --help", "model -h"])
def test_help_behind_another_sub_command_is_not_sent(line: str) -> None:
    assert parse(line).command == Command("help")
    assert parse(f"-- {line}").text == line
