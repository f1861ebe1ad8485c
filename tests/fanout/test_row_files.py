"""Images and files in rows: what the model is shown of them, which are read at all, and which rows are alike."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import threading
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from batches_api import BatchesApi
from fanout_calls import interrupted
from messages_api import HttpError, MessagesApi, Recorded, Reply, ToolUse
from PIL import Image, ImageSequence

from indus_nb import SessionOptions, agent, open_session
from indus_nb.base.errors import UsageError
from indus_nb.fanout.known import prompts_of
from indus_nb.fanout.mapping import Map
from indus_nb.fanout.question import RowQuestion, question
from indus_nb.fanout.reporting import Reporter
from indus_nb.fanout.rows import table_of

pytestmark = pytest.mark.usefixtures("in_work")


def picture(color: str = "red", size: tuple[int, int] = (4, 3), kind: str = "PNG") -> bytes:
    """Return an image file of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, kind)
    return buffer.getvalue()


def shown(body: Mapping[str, Any]) -> tuple[str, list[bytes]]:
    """Return the text and the images of the message that asks for a row; the images come behind."""
    content = body["messages"][0]["content"]
    if isinstance(content, str):
        return content, []
    texts = [block["text"] for block in content if block["type"] == "text"]
    images = [base64.b64decode(block["source"]["data"]) for block in content if block["type"] == "image"]
    assert [block["type"] for block in content] == ["text"] * len(texts) + ["image"] * len(images)
    return "".join(texts), images


def color_of(image: bytes) -> tuple[int, ...]:
    """Return the colour of an image in its first corner, a little rounded."""
    with Image.open(io.BytesIO(image)) as opened:
        pixel = opened.convert("RGB").getpixel((0, 0))
    assert isinstance(pixel, tuple)
    return tuple(round(part / 16) for part in pixel)


@pytest.fixture
def api(messages_api: MessagesApi) -> MessagesApi:
    messages_api.default = lambda request: Reply(f"{len(shown(request.body)[1])} in {shown(request.body)[0]}")  # type: ignore[assignment]
    return messages_api


@pytest.fixture
def files(home: Path) -> Path:
    """Return the working directory, with images, and a text beside it that no row may reach."""
    work = home / "work"
    (work / "red.png").write_bytes(picture("red"))
    (work / "blue.jpg").write_bytes(picture("blue", kind="JPEG"))
    (home / "secret.txt").write_text("a private key")
    return work


def asked_of(data: list[Any], template: str = "{item}", **options: Any) -> RowQuestion:
    return question(template, table_of(data), session=SessionOptions(), directory=Path("rows"), **options)


def pdf(*colors: str, size: tuple[int, int] = (60, 30)) -> bytes:
    """Return a PDF file with a page of each colour."""
    buffer = io.BytesIO()
    first, *others = (Image.new("RGB", size, color) for color in colors)
    first.save(buffer, "PDF", save_all=True, append_images=others)
    return buffer.getvalue()


def test_the_model_sees_the_pages_of_a_pdf(api: MessagesApi, files: Path) -> None:
    (files / "report.pdf").write_bytes(pdf("red", "lime", "blue"))
    data = [
        {"page": Path("report.pdf"), "beside": picture("yellow")},
        {"page": Path("report.pdf#page=2"), "beside": picture("yellow")},
        {"page": pdf("white", "black"), "beside": picture("yellow")},
    ]
    done = agent.map("{page} beside {beside}", data, parallel=1)
    assert list(done) == [
        "4 in [images 1 to 3] beside [image 4]",
        "2 in [image 1] beside [image 2]",
        "3 in [images 1 to 2] beside [image 3]",
    ]
    colors = [[color_of(image) for image in shown(request.body)[1]] for request in api.requests]
    red, lime, blue, yellow = (16, 0, 0), (0, 16, 0), (0, 0, 16), (16, 16, 0)
    assert colors == [[red, lime, blue, yellow], [lime, yellow], [(16, 16, 16), (0, 0, 0), yellow]]


