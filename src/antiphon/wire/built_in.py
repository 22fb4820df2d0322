"""Calls of the browser and of ``python``, in whichever way a model addresses them."""

from __future__ import annotations

from typing import Literal

import msgspec

from antiphon.conversation import FUNCTIONS
from antiphon.errors import RequestError

from .errors import refused

BuiltInName = Literal["browser", "python"]
DOMAINS = "pages are not searched by their domain."
"""Why a search within domains, or without some, is refused."""


class BuiltIn(msgspec.Struct, frozen=True):
    """A tool that stands behind a recipient: ``function`` of the browser, empty for ``python``.

    ``wrapped``: it is called as a function, so code comes as an argument.
    """

    name: BuiltInName
    function: str = ""
    wrapped: bool = False

    @property
    def recipient(self) -> str:
        if self.wrapped:
            return f"{FUNCTIONS}.{self.name}__{self.function or 'exec'}"
        return f"{self.name}.{self.function}" if self.function else self.name


def built_in(recipient: str) -> BuiltIn | None:
    """What ``browser.search``, ``functions.browser__search``, ``python`` … call; None for another tool."""
    name = recipient.removeprefix(f"{FUNCTIONS}.")
    wrapped = name != recipient
    label, _, function = name.partition("__" if wrapped else ".")
    match label:
        case "browser" if function:
            return BuiltIn("browser", function, wrapped)
        case "python":
            return BuiltIn("python", "", wrapped)
        case _:
            return None


def impossible(path: str, message: str, hint: str | None = None) -> RequestError:
    """The error for a setting of a tool that cannot be honoured here."""
    return refused(path, message, code="unsupported_parameter", hint=hint)
