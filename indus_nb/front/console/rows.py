"""``indus-nb map``: one question for each row of a file, and the answers in another.

What this module promises: the file of answers is written once, at the end, wholly or not at all, also after a signal;
where that fails they are printed, else standard output stays empty. The exit status says whether each row has an
answer.
"""

from __future__ import annotations

import argparse
import csv
import gc
import io
import os
import re
import signal
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from indus_nb.base.errors import UsageError
from indus_nb.base.files import expand_user, read_file, write_atomically
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, dump, from_json
from indus_nb.front.console.arguments import Parser
from indus_nb.front.console.stdio import complain
from indus_nb.safety.policy import MODES

if TYPE_CHECKING:
    from indus_nb.core.session.session import AgentSession
    from indus_nb.fanout.mapping import Map
    from indus_nb.fanout.results import Answers
    from indus_nb.fanout.rows import Table

_EPILOG = """\
DATA and the file of answers are CSV or JSON lines, as their names end: .csv, .tsv, .jsonl, .ndjson.
A line that is no object is a row with the one column `item`.

exit status: 0 every row has an answer, 1 some have none, 2 wrong usage, 128+N ended by signal N"""
_JSON_LINES = (".jsonl", ".ndjson")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?%?")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="indus-nb map",
        description="Ask one question about each row of a file.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("data", metavar="DATA", help="the rows")
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="the question; {column} is a value of the row")
    parser.add_argument("--out", required=True, metavar="FILE", help="where the rows go with their answers")
    parser.add_argument("--schema", metavar="FILE|TYPE", help="answer with a value, as in `indus-nb --schema`")
    parser.add_argument("--journal", metavar="FILE", help="keep what is done: the next call asks for what is missing")
    parser.add_argument("--files", metavar="A,B", help="columns that hold paths of images or texts in this directory")
    parser.add_argument("--batch", action="store_true", help="half the price at Anthropic, for answers within a day")
    parser.add_argument("--no-dedupe", action="store_true", help="ask for each of several rows with the same prompt")
    parser.add_argument("--no-sessions", action="store_true", help="keep no session files of rows")
    parser.add_argument("--cheap", metavar="MODEL", help="ask this model first, and --model where it is not sure")
    parser.add_argument(
        "--sure",
        type=_sure,
        metavar="P|twice",
        help="with --cheap: its probability to be taken (0.9), or for the same answer twice",
    )
    parser.add_argument("--sample", type=int, metavar="N", help="ask for N rows only, and tell what all will cost")
    parser.add_argument("--estimate", action="store_true", help="ask nothing, and tell what it would cost")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--parallel", type=int, metavar="N", help="how many rows are asked at once (8)")
    limits.add_argument("--rpm", type=float, metavar="N", help="how many requests may begin in a minute")
    limits.add_argument("--tpm", type=float, metavar="N", help="how many tokens requests may use in a minute")
    limits.add_argument("--max-cost", type=float, metavar="USD", help="for all of it, the journal's rows included")
    limits.add_argument("--max-tokens", type=int, metavar="N", help="the longest answer to one request (4096)")
    limits.add_argument("--max-turns", type=int, metavar="N", help="how many answers a row with tools may have (50)")
    limits.add_argument("--timeout", type=float, metavar="SECONDS", help="how long a row may take, waits included")
    model = parser.add_argument_group("model")
    model.add_argument("--provider", metavar="NAME", help="anthropic, openai, …, or offline")
    model.add_argument("--model", metavar="ID", help="an id, provider/id or part of a name")
    model.add_argument("--thinking", default="off", metavar="LEVEL", help="off, minimal, low, medium, high or xhigh")
    model.add_argument("--api-key", metavar="KEY", help="the provider's key, instead of the environment's")
    model.add_argument("--system-prompt", metavar="TEXT|FILE", help="replaces the built-in system prompt")
    model.add_argument("-t", "--tools", metavar="A,B", help="the tools that rows may use; by default none")
    model.add_argument(
        "--approve",
        choices=MODES,
        help="which tool calls of rows are refused, for nobody can be asked: those with effects (writes, as usual), "
        "those with other effects than new variables (effects), all (always) or none (never)",
    )
    model.add_argument(
        "--sandbox",
        choices=("off", "workspace", "read-only"),
        help="confine commands to the working directory, or to reading",
    )
    return parser


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _sure(text: str) -> float | str:
    try:
        return text if text == "twice" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("give a number from 0 to 1, or twice") from None