def test_texts_name_pages_of_files_within_the_directory(api: MessagesApi, files: Path, home: Path) -> None:
    (files / "report.pdf").write_bytes(pdf("red", "lime", "blue"))
    (home / "other.pdf").write_bytes(pdf("red"))
    named = ["report.pdf#page=2-3", "report.pdf#page=4", "report.pdf#page=3-2", "../other.pdf#page=1"]
    done = agent.map("{page}", [{"page": each} for each in named], files=["page"])
    assert [row.value for row in done.rows] == ["2 in [images 1 to 2]", None, None, None]
    problems = [str(row.error) for row in done.rows[1:]]
    assert "has 3 pages, so there is none of those that are named: 4 to 4" in problems[0]
    assert "none of those that are named: 3 to 2" in problems[1]
    assert "lies outside of" in problems[2]


def test_a_pdf_with_more_pages_than_a_row_takes_is_refused_before_it_is_asked(api: MessagesApi, files: Path) -> None:
    (files / "long.pdf").write_bytes(pdf(*["red"] * 21))
    assert "is a PDF of 21 pages, and a row takes 20" in str(agent.map("{item}", [Path("long.pdf")]).rows[0].error)
    assert api.requests == []
    assert list(agent.map("{item}", [Path("long.pdf#page=2-21")])) == ["20 in [images 1 to 20]"]


def test_pages_are_drawn_no_larger_than_they_are_sent_and_counted_as_that(api: MessagesApi, files: Path) -> None:
    (files / "poster.pdf").write_bytes(pdf("red", size=(40, 4000)))
    estimate = agent.map("{item}", [Path("poster.pdf")], estimate=True)
    agent.map("{item}", [Path("poster.pdf")])
    with Image.open(io.BytesIO(shown(api.requests[0].body)[1][0])) as sent:
        assert max(sent.size) == 1568
    assert estimate.estimate is not None
    assert estimate.estimate.images == 1


def test_a_pdf_that_takes_all_memory_is_the_error_of_its_row(api: MessagesApi, files: Path) -> None:
    (files / "bomb.pdf").write_bytes(bomb())
    (files / "report.pdf").write_bytes(pdf("red"))
    done = agent.map("{item}", [Path("bomb.pdf"), Path("report.pdf")])
    assert "is a PDF that cannot be drawn" in str(done.rows[0].error)
    assert done.rows[1].value == "1 in [image 1]"


def bomb() -> bytes:
    """Return a small PDF whose page draws ten forms, each of which draws ten of the next, ten deep."""
    depth, objects = 10, [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"]
    calls = b"/X Do " * 10
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 100 100]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>"
    objects += [page, b"<</Length %d>>stream\n%s\nendstream" % (len(calls), calls)]
    for level in range(depth):
        drawn = calls if level < depth - 1 else b"0 0 1 1 re f " * 50
        inner = b"/Resources<</XObject<</X %d 0 R>>>>" % (6 + level) if level < depth - 1 else b""
        head = b"<</Type/XObject/Subtype/Form/BBox[0 0 100 100]%s/Length %d>>" % (inner, len(drawn))
        objects.append(head + b"stream\n" + drawn + b"\nendstream")
    data, places = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj%s endobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (count, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (count, table, trailer)


def test_pages_are_other_rows_for_a_journal(api: MessagesApi, files: Path) -> None:
    (files / "report.pdf").write_bytes(pdf("red", "red"))
    for page in (1, 2, 1):
        agent.map("{item}", [Path(f"report.pdf#page={page}")], journal="rows.jsonl")
    assert len(api.requests) == 2


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_is_shown_whatever_it_is_given_as(api: MessagesApi, files: Path, kind: str) -> None:
    data = picture("red", kind=kind)
    (files / "image").write_bytes(data)  # its bytes say what it is, not its name
    with Image.open(io.BytesIO(data)) as opened:
        rows = [{"image": each} for each in (Path("image"), files / "image", data, bytearray(data), opened)]
        done = agent.map("What is in {image}?", rows, dedupe=False, parallel=1)
    assert [*done] == ["1 in What is in [image 1]?"] * 5
    assert [shown(request.body)[1] for request in api.requests[:4]] == [[data]] * 4
    assert color_of(shown(api.requests[4].body)[1][0]) == color_of(data)
    kinds = {request.body["messages"][0]["content"][1]["source"]["media_type"] for request in api.requests[:4]}
    assert kinds == {f"image/{kind.lower()}"}
    assert api.refusals == []


def test_images_come_in_the_order_in_which_the_prompt_names_them_and_each_once(api: MessagesApi, files: Path) -> None:
    row = {"a": Path("red.png"), "b": Path("blue.jpg"), "name": "[image 9] {a}"}
    agent.map("{b} or {a}, as {b}? {name}", [row])
    text, images = shown(api.requests[0].body)
    assert text == "[image 1] or [image 2], as [image 1]? [image 9] {a}"
    assert images == [(files / "blue.jpg").read_bytes(), (files / "red.png").read_bytes()]


@pytest.mark.parametrize("as_file", [True, False])
def test_a_large_image_is_scaled_as_everywhere(api: MessagesApi, files: Path, as_file: bool) -> None:
    (files / "large.jpg").write_bytes(picture("blue", (4000, 1000), "JPEG"))
    loaded = Image.new("RGB", (4000, 1000), "blue")
    agent.map("{item}", [Path("large.jpg") if as_file else loaded])
    (image,) = shown(api.requests[0].body)[1]
    with Image.open(io.BytesIO(image)) as opened:
        assert opened.size == (1568, 392)
    assert loaded.size == (4000, 1000)


def test_where_images_are_not_scaled_one_that_is_too_large_is_an_error(
    api: MessagesApi, files: Path, home: Path
) -> None:
    settings = home / "agent" / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "images": {"autoResize": False}}))
    long = Image.new("RGB", (9000, 2))
    done = agent.map("{item}", [picture("red", (9000, 2)), long, Image.new("RGB", (2000, 1500), "blue")])
    assert done.failed == [0, 1]
    assert all("too large: 9000 x 2 pixels" in str(row.error) for row in done.rows[:2])
    (image,) = shown(api.requests[0].body)[1]
    with Image.open(io.BytesIO(image)) as opened:
        assert opened.size == (2000, 1500)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "YCbCr", "HSV"])
