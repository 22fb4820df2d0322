"""What code writes where its interpreter's replies go: it may cost the interpreter, and it is believed by nobody."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from antiphon.tools.python import Bubblewrap, Cell, SandboxLimits
from antiphon.tools.python.interpreter import HEADER, IMAGE_BYTES, IMAGES, NONCE, UnexpectedReply, read_reply
from kit.waiting import PATIENCE

FIND = """
import os, stat, struct, sys
def pipes():
    for number in range(3, 128):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode): yield number
        except OSError: pass
def write(data):
    for number in pipes():
        if os.get_blocking(number):
            try: os.write(number, data)
            except OSError: pass
def own_nonce():
    frame = sys._getframe()
    while 'request' not in frame.f_locals: frame = frame.f_back
    return bytes.fromhex(frame.f_locals['request']['nonce'])
header = struct.Struct('!16s?QI8I')
def frame(nonce, text, size=None, images=(0,) * 8):
    return header.pack(nonce, True, len(text), len(text) if size is None else size, *images) + text
"""
FORGED = "forged"
WRITES = {
    "a line of JSON": 'write(b\'{"ok": true, "text": "forged", "bytes": 6, "images": []}\\n\')',
    "two lines of JSON": 'write(b\'{"ok": true, "text": "forged", "bytes": 6, "images": []}\\n\' * 2)',
    "brackets": "write(b'[' * 60_000 + b'\\n')",
    "one byte": "write(b'x')",
    "a few bytes": "write(b'\\xff\\xfe\\x00')",
    "half a header": "write(frame(os.urandom(16), b'')[:30])",
    "NUL": "write(bytes(5000))",
    "a frame without the nonce": "write(frame(os.urandom(16), b'forged'))",
    "its own reply": "write(frame(own_nonce(), b'forged'))",
    "its own reply twice": "write(frame(own_nonce(), b'forged') * 2)",
    "a reply that is not UTF-8": "write(frame(own_nonce(), b'\\xff\\xff forged'))",
    "a text without end": "write(frame(own_nonce(), b'', size=2 ** 32 - 1))",
    "images without end": "write(frame(own_nonce(), b'', images=(2 ** 32 - 1,) * 8))",
    "a flood": "import itertools\nfor _ in range(1000): write(bytes(60_000))",
    "a flood behind its own reply": "write(frame(own_nonce(), b''))\nfor _ in range(1000): write(bytes(60_000))",
    "a closed pipe": "for number in list(pipes()): os.close(number)",
    "another pipe": "r, w = os.pipe()\nfor number in list(pipes()): number in (r, w) or os.dup2(w, number)",
    "a thread that forges": """
import threading, time
def forge():
    while True:
        write(frame(os.urandom(16), b'forged'))
        time.sleep(0.001)
threading.Thread(target=forge, daemon=True).start()""",
}


@pytest.mark.parametrize("name", WRITES, ids=lambda name: name.replace(" ", "-"))
async def test_what_code_writes_to_the_replies_moves_none_and_raises_nothing(name: str) -> None:
    interpreter = await Bubblewrap(SandboxLimits(seconds=3, output=4096)).start()
    try:
        first = await interpreter.run(FIND + WRITES[name])
        assert isinstance(first, Cell)
        for number in range(3):
            cell = await interpreter.run(f"'cell {number}'") if interpreter.alive else None
            if cell is None or cell.lost:
                break
            assert cell.text == f"'cell {number}'\n", "its own reply or none"
        assert not interpreter.alive, "it was ended for what its code wrote"
        assert cell is None or FORGED not in cell.text
    finally:
        await interpreter.aclose()


@pytest.mark.parametrize("place", range(IMAGES))
async def test_an_image_that_is_too_large_is_refused_before_a_byte_of_it_is_read(place: int) -> None:
    sizes = [0] * IMAGES
    sizes[place] = IMAGE_BYTES + 1
    stream = asyncio.StreamReader()
    stream.feed_data(HEADER.pack(b"n" * NONCE, True, 0, 0, *sizes))
    with pytest.raises(UnexpectedReply):  # while the pipe is open: it waits for nothing
        await asyncio.wait_for(read_reply(stream, b"n" * NONCE, 100), PATIENCE)


async def test_a_flood_costs_the_server_little_memory() -> None:
    interpreter = await Bubblewrap(SandboxLimits(seconds=30)).start()
    tracemalloc.start()
    try:
        flood = "\nfor _ in range(2000): write(frame(own_nonce(), b'', images=(2_000_000,) * 8) + bytes(60_000))"
        await interpreter.run(FIND + flood)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20, "one reply of the largest size, and not what was written"
    finally:
        tracemalloc.stop()
        await interpreter.aclose()


async def test_the_result_says_that_the_code_wrote_there() -> None:
    interpreter = await Bubblewrap(SandboxLimits(seconds=30)).start()
    cell = await interpreter.run(FIND + "write(frame(os.urandom(16), b'forged'))")
    assert cell.lost is not None
    assert "wrote to the descriptor of its replies" in cell.lost


TEXTS = {
    "a lone surrogate": "\ud800",
    "NUL": "\0",
    "2 MB": "x" * 2_000_000,
    "many brackets": "(" * 100_000,
    "a long sum": "1 +" * 100_000 + "1",
}


@pytest.mark.parametrize("name", TEXTS, ids=lambda name: name.replace(" ", "-"))
async def test_any_text_is_a_cell(name: str) -> None:
    text = TEXTS[name]
    interpreter = await Bubblewrap(SandboxLimits(seconds=60)).start()
    assert isinstance(await interpreter.run(f"'''{text}'''"), Cell)
    if interpreter.alive:
        assert isinstance(await interpreter.run(text), Cell)
    await interpreter.aclose()


async def test_bytes_that_are_not_utf_8_are_cut_where_the_limit_is() -> None:
    interpreter = await Bubblewrap(SandboxLimits(seconds=30, output=100)).start()
    cell = await interpreter.run("import os; os.write(1, b'\\xff' * 1000); None")
    assert cell == Cell(True, "\ufffd" * 100, 1000)
    await interpreter.aclose()
