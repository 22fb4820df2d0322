"""Errors about parts of a request, in the words of the caller's arguments: ``response``, not ``response_format``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from antiphon.errors import ContextError, EngineError, RequestError, UnsupportedError

FORMAT = re.compile(r"response_format(?:\.json_schema(?:\.schema)?)?(?P<inner>[\w.$\[\]]*)")
TOOL = re.compile(r"tools\[(?P<index>\d+)\](?P<function>\.function)?")
STEPS = re.compile(r"\.(?:properties|\$defs)(?=\.)")
"""Steps of a schema's path that are none of the type's."""


@dataclass(frozen=True, slots=True)
class ChatNames:
    """How a chat's arguments are named. ``response`` and ``typed``: there is one, and it is a type, not a schema.

    ``earlier_tools`` came with the messages, before those of ``tools``; ``written`` are those that are dictionaries.
    ``body``: the messages are the body of a chat request, whose own names stay.
    """

    body: bool = False
    response: bool = False
    typed: bool = False
    earlier_tools: int = 0
    written: frozenset[int] = frozenset()

    def place(self, text: str) -> str:
        """A path, or a message with paths in it."""
        return TOOL.sub(self._tool, FORMAT.sub(self._format, text))

    def hint(self, error: RequestError) -> str | None:
        if self.response and isinstance(error, UnsupportedError) and error.code == "invalid_schema":
            return "Leave it out, and check the value yourself."
        return error.hint

    def _format(self, found: re.Match[str]) -> str:
        if self.response:
            return "response" + (STEPS.sub("", found["inner"]) if self.typed else found["inner"])
        return found[0] if self.body else f"messages.{found[0]}"

    def _tool(self, found: re.Match[str]) -> str:
        index = int(found["index"]) - self.earlier_tools
        if index >= 0:
            return f"tools[{index}]" + (".function" if found["function"] and index in self.written else "")
        return found[0] if self.body else f"messages.tools[{found['index']}]"


@dataclass(frozen=True, slots=True)
class EmbedNames:
    """How the arguments of `embed` are named."""

    def place(self, text: str) -> str:
        return re.sub(r"^input\b", "texts", text)

    def hint(self, error: RequestError) -> str | None:
        if isinstance(error, ContextError):
            return "Give a shorter text."
        if error.param == "model":
            return 'Open one that does: antiphon.open_model("minilm").'
        return error.hint


@contextmanager
def named(names: ChatNames | EmbedNames) -> Iterator[None]:
    """Errors that are raised inside, with the names of arguments."""
    try:
        yield
    except RequestError as error:
        message, hint = names.place(error.message), names.hint(error)
        position = error.position and replace(error.position, path=names.place(error.position.path or "") or None)
        raise type(error)(message, code=error.code, position=position, hint=hint) from error.__cause__
    except EngineError as error:
        error.message = names.place(error.message)
        error.args = (error.message,)
        raise