def test_images_of_every_mode_are_shown(api: MessagesApi, mode: str) -> None:
    done = agent.map("{item}", [Image.new(mode, (3, 3))])
    assert [*done] == ["1 in [image 1]"]


def test_a_photo_is_shown_upright(api: MessagesApi, files: Path) -> None:
    sideways = Image.new("RGB", (40, 20), "blue")
    exif = Image.Exif()
    exif[0x0112] = 6
    sideways.save(files / "photo.jpg", exif=exif)
    with Image.open(files / "photo.jpg") as photo:
        photo.load()
        agent.map("{item}", [photo])
    with Image.open(io.BytesIO(shown(api.requests[0].body)[1][0])) as opened:
        assert opened.size == (20, 40)


def test_the_text_of_a_file_stands_where_its_column_is_named(api: MessagesApi, files: Path) -> None:
    (files / "letter.txt").write_bytes(b"\xef\xbb\xbfDear {name},\n\xc3\xbc")
    done = agent.map("<{letter}>", [{"letter": Path("letter.txt"), "name": "x"}])
    assert [*done] == ["0 in <Dear {name},\nü>"]


def test_a_text_is_no_path_unless_its_column_is_named_as_one(api: MessagesApi, home: Path, files: Path) -> None:
    rows = [{"photo": "red.png"}, {"photo": str(home / "secret.txt")}, {"photo": "../secret.txt"}]
    done = agent.map("{photo}", rows)
    assert [*done] == [f"0 in {row['photo']}" for row in rows]
    assert [*agent.map("{photo}", rows[:1], files=["photo"])] == ["1 in [image 1]"]


def test_a_text_reaches_no_file_outside_of_the_working_directory(api: MessagesApi, home: Path, files: Path) -> None:
    (files / "link.txt").symlink_to(home / "secret.txt")
    (files / "away").symlink_to(home)
    (files / "near.png").symlink_to(files / "red.png")
    (files / "round").symlink_to(files / "round")
    outside = [str(home / "secret.txt"), "../secret.txt", "link.txt", "away/secret.txt", "a/../../secret.txt"]
    others = ["missing.png", "round", "a\0b", "~/secret.txt", "", " ", None, 5]
    inside = ["near.png", str(files / "red.png"), "../work/red.png"]
    rows = [{"photo": each} for each in (*outside, *others, *inside)]
    done = agent.map("{photo}", rows, files=["photo"], dedupe=False)
    assert done.failed == [*range(len(outside) + len(others))]
    for number, row in enumerate(done.rows[: len(outside)]):
        assert "in the column 'photo'" in str(row.error), number
    assert "lies outside of" in str(done.rows[0].error)
    assert "missing.png in the column 'photo' cannot be read (No such file or directory)" in str(done.rows[5].error)
    assert f"Paths begin at {files}" in str(done.rows[5].error)
    assert "holds no path here" in str(done.rows[9].error)
    assert (len(api.requests), "private" in str([request.body for request in api.requests])) == (3, False)