def ask_rows(arguments: Sequence[str]) -> int:
    """Run ``indus-nb map``.

    Args:
        arguments: The arguments behind ``map`` on the command line.

    Raises:
        IndusError: Nothing could be asked, or the answers could not be written.
    """
    options = _parser().parse_args(arguments)
    gc.enable()
    from indus_nb.core.answers.naming import kind_of_option
    from indus_nb.fanout.mapping import Map, new_directory
    from indus_nb.fanout.question import MAX_TOKENS, MAX_TURNS, PARALLEL, question
    from indus_nb.start import SessionOptions

    source, out = expand_user(options.data), expand_user(options.out)
    _check_place(out)
    data = _data_in(source)
    kind = None
    if options.schema is not None:
        with redirect_stdout(sys.stderr):  # what a module prints that is imported for it
            kind = kind_of_option(options.schema)
    session = SessionOptions(
        model=options.model,
        provider=options.provider,
        thinking=options.thinking,
        api_key=options.api_key,
        system_prompt=options.system_prompt,
        tools=_names(options.tools),
        approve=options.approve,
        usual_approve="writes",
        sandbox=options.sandbox,
        max_turns=MAX_TURNS if options.max_turns is None else options.max_turns,
        timeout=options.timeout,
        jobs_after=0,
    )
    asked = question(
        options.prompt,
        data,
        result=kind,
        session=session,
        directory=new_directory(),
        parallel=PARALLEL if options.parallel is None else options.parallel,
        rpm=options.rpm,
        tpm=options.tpm,
        max_cost=options.max_cost,
        max_tokens=MAX_TOKENS if options.max_tokens is None else options.max_tokens,
        journal=None if options.journal is None else expand_user(options.journal),
        files=_names(options.files),
        batch=options.batch,
        dedupe=not options.no_dedupe,
        sessions=not options.no_sessions,
        cheap=options.cheap,
        sure=options.sure,
        sample=options.sample,
        estimate=options.estimate,
    )
    signals: list[int] = []
    asking = Map(data, asked)
    if session.tools:
        asking.work.on_checked = lambda leading: complain(_mode(leading))

    def interrupt(number: int, _: FrameType | None) -> None:
        signals.append(number)
        asking.interrupt()  # and nothing else, until what is paid for is written

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    answers = _answers_of(asking)
    for problem in answers.problems:
        complain(problem)
    if answers.estimate is not None:
        complain(f"{answers.estimate}.")
        return 128 + signals[0] if signals else 0
    is_written = _write_or_print(out, data, answers)
    errors = dict.fromkeys(row.error for row in answers.rows if row.error is not None)
    if options.sample is not None and not errors:
        complain(f"A sample: {answers.summary}.")
    elif answers.failed:
        first = next(((place, row.error) for place, row in enumerate(answers.rows, 1) if row.error is not None), None)
        why = "" if first is None else f" The first reason, of row {first[0]:,}: {first[1].removesuffix('.')}."
        again = "" if options.journal else " With --journal FILE the next call would ask only for what is missing."
        complain(f"{len(answers.failed):,} of {len(answers):,} rows have no answer.{why}{again}")
    if answers.cascade is not None:
        complain(f"{answers.cascade}.")
    failed = errors if options.sample is not None else answers.failed
    return 128 + signals[0] if signals else int(bool(failed) or not is_written)


def _answers_of(asking: Map) -> Answers:
    """Return the answers, those of an interrupted call too: they are written."""
    from indus_nb.fanout.reporting import console_reporter
    from indus_nb.fanout.running import RowsInterrupted

    try:
        return asking.here(console_reporter(sys.stderr))
    except RowsInterrupted as stopped:
        return stopped.result


_REFUSED = {
    "never": "no call is refused (--approve never)",
    "effects": "calls with effects on what is there are refused, for nobody can be asked (--approve effects)",
    "writes": "calls with effects are refused, for nobody can be asked (--approve writes)",
    "always": "all calls that need an approval are refused, for nobody can be asked (--approve always)",
    "looks": "calls with effects are refused (--approve looks)",
}


def _mode(session: AgentSession) -> str:
    """Describe in a line what tools of rows may do."""
    settings = session.settings
    confined = (
        "commands are not confined" if settings.sandbox == "off" else f"commands are confined to {settings.sandbox}"
    )
    return f"Rows may use {', '.join(session.active_tools)}: {_REFUSED[settings.approve]}; {confined}."


