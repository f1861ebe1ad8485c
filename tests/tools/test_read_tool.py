"""``read``: text by lines, and images."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from indus_nb.base.events import ToolOutput
from indus_nb.tools import ToolContext, ToolError, builtin_tools


async def read(cwd: Path, path: str = "a.txt", *, auto_resize_images: bool = True, **arguments: Any) -> ToolOutput:
    tool = builtin_tools(cwd, auto_resize_images=auto_resize_images)["read"]
    return await tool.execute(tool.check({"path": path, **arguments}), ToolContext("1", lambda _: None))


async def text(cwd: Path, path: str = "a.txt", **arguments: Any) -> str:
    return (await read(cwd, path, **arguments)).content[0].text


async def failure(cwd: Path, path: str = "a.txt", **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await read(cwd, path, **arguments)
    return str(caught.value)


def numbered(first: int, last: int) -> str:
    return "".join(f"line {number}\n" for number in range(first, last + 1))


@pytest.mark.parametrize("content", ["one\ntwo\n", "one\ntwo", "\n", "one\r\ntwo\r\n"])
async def test_a_short_file_is_shown_as_it_is(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.txt").write_bytes(content.encode())
    output = await read(tmp_path)
    assert output.content[0].text == content
    assert output.details is None


async def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert await text(tmp_path) == "(empty file)"


async def test_bytes_that_are_no_text_and_a_byte_order_mark_do_not_show(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfa\xff\xc3\n")
    assert await text(tmp_path) == "a\ufffd\ufffd\n"


async def test_2000_lines_are_shown_and_where_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(numbered(1, 4500))
    output = await read(tmp_path)
    assert output.content[0].text == numbered(1, 2000) + "\n[Lines 1-2000 of 4500. Continue with offset=2001]"
    truncation = output.details["truncation"]
    assert (truncation["truncatedBy"], truncation["totalLines"], truncation["outputLines"]) == ("lines", 4500, 2000)
    assert truncation["totalBytes"] == (tmp_path / "a.txt").stat().st_size
    assert await text(tmp_path, offset=2001) == numbered(2001, 4000) + (
        "\n[Lines 2001-4000 of 4500. Continue with offset=4001]"
    )
    assert await text(tmp_path, offset=4001) == numbered(4001, 4500)


async def test_exactly_2000_lines_need_no_notice(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(numbered(1, 2000))
    assert await text(tmp_path) == numbered(1, 2000)


async def test_50_kb_of_whole_lines_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(("ä" * 499 + "\n") * 100)
    output = await read(tmp_path)
    shown, notice = output.content[0].text.split("\n\n")
    assert shown.split("\n") == ["ä" * 499] * 51
    assert notice == "[Lines 1-51 of 100, cut at 50.0 KB. Continue with offset=52]"
    assert output.details["truncation"]["truncatedBy"] == "bytes"
    assert output.details["truncation"]["outputBytes"] == 51 * 999


async def test_a_limit_of_the_caller_says_how_much_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(numbered(1, 10))
    output = await read(tmp_path, offset=3, limit=2)
    assert output.content[0].text == numbered(3, 4) + "\n[6 more lines in the file. Continue with offset=5]"
    assert output.details is None
    assert await text(tmp_path, offset=9, limit=2) == numbered(9, 10)


async def test_an_offset_beyond_the_end_names_the_total(tmp_path: Path) -> None:
    for content in ("one\ntwo\n", "one\ntwo"):
        (tmp_path / "a.txt").write_text(content)
        assert "offset 3 is beyond the end of a.txt, which has 2 lines" in await failure(tmp_path, offset=3)
        assert (await text(tmp_path, offset=2)).startswith("two")


async def test_a_line_above_the_limit_comes_with_the_command_that_cuts_it(tmp_path: Path) -> None:
    (tmp_path / "it's.txt").write_text("short\n" + "ab" * 2_000_000 + "\nend\n")
    assert await text(tmp_path, "it's.txt") == "short\n\n[Lines 1-1 of 3, cut at 50.0 KB. Continue with offset=2]"
    output = await read(tmp_path, "it's.txt", offset=2)
    notice = output.content[0].text
    assert notice.startswith("[Line 2 has 3.8 MB")
    assert output.details["truncation"]["firstLineExceedsLimit"] is True
    assert output.details["truncation"]["totalLines"] == 3
    command = notice.partition("bash: ")[2].removesuffix("]")
    assert subprocess.run(command, shell=True, capture_output=True, check=True).stdout == b"ab" * 25_600


async def test_a_file_larger_than_memory_should_hold_is_read_piece_by_piece(tmp_path: Path) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.write(b"one\ntwo\n")
        file.truncate(300 << 20)
    import tracemalloc

    tracemalloc.start()
    try:
        shown = await text(tmp_path, limit=2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shown == "one\ntwo\n\n[1 more lines in the file. Continue with offset=3]"
    assert peak < 10 << 20


async def test_what_cannot_be_read_is_explained(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert await failure(tmp_path, "no.txt") == (
        "Could not read no.txt: No such file or directory. Check the path with ls or find."
    )
    assert "It is a folder; ls shows what is in it." in await failure(tmp_path, ".")
    assert "no regular file" in await failure(tmp_path, "pipe")
    assert "no regular file" in await failure(tmp_path, "/dev/zero")


def image(width: int, height: int, kind: str, mode: str = "RGB", *, noise: bool = False) -> bytes:
    picture = Image.frombytes(mode, (width, height), os.urandom(width * height * 3)) if noise else None
    buffer = io.BytesIO()
    (picture or Image.new(mode, (width, height), "red")).save(buffer, kind)
    return buffer.getvalue()


def shown_image(output: ToolOutput) -> tuple[str, Image.Image]:
    block = output.content[1]
    picture = Image.open(io.BytesIO(base64.b64decode(block.data)))
    assert Image.MIME[picture.format] == block.mime_type
    return output.content[0].text, picture


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_an_image_is_known_by_its_content_and_shown_as_it_is(tmp_path: Path, kind: str) -> None:
    data = image(60, 40, kind)
    (tmp_path / "picture.txt").write_bytes(data)
    output = await read(tmp_path, "picture.txt")
    assert output.content[0].text == f"Image picture.txt [image/{kind.lower()}]"
    assert base64.b64decode(output.content[1].data) == data


@pytest.mark.parametrize(
    ("kind", "mode"), [("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "P"), ("JPEG", "CMYK"), ("GIF", "P"), ("WEBP", "RGB")]
)
async def test_a_large_image_is_scaled_and_says_by_how_much(tmp_path: Path, kind: str, mode: str) -> None:
    (tmp_path / "a").write_bytes(image(5000, 1000, kind, "RGB") if mode == "P" else image(5000, 1000, kind, mode))
    note, picture = shown_image(await read(tmp_path, "a"))
    assert picture.size == (1568, 314)
    assert "Shown with 1568 x 314 of 5000 x 1000 pixels. Multiply coordinates by 3.19" in note


@pytest.mark.parametrize(
    "size", [(1568, 700), (1569, 1), (1072, 1072), (1080, 1072), (6000, 4000), (3, 7999), (1600, 1600), (1568, 1568)]
)
async def test_an_image_is_sent_as_large_as_a_model_sees_it_and_scaled_once(tmp_path: Path, size: tuple[int, int]):
    (tmp_path / "a.png").write_bytes(image(*size, "PNG"))
    _, first = shown_image(await read(tmp_path, "a.png"))
    assert max(first.size) <= 1568
    assert first.width * first.height <= 1_151_000
    assert (first.size == size) is (max(size) <= 1568 and size[0] * size[1] <= 1_150_000)
    first.save(tmp_path / "b.png")
    _, second = shown_image(await read(tmp_path, "b.png"))
    assert second.size == first.size


async def test_a_heavy_image_is_made_light_enough(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(image(1600, 1600, "PNG", noise=True))
    output = await read(tmp_path, "a.png")
    assert len(output.content[1].data) <= 4_500_000
    shown_image(output)


async def test_an_image_turned_by_its_camera_is_turned_before_it_is_scaled(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (3000, 1000)).save(tmp_path / "a.jpg", exif=exif)
    note, picture = shown_image(await read(tmp_path, "a.jpg"))
    assert picture.size[1] == 1568
    assert "of 1000 x 3000 pixels" in note


async def test_images_stay_as_they_are_when_resizing_is_off(tmp_path: Path) -> None:
    data = image(3000, 10, "PNG")
    (tmp_path / "a.png").write_bytes(data)
    output = await read(tmp_path, "a.png", auto_resize_images=False)
    assert base64.b64decode(output.content[1].data) == data


async def test_a_broken_or_monstrous_image_is_a_failure_that_the_model_can_read(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(image(3000, 10, "PNG")[:60])
    (tmp_path / "bare.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "bomb.png").write_bytes(image(1, 1, "PNG").replace(b"\0\0\0\x01\0\0\0\x01", b"\0\1\0\0\0\1\0\0", 1))
    with (tmp_path / "huge.png").open("wb") as huge:
        huge.write(b"\x89PNG\r\n\x1a\n")
        huge.truncate(65 << 20)
    assert "broken.png looks like image/png but cannot be decoded" in await failure(tmp_path, "broken.png")
    assert "bare.png looks like image/png but cannot be decoded" in await failure(tmp_path, "bare.png")
    assert "Make it smaller with bash first" in await failure(tmp_path, "huge.png")
    assert "bomb.png" in await failure(tmp_path, "bomb.png")


def test_importing_the_tools_does_not_load_pillow() -> None:
    code = "import sys, indus_nb.tools; print([name for name in ('PIL',) if name in sys.modules])"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