def test_a_program_may_name_any_file_by_its_path(api: MessagesApi, home: Path) -> None:
    done = agent.map("{item}", [home / "work" / ".." / "agent" / "settings.json"])
    assert done[0].startswith('0 in {"defaultModel"')


def test_what_no_model_can_be_shown_is_the_error_of_its_row(api: MessagesApi, files: Path) -> None:
    (files / "data.bin").write_bytes(b"\x00\xff")
    (files / "scan.pdf").write_bytes(b"%PDF-1.7 ...")
    (files / "long.txt").touch()
    os.truncate(files / "long.txt", 5 * 1024 * 1024)
    (files / "huge.png").write_bytes(picture())
    os.truncate(files / "huge.png", 65 * 1024 * 1024)
    (files / "torn.png").write_bytes(picture(size=(300, 300))[:-40])
    (files / "short.png").write_bytes(picture()[:20])
    os.mkfifo(files / "pipe")
    expected = {
        b"\x00\xff": "The column 'item' holds bytes here that are no image",
        b"a text": "decode texts",
        b"%PDF-1.4": "The PDF in the column 'item' is a PDF that cannot be read",
        Path("scan.pdf"): "Repair it or take its password away, or leave the row out",
        Path("short.png#page=1"): "is no PDF, so it has no pages",
        Path("data.bin"): "is neither an image nor a text in UTF-8",
        Path("missing.txt"): "cannot be read (No such file or directory)",
        Path("pipe"): "cannot be read (it is a pipe or device",
        Path(): "cannot be read (Is a directory)",
        Path("long.txt"): "for a text it has more than 4,194,304 bytes",
        Path("huge.png"): "cannot be read (it is larger than 67,108,864 bytes)",
        Path("torn.png"): "cannot be decoded",
        Path("short.png"): "cannot be decoded",
        picture()[:20]: "The image in the column 'item' cannot be decoded",
    }
    done = agent.map("{item}", [*expected, "a text"])
    assert [*done] == [None] * len(expected) + ["0 in a text"]
    for row, sentence in zip(done.rows, expected.values(), strict=False):
        assert sentence in str(row.error)
    assert (len(api.requests), done.cost) == (1, done.rows[-1].cost)


def test_content_within_a_list_is_an_error_and_no_text(api: MessagesApi, files: Path) -> None:
    rows = [[Path("red.png")], [{"p": picture()}], {"x": {"p": Image.new("L", (1, 1))}}]
    done = agent.map("{item}", [{"item": each} for each in rows])
    assert all("Give each a column of its own" in str(row.error) for row in done.rows)
    assert api.requests == []


def test_the_same_words_about_another_image_are_another_row(api: MessagesApi, files: Path) -> None:
    (files / "copy.png").write_bytes((files / "red.png").read_bytes())
    red, blue = Image.new("RGB", (4, 3), "red"), Image.new("RGB", (4, 3), "blue")
    rows = [Path("red.png"), picture("blue"), files / "copy.png", picture("red"), red, blue, red.copy(), "[image 1]"]
    done = agent.map("{item}", rows)
    assert len(api.requests) == 5  # two files, two images of Pillow's, and the text
    assert done.failed == []
    palette = Image.new("P", (1, 1))
    palette.putpalette([255, 0, 0])
    other = palette.copy()
    other.putpalette([0, 0, 255])
    agent.map("{item}", [palette, other])
    assert len(api.requests) == 7


