"""A JSON text of any length, read value by value: a long list at the top is never whole in memory.

The values and the errors are those of `json.loads`, lone surrogates and numbers too, which the libraries for long
JSON texts read otherwise; and an error has its line and column.
"""

from __future__ import annotations

import codecs
import json
import tempfile
import weakref
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from antiphon.conversation import Message
from antiphon.conversation.json import FullMessageJson, full_message_json, message_of
from antiphon.errors import ParseError, json_words, utf8_words
from antiphon.errors.place import Place
from antiphon.structs import ready

# Buffers what must wait for the end of an input: in memory, and in a temporary file when it is long.

IN_MEMORY = 1 << 20
"""Bytes that stay in memory; more go to a temporary file."""


def temporary(owner: object) -> IO[bytes]:
    """A file that is closed, and gone, when its owner is."""
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - it lives as long as its owner
    weakref.finalize(owner, file.close)
    return file


class Spool:
    """Takes messages of texts and media, and gives them back once, in order; their OpenChatML spelling is lost."""

    def __init__(self) -> None:
        self._file = temporary(self)

    def add(self, message: Message) -> None:
        # JSON in ASCII has a spelling for every text, lone surrogates too.
        self._file.write(json.dumps(msgspec.to_builtins(full_message_json(message))).encode() + b"\n")

    def take(self) -> Iterator[Message]:
        self._file.seek(0)
        with self._file as file:
            for line in file:
                yield message_of(msgspec.convert(json.loads(line), ready(FullMessageJson)))


class Repeated(dict[str, Any]):
    """An object that has a key more than once in the text. The last value counts; ``before`` are the others.

    It equals no other value, so that a comparison with a copy looks into it.
    """

    before: tuple[tuple[str, Any], ...] = ()
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return False


def json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members."""
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeated, last = Repeated(value), {key: i for i, (key, _) in enumerate(pairs)}
    repeated.before = tuple(pair for i, pair in enumerate(pairs) if last[pair[0]] != i)
    return repeated


LONG = ("messages", "input", "output", "conversations")
"""The members whose lists are read element by element."""
CHUNK = 1 << 16
LONGEST_WORD = 16
"""An error so close to the end of what was read may be a word, a number or an escape that is cut there."""
LONGEST_CUT = 2
"""So much of a number may follow what reads as one: ``1e+`` reads as 1 until its next digit comes."""

Entry = tuple[str | None, int | None, Any]
"""A member of the object at the top, or with its index an element of its list; a value at the top itself has no key."""


def entries(file: IO[bytes]) -> Iterator[Entry]:
    """Yields the text's entries, in its order. Raises `ParseError` with the place of what is no JSON."""
    text = JsonText(file)
    match text.peek():
        case "[":
            yield from _elements(text, None)
        case "{":
            yield from _members(text)
        case _:
            yield None, None, text.value()
    if text.peek():
        raise text.error("Extra data")


def _members(text: JsonText) -> Iterator[Entry]:
    text.take("{", "Expecting value")
    while text.peek() != "}":
        if text.peek() != '"':
            raise text.error("Expecting property name enclosed in double quotes")
        key = text.value()
        text.take(":", "Expecting ':' delimiter")
        if key in LONG and text.peek() == "[":
            yield from _elements(text, key)
        else:
            yield key, None, text.value()
        if text.peek() != "}":
            text.take(",", "Expecting ',' delimiter")
            if text.peek() == "}":
                raise text.error("Expecting property name enclosed in double quotes")
    text.take("}", "")


def _elements(text: JsonText, key: str | None) -> Iterator[Entry]:
    """The elements of a list; an empty list is yielded whole."""
    text.take("[", "Expecting value")
    index = 0
    while text.peek() != "]":
        yield key, index, text.value()
        index += 1
        if text.peek() != "]":
            text.take(",", "Expecting ',' delimiter")
            if text.peek() == "]":
                raise text.error("Expecting value")
    text.take("]", "")
    if not index:
        yield key, None, []


class JsonText:
    """The unread rest of the text; more comes from ``file`` as it is needed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")("surrogatepass")
        self._decoder = json.JSONDecoder(object_pairs_hook=json_object)
        self._text = ""
        self._at = 0
        self._place = Place()
        self._over = False

    def peek(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            rest = self._text[self._at : self._at + 1]
            if rest and rest not in " \t\r\n":
                return rest
            if rest:
                self._at += 1
            elif self._over:
                return ""
            else:
                self._more(CHUNK)

    def take(self, character: str, problem: str) -> None:
        if self.peek() != character:
            raise self.error(problem)
        self._at += 1

    def value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - LONGEST_WORD
                if self._over or not cut:
                    raise self.error(json_words(error), error.pos) from None
            except RecursionError as error:
                raise ParseError(f"not readable as JSON: {error}", code="not_json") from None
            else:
                if self._over or end + LONGEST_CUT < len(self._text):
                    self._at = end
                    return value
            # As much again as there is, so that a long value is not tried over and over.
            self._more(max(CHUNK, len(self._text) - self._at))

    def error(self, problem: str, at: int | None = None) -> ParseError:
        place = self._place.after(self._text[: self._at if at is None else at])
        return ParseError(f"not JSON: {problem}", code="not_json", position=place.position())

    def _more(self, size: int) -> None:
        self._place.pass_over(self._text[: self._at])
        data = self._file.read(size)
        self._over = not data
        try:
            self._text = self._text[self._at :] + self._utf8.decode(data, self._over)
        except UnicodeDecodeError as error:
            place = self._place.after(self._text[self._at :] + error.object[: error.start].decode())
            raise ParseError(f"not JSON: {utf8_words(error)}", code="not_json", position=place.position()) from None
        self._at = 0
