"""Text of others on a terminal: a model's, a tool's, a server's, a file's. It never moves the cursor, or worse.

All that the commands print for people goes through `tell`; all that they print for programs through `options.as_json`.
"""

from __future__ import annotations

import codecs
import re
import sys
from typing import TextIO

UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Controls of terminals (C0 but tabs and line feeds, C1), halves of characters, and what turns others' direction."""


def safe(text: str) -> str:
    """The text without what moves a terminal's cursor, or shows other text than there is."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def tell(*parts: object, sep: str = " ", end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Prints the parts: safely on a terminal, and elsewhere, where programs read, as they are."""
    stream = sys.stdout if file is None else file
    text = sep.join(map(str, parts)) + end
    print(safe(text) if stream.isatty() else text, end="", file=stream, flush=flush)


class TerminalSink:
    """Bytes of a file that go to a terminal, as a file that is written to."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(self, content: bytes) -> int:
        sys.stdout.write(safe(self._decode(content)))
        return len(content)

    def flush(self) -> None:
        sys.stdout.flush()
