"""Forms that are one JSON value: read whole, written message by message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from antiphon.conversation import Conversation, Message
from antiphon.errors import ParseError, Position
from antiphon.formats.harmony import read_conversation, read_message, write_message
from antiphon.tokens import well_formed

from .codec import Written
from .harmony import as_harmony
from .loss import Loss

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Understood:
    """A JSON value as a conversation, and what of it no conversation holds."""

    conversation: Conversation
    unread: list[Loss] = field(default_factory=list)


class JsonSource:
    """Reads one JSON value. ``understand`` makes a conversation of it."""

    def __init__(self, understand: Callable[[Any], Understood]) -> None:
        self._understand = understand
        self._chunks: list[bytes] = []
        self.about = Conversation()
        self.ready = False
        self.repairs: list[str] = []
        self.unread: list[Loss] = []

    def feed(self, chunk: bytes) -> list[Message]:
        self._chunks.append(chunk)
        return []

    def close(self) -> list[Message]:
        understood = self._understand(loads(b"".join(self._chunks)))
        messages = understood.conversation.messages
        self.about, self.unread = understood.conversation, understood.unread
        return list(messages)


def loads(data: bytes) -> Any:
    """The value. Raises `ParseError` with the place of what is no JSON."""
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        at = Position(error.pos, error.lineno, error.colno)
        raise ParseError(f"not JSON: {error.msg}", code="not_json", position=at) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not readable as JSON: {error}", code="not_json") from None


def mended(value: Json) -> Json:
    """The value with U+FFFD for what is no UTF-8, which JSON cannot carry."""
    text = json.dumps(value, ensure_ascii=False)
    whole = well_formed(text)
    return value if whole == text else json.loads(whole)


class JsonList:
    """The text of a JSON object with one long list, element by element."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._any = False

    def opening(self) -> str:
        return "{" + f'"{self._key}": ['

    def element(self, value: object) -> str:
        separator, self._any = ("," if self._any else ""), True
        return f"{separator}\n{json.dumps(value, ensure_ascii=False)}"

    def closing(self, more: Mapping[str, object]) -> str:
        rest = "".join(f",\n{json.dumps(key)}: {json.dumps(value)}" for key, value in more.items())
        return ("\n" if self._any else "") + f"]{rest}}}\n"


def understand_harmony(value: Any) -> Understood:
    conversation = read_conversation(value)
    return Understood(
        Conversation(tuple(map(as_harmony, conversation.messages)), verbatim=True),
        [Loss(key, "not part of a conversation") for key in value if key != "messages"],
    )


class HarmonyJsonTarget:
    """Writes the reference's JSON, one message a line."""

    def __init__(self) -> None:
        self._list = JsonList("messages")

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        return Written(self._list.opening()), Conversation(verbatim=True)

    def write(self, message: Message) -> list[Written]:
        value = mended(write_message(message))
        return [Written(self._list.element(value), (message,), (as_harmony(read_message(value)),))]

    def close(self, about: Conversation) -> list[Written]:
        return [Written(self._list.closing({}))]


def require_list(value: Any, path: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ParseError(f"{path} is not a list", code="wrong_value", position=Position(path=path))
    return value