def test_a_journal_finds_a_row_by_what_its_files_hold(api: MessagesApi, files: Path, tmp_path: Path) -> None:
    (files / "note.txt").write_text("first")
    rows = [{"photo": Path("red.png"), "note": Path("note.txt")}, {"photo": Path("blue.jpg"), "note": Path("note.txt")}]
    journal = tmp_path / "journal.jsonl"
    first = agent.map("{photo} {note}", rows, journal=journal)
    (files / "moved.png").write_bytes((files / "red.png").read_bytes())
    again = agent.map("{photo} {note}", [{**rows[0], "photo": Path("moved.png")}, rows[1]], journal=journal)
    assert (len(api.requests), again.cost) == (2, first.cost)
    assert [answer.value for _, answer in agent.stream("{photo} {note}", rows, journal=journal)] == [*first]
    assert len(api.requests) == 2
    (files / "red.png").write_bytes(picture("green"))
    agent.map("{photo} {note}", rows, journal=journal)
    assert len(api.requests) == 3
    (files / "note.txt").write_text("other")
    assert [*agent.map("{photo} {note}", rows, journal=journal)] == ["1 in [image 1] other"] * 2
    assert len(api.requests) == 5


def test_a_file_that_changes_meanwhile_is_not_asked_as_what_it_was(api: MessagesApi, files: Path) -> None:
    (files / "b.txt").write_text("before")

    def answer(request: Recorded) -> Reply:
        (files / "b.txt").write_text("after")
        return Reply("ok")

    api.default = answer  # type: ignore[assignment]
    done = agent.map("{item}", ["a", Path("b.txt")], parallel=1)
    assert (done[0], done.failed) == ("ok", [1])
    assert "has changed since it was looked at" in str(done.rows[1].error)
    assert [*done.retry()] == ["ok", "ok"]
    assert shown(api.requests[-1].body)[0] == "after"


def test_files_are_not_kept_until_their_row_is_asked(files: Path) -> None:
    for number in range(30):
        (files / f"{number}.txt").write_text(f"{number}" * 1_000_000)
    asked = asked_of([Path(f"{number}.txt") for number in range(30)])
    tracemalloc.start()
    try:
        prompts = prompts_of(asked, lambda: False)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len({*prompts}) == 30
    assert kept < 200_000
    assert most < 12_000_000  # a few copies of one


def test_an_image_that_pillow_has_opened_is_read_from_its_file(api: MessagesApi, files: Path) -> None:
    with Image.open(files / "blue.jpg") as opened:
        agent.map("{item}", [opened])
        assert opened.tile  # which a loaded image has no more
    assert shown(api.requests[0].body)[1] == [(files / "blue.jpg").read_bytes()]
    with Image.open(files / "blue.jpg") as changed:
        changed.paste("red", (0, 0, 4, 3))
        agent.map("{item}", [changed])
    assert color_of(shown(api.requests[1].body)[1][0])[0] > 10


def test_an_image_that_cannot_be_loaded_is_the_error_of_its_row(api: MessagesApi) -> None:
    with Image.open(io.BytesIO(picture(size=(300, 300))[:-40])) as torn:
        done = agent.map("{item}", [torn, "a text"])
    assert "The image in the column 'item' cannot be loaded" in str(done.rows[0].error)
    assert done[1] == "0 in a text"


def test_a_file_whose_name_is_no_text_is_read(api: MessagesApi, files: Path) -> None:
    named = Path(os.fsdecode(b"\xff.png"))
    (files / named).write_bytes(picture())
    done = agent.map("{item}", [named, Path(os.fsdecode(b"\xfe.png"))])
    assert (done[0], done.failed) == ("1 in [image 1]", [1])
    assert done.records[0]["item"] == "\ufffd.png"
    assert "\ufffd.png in the column 'item' cannot be read" in str(done.rows[1].error)


def test_after_a_stop_no_more_files_are_read(api: MessagesApi, files: Path, tmp_path: Path) -> None:
    agent.map("{item}", [Path("red.png")], journal=tmp_path / "journal")
    asking = Map([], asked_of([Path("missing.txt"), Path("red.png")], journal=tmp_path / "journal"))
    asking.interrupt()
    done = interrupted(lambda: asking.here(Reporter()))
    assert [row.error for row in done.rows] == [None, None]
    assert (done.problems, len(api.requests)) == ((), 1)  # it does not say that the journal is about something else


