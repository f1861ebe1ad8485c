"""Frames of Dask as data: what the prompt names is brought here, and the answers are added where the rows are."""

from __future__ import annotations

from collections.abc import Callable

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from fanout_calls import Calling, asked
from messages_api import HttpError, MessagesApi, Recorded, Reply, ToolUse

from indus_nb import agent
from indus_nb.base.errors import IndusError, UsageError

pytestmark = pytest.mark.usefixtures("in_work")


def lengths(request: Recorded) -> Reply | HttpError:
    """The length of what was asked, and for one row an error."""
    text = asked(request)
    return HttpError(400) if text == "six" else Reply(ToolUse("answer", {"answer": len(text)}), at_once=True)


@pytest.fixture
def answering(messages_api: MessagesApi) -> Callable[[Recorded], Reply | HttpError]:
    messages_api.default = lengths  # type: ignore[assignment]
    return lengths


WORDS = ["one", "two", "three", "four", "five", "six", "seven"]


@pytest.mark.usefixtures("answering")
def test_a_frame_gets_answers_in_each_partition_and_keeps_index_and_divisions() -> None:
    rows = pd.DataFrame({"word": WORDS, "other": range(7), "answer": "x"}, index=range(10, 80, 10))
    data = dd.from_pandas(rows, npartitions=3)
    done = agent.map("{word}", data, result=int)
    assert list(done) == [3, 3, 5, 4, 4, None, 5]
    frame = done.frame
    assert isinstance(frame, dd.DataFrame)
    assert (frame.npartitions, frame.divisions) == (data.npartitions, data.divisions)
    computed = frame.compute()
    assert list(computed.columns) == ["word", "other", "answer", "answer_answer", "error"]
    assert (list(computed.index), list(computed["other"])) == (list(range(10, 80, 10)), list(range(7)))
    assert dict(frame.dtypes) == dict(computed.dtypes)
    assert list(computed["answer_answer"].dropna()) == [3, 3, 5, 4, 4, 5]
    assert list(computed["error"].isna()) == [True] * 5 + [False, True]
    assert list(frame.get_partition(1).compute().index) == list(data.get_partition(1).compute().index)


@pytest.mark.usefixtures("answering")
def test_only_the_columns_of_the_prompt_are_brought() -> None:
    def made(part: pd.DataFrame) -> pd.DataFrame:
        return part.assign(heavy=part["word"].map(_never))

    data = dd.from_pandas(pd.DataFrame({"word": ["one"]}), npartitions=1)
    like = data._meta.assign(heavy=pd.Series(dtype="int64"))
    done = agent.map("{word}", dd.from_delayed([dask.delayed(pd.DataFrame)({"word": ["one"], "b": [1]})]), result=int)
    assert [set(record) for record in done.records] == [{"word", "answer", "error", "session"}]
    failing = data.map_partitions(made, meta=like)
    with pytest.raises(IndusError, match=r"Partition 0 .* cannot be computed: .*looked at"):
        agent.map("{heavy}", failing)


def _never(word: str) -> int:
    raise RuntimeError(f"{word} was looked at")


@pytest.mark.usefixtures("answering")
def test_unknown_divisions_stay_unknown_and_empty_partitions_are_no_mistake() -> None:
    data = dd.from_pandas(pd.DataFrame({"word": WORDS[:4]}), npartitions=2).clear_divisions()
    data = data[data["word"].isin(["four", "three"])]
    done = agent.map("{word}", data, result=int)
    assert not done.frame.known_divisions
    assert list(done.frame.compute()["answer"]) == [5, 4]


def test_a_prompt_without_columns_asks_once_for_each_row(messages_api: MessagesApi) -> None:
    messages_api.default = "fine"
    data = dd.from_pandas(pd.DataFrame({"word": WORDS}), npartitions=3)
    done = agent.map("hello", data)
    assert list(done.frame.compute()["answer"]) == ["fine"] * 7


def test_what_does_not_fit_is_said_before_any_row_is_asked(messages_api: MessagesApi) -> None:
    data = dd.from_pandas(pd.DataFrame({"word": WORDS}), npartitions=3)
    with pytest.raises(UsageError, match=r"names \{text\}.* columns are: word"):
        agent.map("{text}", data)
    with pytest.raises(UsageError, match="compute"):
        agent.map("{text}", data["word"])
    assert messages_api.requests == []


@pytest.mark.usefixtures("answering")
async def test_with_an_event_loop_it_is_the_same_and_rows_are_asked_again(messages_api: MessagesApi) -> None:
    data = dd.from_pandas(pd.DataFrame({"word": WORDS}), npartitions=2)
    done = await agent.map_async("{word}", data, result=int)
    messages_api.default = lambda _: Reply(ToolUse("answer", {"answer": 0}))  # type: ignore[assignment]
    again = await done.retry_async()
    assert list(again.frame.compute()["answer"]) == [3, 3, 5, 4, 4, 0, 5]


def test_rows_that_changed_meanwhile_get_no_answers_of_others(messages_api: MessagesApi) -> None:
    messages_api.default = "fine"
    rows = iter([["a", "b"], ["a"]])

    def made() -> pd.DataFrame:
        return pd.DataFrame({"word": next(rows)})

    data = dd.from_delayed([dask.delayed(made, pure=False)()], meta=pd.DataFrame({"word": ["a"]}))
    done = agent.map("{word}", data)
    with pytest.raises(ValueError, match="had 2 when they were asked"):
        done.frame.compute(scheduler="synchronous")


def test_functions_run_in_an_engine_for_them_too(messages_api: MessagesApi) -> None:
    from concurrent.futures import ThreadPoolExecutor

    @agent.tool
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    try:
        server = Calling.on(messages_api, "shout")
        data = dd.from_pandas(pd.DataFrame({"word": WORDS}), npartitions=2)
        with ThreadPoolExecutor(2) as pool:
            done = agent.map("{word}", data, tools=["shout"], over=pool)
        assert list(done.frame.compute()["answer"]) == [word.upper() for word in WORDS]
        assert round(done.cost * 1e9) == server.dollars
    finally:
        agent.forget(["shout"])
