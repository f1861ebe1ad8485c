"""The options of questions for many rows, and how a call becomes a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from indus_nb.base import front_end
from indus_nb.extend.definitions import Definitions
from indus_nb.fanout.mapping import new_directory
from indus_nb.fanout.partitions import bring, is_partitioned
from indus_nb.fanout.question import (
    MAX_TURNS,
    LimitOptions,
    RowOptions,
    RowQuestion,
    StreamedRowOptions,
    question,
)
from indus_nb.fanout.rows import Table, table_of
from indus_nb.fanout.running import latest_interrupted
from indus_nb.fanout.template import Template
from indus_nb.start import SessionOptions


class ModelOptions(TypedDict, total=False):
    """Who is asked, and how; ``agent.map`` explains these options."""

    model: str | None
    provider: str | None
    thinking: str
    system_prompt: str | None
    timeout: float | None
    progress: bool


class StreamOptions(StreamedRowOptions, ModelOptions, total=False):
    """The options of ``agent.stream``; ``agent.map`` explains them."""

    result: Any
    tools: Sequence[str]
    max_turns: int | None


class FilterOptions(RowOptions, ModelOptions, total=False):
    """The options of ``agent.filter`` and ``agent.join``; ``agent.map`` explains them."""

    tools: Sequence[str]
    max_turns: int | None


class MapOptions(FilterOptions, total=False):
    """The options of ``agent.map``, which explains them."""

    result: Any


class RoundOptions(LimitOptions, ModelOptions, total=False):
    """The options of ``agent.topk``; ``agent.map`` explains them, and each holds for all rounds together."""

    estimate: bool


class ReduceOptions(RoundOptions, total=False):
    """The options of ``agent.reduce``; ``agent.map`` explains them, and each holds for all rounds together."""

    result: Any


class Calls(Definitions):
    """The definitions of this process, and what makes questions of calls."""

    def __init__(self, shared: Definitions) -> None:
        # One and the same state: sessions look for what is defined in the object of the room below.
        self.__dict__ = shared.__dict__

    @property
    def interrupted(self) -> Any:
        """Return what the last call would have returned that was interrupted, with the answers so far, or ``None``."""
        return latest_interrupted()

    def _question(self, template: str, data: object, options: MapOptions) -> tuple[object, RowQuestion]:
        data, table = bring(data, Template(template)) if is_partitioned(data) else (data, table_of(data))
        return data, self._asked(template, table, MapOptions, options)

    def _asked(
        self, template: str, table: Table, known: type, options: Mapping[str, Any], result: object = None
    ) -> RowQuestion:
        """Return the question of a call.

        Args:
            known: The class of its options.
            result: The type of the answers, unless it is one of the options.

        Raises:
            TypeError: There is no such option.
            UsageError: The prompt does not fit the data, or an option cannot be used.
        """
        names = known.__annotations__
        if unknown := sorted(options.keys() - names.keys()):
            raise TypeError(f"There is no option {unknown[0]!r} here. There are: {', '.join(sorted(names))}.")
        session = SessionOptions(
            model=options.get("model"),
            provider=options.get("provider"),
            thinking=options.get("thinking", "off"),
            tools=tuple(options.get("tools", ())),
            more_tools=self.tool_names,
            system_prompt=options.get("system_prompt"),
            max_turns=options.get("max_turns", MAX_TURNS),
            timeout=options.get("timeout"),
            jobs_after=0,
        )
        return question(
            template,
            table,
            session=session,
            directory=new_directory(),
            result=options.get("result", result),
            functions=self.plain_functions(session.tools or ()),
            usual_model=front_end.usual_model,
            **cast("RowOptions", {name: options[name] for name in RowOptions.__annotations__ if name in options}),
        )