def test_whoever_cancels_while_files_are_read_waits_for_no_more_of_them(api: MessagesApi) -> None:
    read: list[int] = []
    ended = threading.Event()

    class Slow(Image.Image):
        """An image that is looked at until the call has ended."""

        def tobytes(self, *_: Any) -> bytes:
            read.append(1)
            loop.call_soon_threadsafe(task.cancel)
            assert ended.wait(60)
            return b"pixels"

    async def cancelled() -> None:
        nonlocal loop, task
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(agent.map_async("{item}", [Slow(), Slow(), Slow()]))
        task.add_done_callback(lambda _: ended.set())
        with pytest.raises(asyncio.CancelledError):
            await task

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[Any]
    asyncio.run(cancelled())
    assert (read, api.requests) == ([1], [])


def test_an_estimate_counts_images_and_the_texts_of_files(api: MessagesApi, files: Path) -> None:
    (files / "large.png").write_bytes(picture(size=(3000, 3000)))  # of which 1.15 million pixels are sent
    (files / "long.txt").write_text("x" * 4000)
    bare = agent.map("{a} {b}", [{"a": "x", "b": "y"}], estimate=True).estimate
    rows = [{"a": Path("large.png"), "b": picture(size=(750, 2))}, {"a": Path("long.txt"), "b": "y"}]
    known = agent.map("{a} {b}", rows, estimate=True).estimate
    assert bare is not None
    assert known is not None
    assert (known.rows, known.images, bare.images) == (2, 2, 0)
    assert known.tokens - 2 * bare.tokens == pytest.approx(1_150_000 / 750 + 2 + 1000, rel=0.01)
    assert str(known).startswith("2 rows with 2 images to ask, about ")
    assert api.requests == []


def test_a_model_that_takes_no_images_is_not_asked(api: MessagesApi, home: Path) -> None:
    blind = {"providers": {"anthropic": {"modelOverrides": {"claude-haiku-4-5": {"input": ["text"]}}}}}
    (home / "agent" / "models.json").write_text(json.dumps(blind))
    done = agent.map("{item}", [picture(), "a text"])
    assert done.rows[0].error == "Claude Haiku 4.5 takes no images. Name a model that does."
    assert (done[1], len(api.requests)) == ("0 in a text", 1)


def test_an_image_that_the_server_refuses_is_never_left_out(api: MessagesApi) -> None:
    def answer(request: Recorded) -> Reply | HttpError:
        refused = shown(request.body)[1] == [picture("green")]
        why = "messages.0.content.1.image.source.base64: Could not process image"
        return HttpError(400, "invalid_request_error", why) if refused else Reply("ok")

    api.default = answer  # type: ignore[assignment]
    done = agent.map("{item}", [picture("green"), picture("red")])
    assert done.failed == [0]
    count = len(api.requests)
    again = done.retry()
    assert "was refused by the server" in str(again.rows[0].error)
    assert len(api.requests) == count


def test_what_all_prompts_begin_with_still_comes_first_and_is_marked(api: MessagesApi) -> None:
    codebook = "Sort by these rules. " * 300
    agent.map(f"{codebook}{{item}}", [picture("red"), picture("blue")])
    for request in api.requests:
        first, own, image = request.body["messages"][0]["content"]
        assert (first["text"], first["cache_control"]) == (codebook, {"type": "ephemeral"})
        assert (own["text"], image["type"]) == ("[image 1]", "image")


def test_rows_with_tools_see_their_images_too(api: MessagesApi) -> None:
    api.default = lambda request: (  # type: ignore[assignment]
        Reply(ToolUse("shout", {"text": "a"})) if len(request.body["messages"]) == 1 else Reply(request.texts[0])
    )

    @agent.tool
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    assert [*agent.map("{item}", [picture()], tools=["shout"])] == ["A"]
    assert [len(shown(request.body)[1]) for request in api.requests] == [1, 1]


def test_both_models_of_a_cascade_see_the_image(api: MessagesApi) -> None:
    api.default = lambda request: (  # type: ignore[assignment]
        Reply("usual")
        if request.body["model"] != "claude-haiku-4-5"
        else Reply(ToolUse("answer", {"answer": "cheap", "probability": 0.1}))
    )
    done = agent.map("{item}", [picture()], model="claude-sonnet-4-5", cheap="claude-haiku-4-5")
    assert [*done] == ["usual"]
    assert [shown(request.body)[1] for request in api.requests] == [[picture()]] * 2


