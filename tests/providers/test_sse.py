"""The decoder of server-sent events: whatever a server may write, in whatever pieces it arrives."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indus_nb.models.http import sse
from indus_nb.models.http.sse import EventDecoder, EventTooLargeError, StreamedError


def decoded(*pieces: bytes) -> list[object]:
    decoder = EventDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return [*events, *decoder.end()]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", [1, 2]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [1, 2]),
        (b"data: 1\r\rdata: 2\r\r", [1, 2]),
        (b"data: 1\n\n\n\n\ndata: 2\n\n", [1, 2]),
        (b"\n\ndata: 1\n\n", [1]),
        (b"data:1\n\n", [1]),
        (b'data: [1,\ndata: "x"]\n\n', [[1, "x"]]),
        (b": comment\ndata: 1\nid: 7\nretry: 10\nunknown: x\n\n: only a comment\n\n", [1]),
        (b"event: message_stop\n\n", []),
        (b"event: message_stop\ndata\n\n", []),
        (b"event: ping\ndata: nonsense\n\ndata: 1\n\n", [1]),
        ("\ufeffdata: 1\n\n".encode(), [1]),
        ('data: "é\u2028\x85 x"\n\n'.encode(), ["é\u2028\x85 x"]),
        (b"data: 1\n\ndata: [DONE]\n\ndata: 2\n\n", [1]),
        (b"data: 1\n\ndata: 2", [1, 2]),
        (b"data: 1\n\ndata: 2\n", [1, 2]),
        (b'data: 1\n\ndata: {"cut', [1]),
        (b'data: 1\n\ndata: "\xc3', [1]),
        (b"data: null\n\n", [None]),
        (b"", []),
    ],
)
def test_every_piece_of_a_stream_says_the_same(stream, events):
    assert decoded(stream) == events
    assert decoded(*(bytes([byte]) for byte in stream)) == events
    for cut in range(len(stream)):
        assert decoded(stream[:cut], stream[cut:]) == events


@given(
    st.lists(st.text(), max_size=5), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=6)
)
def test_text_survives_any_cut(texts, line_end, cuts):
    stream = "".join(f"data: {json.dumps(text, ensure_ascii=False)}\n\n".replace("\n", line_end) for text in texts)
    raw = stream.encode("utf-8", "surrogatepass")
    ends = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    assert decoded(*(raw[start:end] for start, end in itertools.pairwise(ends))) == texts


@pytest.mark.parametrize(("data", "body"), [(b'{"error": {"type": "x"}}', {"error": {"type": "x"}}), (b"oops", "oops")])
def test_an_error_ends_the_stream_behind_what_came_before(data, body):
    decoder = EventDecoder()
    events = decoder.feed(b"data: 1\n\nevent: error\ndata: %b\n\n" % data)
    assert next(events) == 1
    with pytest.raises(StreamedError) as raised:
        next(events)
    assert raised.value.body == body


@pytest.mark.parametrize("data", [b"{nonsense", b"\xff\xff", b"\xff"])
def test_what_is_no_json_or_no_text_is_an_error_behind_what_came_before(data):
    events = EventDecoder().feed(b"data: 1\n\ndata: %b\n\n" % data)
    assert next(events) == 1
    with pytest.raises(ValueError, match=r"Expecting|codec can't decode"):
        next(events)


def test_data_that_is_nested_too_deeply_is_no_value():
    with pytest.raises(ValueError, match="data nested too deeply"):
        decoded(b"data: " + b"[" * 200_000 + b"]" * 200_000 + b"\n\n")


def test_an_event_without_an_end_is_an_error(monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 3 * 1024 * 1024)
    with pytest.raises(EventTooLargeError, match="an event is larger than 3 MB"):
        decoded(*[b"data: " + b"x" * 64 * 1024] * 50)


def test_a_large_event_is_put_together_once():
    large = json.dumps("x" * 2_000_000).encode()
    stream = b"data: " + large + b"\n\ndata: 1\n\n"
    assert decoded(*(stream[start : start + 1000] for start in range(0, len(stream), 1000))) == ["x" * 2_000_000, 1]
