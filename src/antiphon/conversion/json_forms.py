"""Forms that are one JSON value: read and written message by message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from antiphon.conversation import Conversation, Loss, Message
from antiphon.formats.harmony import read_message, write_message
from antiphon.tokens import well_formed

from .detect import Survey, survey
from .form import Written, without_media
from .harmony import as_harmony
from .json_text import entries, temporary

Json = dict[str, Any]


class JsonReader(Protocol):
    """Makes messages of the elements of one list of a JSON text."""

    path: str
    """The name of the list."""
    about: Conversation
    unread: list[Loss]
    """What the text says that no conversation has a place for, since the list was last cleared."""

    def begin(self) -> Sequence[Message]: ...

    def read(self, element: Any, index: int) -> Sequence[Message]:
        """Raises `ParseError` with the path of what is wrong."""

    def end(self) -> Sequence[Message]: ...


class JsonSource:
    """Reads one JSON value, twice, from a temporary file: what a writer needs first may come last in it.

    ``reader`` makes the reader for what `survey` found in the text.
    """

    def __init__(self, reader: Callable[[Survey], JsonReader]) -> None:
        self._reader = reader
        self._file = temporary(self)
        self.about = Conversation()
        self.ready = False
        self.repairs: list[str] = []
        self.unread: list[Loss] = []

    def feed(self, chunk: bytes) -> list[Message]:
        self._file.write(chunk)
        return []

    def close(self) -> Iterator[Message]:
        self._file.seek(0)
        reader = self._reader(survey(entries(self._file)))
        self.about = reader.about
        return self._messages(reader)

    def _messages(self, reader: JsonReader) -> Iterator[Message]:
        self._file.seek(0)
        with self._file as file:
            yield from self._with_unread(reader, reader.begin())
            for key, index, element in entries(file):
                if index is not None and key in (None, reader.path):
                    yield from self._with_unread(reader, reader.read(element, index))
            yield from self._with_unread(reader, reader.end())

    def _with_unread(self, reader: JsonReader, messages: Sequence[Message]) -> Sequence[Message]:
        self.unread += reader.unread
        reader.unread = []
        return messages


def well_formed_json(value: Json) -> Json:
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


class HarmonyJsonReader:
    """Reads the reference's JSON."""

    path = "messages"

    def __init__(self, survey: Survey) -> None:
        survey.require(self.path)
        self.about = Conversation(verbatim=True)
        self.unread = [Loss(key, "not part of a conversation") for key in survey.members if key != self.path]

    def begin(self) -> Sequence[Message]:
        return ()

    def read(self, element: Any, index: int) -> Sequence[Message]:
        return (as_harmony(read_message(element, f"$.messages[{index}]")),)

    def end(self) -> Sequence[Message]:
        return ()


class HarmonyJsonTarget:
    """Writes the reference's JSON, one message a line."""

    def __init__(self) -> None:
        self._list = JsonList("messages")

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        return Written(self._list.opening()), Conversation(verbatim=True)

    def write(self, message: Message) -> list[Written]:
        value = well_formed_json(write_message(without_media(message)))
        return [Written(self._list.element(value), (message,), (as_harmony(read_message(value)),))]

    def close(self, about: Conversation) -> list[Written]:
        return [Written(self._list.closing({}))]