def test_a_batch_has_images(api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indus_nb.fanout.batches._FIRST_POLL_SECONDS", 0.02)
    with BatchesApi(lambda body: Reply(f"{len(shown(body)[1])} in {shown(body)[0]}")) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        done = agent.map("{item}", [picture("red"), picture("blue"), "text"], batch=True)
        assert [*done] == ["1 in [image 1]", "1 in [image 1]", "0 in text"]
        assert [len(batch.requests) for batch in server.batches] == [3]


def test_a_batch_with_images_keeps_fewer_rows_in_memory(api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indus_nb.fanout.batches._FIRST_POLL_SECONDS", 0.02)
    with BatchesApi(lambda _: Reply("ok")) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        agent.map("{item}", [picture(), *range(450)], batch=True, sessions=False)
        assert max(len(batch.requests) for batch in server.batches) == 400


def test_a_stream_reads_images_as_they_come(api: MessagesApi, files: Path, tmp_path: Path) -> None:
    rows = [Path("red.png"), Path("missing.png"), picture("blue"), "red.png"]
    done = [answer for _, answer in agent.stream("{item}", iter(rows), parallel=2)]
    assert [answer.value for answer in done] == ["1 in [image 1]", None, "1 in [image 1]", "0 in red.png"]
    assert "No such file" in str(done[1].error)
    named = agent.stream("{item}", iter(["red.png", "blue.jpg"]), files=["item"], journal=tmp_path / "journal")
    assert [(row["item"], answer.value) for row, answer in named] == [
        ("red.png", "1 in [image 1]"),
        ("blue.jpg", "1 in [image 1]"),
    ]


def test_tables_of_answers_name_what_was_shown(api: MessagesApi) -> None:
    frame = pd.DataFrame({"a": [picture()], "b": [Path("red.png")], "c": [Image.new("L", (5, 2))]})
    done = agent.map("one", frame, sessions=False)
    record = done.records[0]
    assert record["a"] == f"<image/png, {len(picture())} bytes>"
    assert (record["b"], record["c"]) == ("red.png", "<image, 5 x 2 pixels>")
    assert done.frame["a"][0] == picture()
    assert "&lt;image/png" in done._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_the_session_of_a_row_holds_its_image(api: MessagesApi) -> None:
    done = agent.map("{item}", [picture()])
    with open_session(SessionOptions(session=done.rows[0].session)) as session:
        session.run("and now?")
    assert shown(api.requests[-1].body) == ("[image 1]", [picture()])


@pytest.mark.parametrize(
    ("files", "sentence"),
    [("photo", r"files is a list of columns: \['photo'\]"), (["text"], "files has 'text', which is no column that")],
)
def test_columns_of_files_are_ones_that_the_prompt_names(api: MessagesApi, files: Any, sentence: str) -> None:
    for ask in (agent.map, agent.stream):
        with pytest.raises(UsageError, match=sentence):
            ask("{photo}", [{"photo": "a", "text": "b"}], files=files)


def test_an_answer_stays_when_its_file_is_gone_by_the_time_of_a_retry(api: MessagesApi, files: Path) -> None:
    done = agent.map("{photo}", [{"photo": "red.png"}, {"photo": "later.png"}], files=["photo"])
    assert done.failed == [1]
    (files / "red.png").rename(files / "later.png")
    again = done.retry()
    assert (again.failed, again[0], len(api.requests)) == ([], done[0], 2)


def test_a_text_reaches_no_file_that_is_there_to_keep_secrets(api: MessagesApi, files: Path) -> None:
    (files / ".ssh").mkdir()
    (files / ".ssh" / "id_rsa").write_text("a private key")
    done = agent.map("{item}", [".ssh/id_rsa"], files=["item"])
    assert "is by its name there to keep secrets" in str(done.rows[0].error)
    assert api.requests == []


def test_each_frame_of_an_animation_is_a_picture_of_its_own(api: MessagesApi, files: Path) -> None:
    frames = [Image.new("RGB", (4, 3), color) for color in ("red", "blue")]
    frames[0].save(files / "a.gif", save_all=True, append_images=frames[1:])
    with Image.open(files / "a.gif") as opened:
        agent.map("{p}", ({"p": frame} for frame in ImageSequence.Iterator(opened)), parallel=1)
    assert [color_of(shown(request.body)[1][0]) for request in api.requests] == [(16, 0, 0), (0, 0, 16)]
