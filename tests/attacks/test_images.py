"""Images made to do harm: more pixels, frames or text than their bytes let expect, other formats, broken parts."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
from PIL import Image
from rpc_process import environment
from waiting import until

from indus_nb.base import images
from indus_nb.base.images import Admission, ImageError, fit
from indus_nb.base.messages import ImageContent
from indus_nb.tools.files.read import read_tool
from indus_nb.tools.tool import ToolContext

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
MB = 1024


def picture(kind: str, size: tuple[int, int] = (8, 6), **how: object) -> bytes:
    """A good image of that kind."""
    buffer = io.BytesIO()
    Image.new("L" if kind == "GIF" else "RGB", size, 7).save(buffer, kind, **how)
    return buffer.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(*more: bytes, size: tuple[int, int] = (8, 6)) -> bytes:
    """A PNG of that size by its header, with more chunks behind the header."""
    data = picture("PNG")
    header = chunk(b"IHDR", struct.pack(">II", *size) + data[24:29])
    return data[:8] + header + b"".join(more) + data[33:]


def jpeg(size: tuple[int, int], **how: object) -> bytes:
    """A JPEG of that size by its header."""
    data = bytearray(picture("JPEG", **how))
    at = data.index(b"\xff\xc2" if how.get("progressive") else b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", size[1], size[0])
    return bytes(data)


def webp(size: tuple[int, int]) -> bytes:
    """A WebP without loss, of that size by its header."""
    data = bytearray(picture("WEBP", lossless=True))
    at = data.index(b"VP8L") + 9
    flags = int.from_bytes(data[at : at + 4], "little") >> 28
    data[at : at + 4] = ((size[0] - 1) | (size[1] - 1) << 14 | flags << 28).to_bytes(4, "little")
    return bytes(data)


def gif(size: tuple[int, int] = (8, 6), frames: int = 1) -> bytes:
    """A GIF of that size by its headers, with its frame over and over."""
    data = picture("GIF")
    start = 13 + (3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0)
    frame = data[start:-1]
    at = frame.index(b"\x2c") + 5
    frame = frame[:at] + struct.pack("<HH", *size) + frame[at + 4 :]
    return data[:6] + struct.pack("<HH", *size) + data[10:start] + frame * frames + b"\x3b"


HUGE = {
    "a PNG": png(size=(100_000, 100_000)),
    "a PNG of the most that a header can say": png(size=(2**31 - 1, 2**31 - 1)),
    "a JPEG": jpeg((60_000, 60_000)),
    "a JPEG in several scans, which are kept however small it is decoded": jpeg((13_000, 13_000), progressive=True),
    "a JPEG so narrow that it is decoded in full": jpeg((27_000, 1_960)),
    "a WebP": webp((16_000, 6_000)),
    "a WebP of fewer pixels, whose decoder keeps several canvases": webp((6_320, 6_320)),
    "a GIF": gif((60_000, 60_000)),
}


@pytest.mark.parametrize("case", HUGE)
def test_an_image_of_too_many_pixels_is_refused_by_its_header(case, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _image: pytest.fail("it was decoded"))
    with pytest.raises(ImageError, match="too large when unpacked"):
        fit(HUGE[case], "It")


@pytest.mark.parametrize("case", HUGE)
async def test_an_image_that_a_session_holds_already_is_refused_by_its_header_too(case):
    held = ImageContent(data=base64.b64encode(HUGE[case]).decode(), mime_type="image/png")
    facts = (await images.inspect([held]))[id(held)]
    assert facts.problem is not None


OTHERS = {
    "PostScript, for which a program would be run": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(x) print\n",
    "PostScript behind a binary header": b"\xc5\xd0\xd3\xc6" + bytes(26) + b"%!PS-Adobe-3.0 EPSF-3.0\n",
    "TIFF": b"II*\0\x08\0\0\0" + bytes(64),
    "PSD": b"8BPS\0\1" + bytes(64),
    "BMP": b"BM" + bytes(64),
    "ICO": b"\0\0\1\0\1\0" + bytes(64),
    "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='http://127.0.0.1:9/'/></svg>",
    "JPEG 2000": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(64),
    "AVIF": b"\0\0\0\x1cftypavif" + bytes(64),
    "PDF": b"%PDF-1.7\n" + bytes(64),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_none_of_four_formats_is_given_to_no_decoder(case, monkeypatch):
    monkeypatch.setattr(images, "_opened", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(ImageError, match="holds no image"):
        fit(OTHERS[case], "It")


@pytest.mark.parametrize("kind", FORMATS)
def test_the_first_bytes_alone_choose_the_decoder(kind):
    beginning = picture(kind)[:12]
    with pytest.raises(ImageError, match="cannot be decoded"):
        fit(beginning + OTHERS["PostScript, for which a program would be run"] * 20, "It")


BOMB = zlib.compress(bytes(64 << 20), 9)
TEXTS = {
    "a colour profile": chunk(b"iCCP", b"icc\0\0" + BOMB),
    "text": chunk(b"zTXt", b"Comment\0\0" + BOMB),
    "international text": chunk(b"iTXt", b"Comment\0\1\0\0\0" + BOMB),
    "hundreds of texts": chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(1 << 20), 9)) * 300,
    "EXIF data that refer to themselves": chunk(b"eXIf", b"II*\0\x08\0\0\0\1\0\x69\x87\4\0\1\0\0\0\x08\0\0\0"),
    "a chunk longer than the file": struct.pack(">I", 2**31 - 1) + b"tEXt" + b"x",
}
RSS = """
import resource, sys
from indus_nb.base.images import ImageError, fit
fit({good!r}, "It")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for data in {attacks!r}:
    try:
        fit(data, "It")
    except ImageError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def grown(program: str, home: Path, **values: object) -> int:
    """The kilobytes by which the memory of a process grows that runs a program, which prints them."""
    run = subprocess.run(
        [sys.executable, "-"],
        input=program.format(**values),
        capture_output=True,
        text=True,
        env=environment(home),
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def test_what_is_packed_beside_the_pixels_is_not_unpacked(tmp_path):
    attacks = [png(text) for text in TEXTS.values()]
    assert grown(RSS, tmp_path, good=picture("PNG"), attacks=attacks) < 120 * MB


FRAMES = {
    "GIF": gif(frames=50_000),
    "PNG": png(chunk(b"acTL", struct.pack(">II", 2**31 - 1, 0))),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_only_the_first_of_many_frames_is_decoded(kind, monkeypatch):
    loads: list[int] = []
    open_it = images._opened

    def opened(data: bytes, mime_type: str) -> object:
        image = open_it(data, mime_type)
        monkeypatch.setattr(image, "seek", loads.append)
        return image

    monkeypatch.setattr(images, "_opened", opened)
    assert fit(FRAMES[kind], "It")[0].data
    assert loads == []


@pytest.mark.parametrize("kind", FORMATS)
def test_a_broken_image_is_a_sentence(kind):
    chance = random.Random(kind)
    whole = picture(kind, (64, 48), **({"exif": Image.Exif()} if kind in ("JPEG", "WEBP") else {}))
    broken = [whole[: chance.randrange(12, len(whole))] for _ in range(40)]
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(12, len(data))] = chance.randrange(256)
        broken.append(bytes(data))
    problems: list[str] = []
    for data in broken:
        try:
            fit(data, "It")
        except ImageError as error:
            problems.append(str(error))
    assert problems
    assert all(problem.startswith("It ") for problem in problems)


SIDE_BY_SIDE = """
import asyncio, json, resource
from pathlib import Path
from indus_nb.base.images import fit
from indus_nb.tools.files.read import read_tool
from indus_nb.tools.tool import ToolContext, ToolError

async def read(tool, number):
    try:
        await tool.execute(tool.check({{"path": f"{{number}}"}}), ToolContext(str(number), lambda output: None))
    except ToolError:
        pass

async def main():
    tool = read_tool(Path.cwd(), auto_resize_images=True)
    fit(Path("0").read_bytes(), "It")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await asyncio.gather(*[read(tool, number) for number in range({count})])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

import os
os.chdir({folder!r})
asyncio.run(main())
"""


def test_images_that_are_read_side_by_side_are_decoded_one_at_a_time(tmp_path):
    buffer = io.BytesIO()
    Image.new("P", (6_000, 6_000)).save(buffer, "PNG")
    attacks = [picture("PNG"), *[buffer.getvalue()] * 6, *HUGE.values()]
    for number, data in enumerate(attacks):
        (tmp_path / str(number)).write_bytes(data)
    # One of them takes 350 MB.
    most = grown(SIDE_BY_SIDE, tmp_path, folder=str(tmp_path), count=len(attacks))
    assert most < 800 * MB


@pytest.fixture
def turn_taken():
    """Another image is being decoded."""
    done = threading.Event()
    images._decoder().submit(done.wait)
    yield
    done.set()


async def test_an_abort_does_not_wait_for_the_turn_of_an_image(turn_taken, tmp_path):
    (tmp_path / "a.png").write_bytes(picture("PNG"))
    tool = read_tool(tmp_path, auto_resize_images=True)
    arguments = tool.check({"path": "a.png"})
    reads = [asyncio.create_task(tool.execute(arguments, ToolContext(f"c{n}", lambda _: None))) for n in range(5)]
    data = base64.b64encode(picture("PNG")).decode()
    image = ImageContent(data=data, mime_type="image/png")
    reads += [asyncio.create_task(Admission().admit([image] * 3)), asyncio.create_task(images.inspect([image]))]
    await until(lambda: sum(thread.name.startswith("asyncio") for thread in threading.enumerate()) >= 3)
    for task in reads:
        task.cancel()
    ends = await asyncio.gather(*reads, return_exceptions=True)
    assert {type(end) for end in ends} == {asyncio.CancelledError}


async def test_of_a_servers_result_no_more_images_are_decoded_than_are_shown(monkeypatch):
    from mcp_types import CallToolResult

    from indus_nb.extend.mcp.results import output_of

    data = base64.b64encode(picture("PNG")).decode()
    image = {"type": "image", "data": data, "mimeType": "image/png"}
    result = CallToolResult.model_validate_json(json.dumps({"content": [image] * 500, "isError": False}))
    decoded: list[bytes] = []
    opened = images._opened
    monkeypatch.setattr(images, "_opened", lambda data, kind: decoded.append(data) or opened(data, kind))
    output = output_of(result, "shots", threading.Event())
    assert len(decoded) == sum(block.type == "image" for block in output.content) == 20
    assert "480 of 500 images are left out" in "".join(block.text for block in output.content if block.type == "text")
