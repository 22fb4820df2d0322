"""Where pages come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from antiphon.tools.call import ToolError
from antiphon.tools.tool import ToolFailure

from .page import Page


class Hit(msgspec.Struct, frozen=True):
    """One search result."""

    url: str
    title: str
    snippet: str = ""


class Backend(Protocol):
    """Pages by address and by search. Errors are `ToolFailure`s, which the model reads."""

    async def search(self, query: str, topn: int) -> Sequence[Hit]: ...

    async def open(self, url: str) -> Page: ...

    async def aclose(self) -> None: ...


def refused(message: str, **details: object) -> ToolFailure:
    """A page that will not be opened, whoever asks again."""
    return ToolFailure(ToolError("E-BROWSER-REFUSED", message, details=details))


def unreachable(message: str) -> ToolFailure:
    """A page that could not be opened now."""
    return ToolFailure(ToolError("E-BROWSER-UNREACHABLE", message, retryable=True))