def _check_place(path: Path) -> None:
    if path.suffix.lower() not in (*_JSON_LINES, *_DELIMITERS):
        raise UsageError(f"--out {path}: the name ends with .csv, .tsv, .jsonl or .ndjson, which says what is written.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"--out {path}: there is no directory for it, or it is a directory itself.")
    try:
        if path.is_file():
            path.open("ab").close()
        elif not path.exists():  # else it is a pipe or a device, which opening may change
            target = Path(os.path.realpath(path))
            target.touch(exist_ok=False)
            target.unlink()
    except OSError as error:
        raise UsageError(f"--out {path}: it cannot be written ({error.strerror}).") from error


def _data_in(path: Path) -> Table:
    if not (data := table_in(path)).rows:
        complain(f"{path} has no rows, so nothing is asked.")
    return data


def table_in(path: Path) -> Table:
    """Return the rows of a file; raises ``UsageError`` where it cannot be read as what its name says."""
    from indus_nb.fanout import table_of

    suffix = path.suffix.lower()
    if suffix not in (*_JSON_LINES, *_DELIMITERS):
        raise UsageError(f"{path}: the name ends with .csv, .tsv, .jsonl or .ndjson, which says how it is read.")
    try:
        text = read_file(path).decode()
    except OSError as error:
        raise UsageError(f"{path}: the file cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the file is no text in UTF-8 (byte {error.start}).") from error
    if suffix in _JSON_LINES:
        return table_of(_json_rows(path, text))
    names, rows = _csv_rows(path, text, _DELIMITERS[suffix])
    return replace(table_of(rows), columns=names)  # which a file without rows has too


def _json_rows(path: Path, text: str) -> list[Any]:
    rows: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(from_json(line))
            except ValueError as error:
                raise UsageError(f"{path}: line {number} is no JSON ({error}).") from error
    return rows


def _csv_rows(path: Path, text: str, delimiter: str) -> tuple[tuple[str, ...], list[Any]]:
    csv.field_size_limit(max(len(text), 1))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = next(reader, list[str]())
        if not names:
            raise UsageError(f"{path}: the first line names the columns, and it is empty.")
        if twice := next((name for name, times in Counter(names).items() if times > 1), None):
            raise UsageError(f"{path}: there is more than one column {twice!r}. Give them names of their own.")
        rows: list[Any] = []
        for values in reader:
            if len(values) > len(names):
                raise UsageError(f"{path}: line {reader.line_num} has {len(values)} values for {len(names)} columns.")
            if values:
                rows.append(dict(zip(names, values, strict=False)))
    except csv.Error as error:
        raise UsageError(f"{path}: line {reader.line_num} is no CSV ({error}).") from error
    return tuple(names), rows


def write_table(path: Path, columns: Sequence[str], added: Sequence[str], records: Sequence[JsonObject]) -> None:
    """Write rows with their answers.

    Args:
        columns: The columns of the data, which are written as they are.
        added: The columns of the answers, of which spreadsheets get no formula.
    """
    write_atomically(path, _content(path, columns, added, records), in_place=True)


def _content(path: Path, columns: Sequence[str], added: Sequence[str], records: Sequence[JsonObject]) -> bytes:
    if path.suffix.lower() in _JSON_LINES:
        return b"".join(dump(record) + b"\n" for record in records)
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=_DELIMITERS[path.suffix.lower()], lineterminator="\n")
    writer.writerow([*columns, *map(_harmless, added)])
    writer.writerows(
        [*(_cell(record.get(name)) for name in columns), *(_harmless(_cell(record.get(name))) for name in added)]
        for record in records
    )
    return text.getvalue().encode()


def _write_or_print(path: Path, data: Table, answers: Answers) -> bool:
    """Write the file of answers, and return whether that is done: what is paid for is not lost on a full disk."""
    try:
        write_table(path, data.columns, answers.columns, answers.records)
    except OSError as error:
        complain(f"The answers cannot be written to {path} ({error.strerror or error}): they are on standard output.")
        sys.stdout.buffer.write(_content(path, data.columns, answers.columns, answers.records))
        sys.stdout.flush()
        return False
    return True


def _harmless(text: str) -> str:
    """Return a model's text as spreadsheets take for no formula, and terminals for nothing to obey.

    Where the semicolon separates values, each piece between two of them is a value of its own.
    """
    return ";".join(f"'{piece}" if _is_formula(piece) else piece for piece in plain(text).split(";"))


def _is_formula(piece: str) -> bool:
    # As programs read it: full-width signs count, and what cannot be seen does not.
    seen = unicodedata.normalize("NFKC", piece)
    start = next((at for at, sign in enumerate(seen) if unicodedata.category(sign)[0] not in "CZ"), len(seen))
    return seen.startswith(("=", "+", "-", "@"), start) and not _NUMBER.fullmatch(seen.strip())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else dump(value).decode()
