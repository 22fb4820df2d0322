"""The tools of a server, small: a browser over one page, a ``python`` that counts, a function of an MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.conversation import PYTHON, JsonSchema, ToolNamespace, ToolSpec
from antiphon.tools import FunctionToolSet, Toolbox, ToolCall, ToolOutput
from antiphon.tools.browser import Browser, Corpus


class CountingPython:
    """A tool called ``python`` that answers with the code's length: no sandbox is needed to see its events."""

    recipient = "python"
    parameters: JsonSchema | None = None

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        return ToolOutput(content=f"{len(call.body)} characters", plain=True)


@dataclass
class PythonSet:
    tools: tuple[CountingPython, ...] = (CountingPython(),)
    specs: tuple[ToolSpec, ...] = ()
    builtins: tuple[ToolNamespace, ...] = (PYTHON,)

    async def aclose(self) -> None:
        pass


def docs__size(page: str) -> int:
    """The size of a page.

    Args:
        page: its name.
    """
    if page == "missing":
        raise ValueError("no such page")
    return len(page)


def server_toolbox(tmp_path: Path) -> Toolbox:
    """What a server has: the browser over a folder, ``python``, and a function of the MCP server ``docs``."""
    (tmp_path / "bern.md").write_text("# Bern\n\nThe capital of Switzerland has bears.\n")
    return Toolbox([Browser(Corpus(tmp_path)), PythonSet(), FunctionToolSet([docs__size])])
