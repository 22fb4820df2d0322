"""TypeScript-like types, as §16.2 declares the arguments of tools, → JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 50
Schema = dict[str, Any]

_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*)|(?P<text>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<mark>=>|[{}()\[\]<>|&,;:?=])|(?P<word>[^\s{}()\[\]<>|&,;:?=\"']+)"
)
_KINDS: dict[str, Schema] = {
    **{kind: {"type": kind} for kind in ("string", "number", "integer", "boolean", "null", "object")},
    **{word: {} for word in ("any", "unknown")},
}
_DEFAULT = "default:"


class TypeSyntaxError(ValueError):
    """The text is no type, or one of a kind that is not read."""


@dataclass(frozen=True, slots=True)
class TypeToken:
    """``kind`` is comment, text, mark, word or end; ``new_line``: it is the first of its line."""

    kind: str
    text: str
    new_line: bool


class TypeReader:
    """Reads types of a text from ``at`` on. Comments before a property describe it, as one behind it does."""

    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self._read = at
        self._tokens: list[TypeToken] = []
        self._at = 0
        self._depth = 0

    def peek(self) -> TypeToken:
        while self._at >= len(self._tokens):
            self._tokens.append(self._token())
        return self._tokens[self._at]

    def _token(self) -> TypeToken:
        begin = self._read
        while begin < len(self._text) and self._text[begin].isspace():
            begin += 1
        new_line = "\n" in self._text[self._read : begin]
        found = _TOKEN.match(self._text, begin)
        if found is None:
            return TypeToken("end", self._text[begin : begin + 1], True)
        self._read = found.end()
        return TypeToken(found.lastgroup or "", found.group(), new_line)

    def next(self) -> TypeToken:
        token = self.peek()
        self._at += 1
        return token

    def expect(self, mark: str) -> TypeToken:
        token = self.next()
        if token.text != mark:
            raise TypeSyntaxError(f"{token.text or 'the end'!r} stands where {mark!r} is expected")
        return token

    def skip(self, mark: str) -> bool:
        """Whether the next token was ``mark``, which is passed then."""
        found = self.peek().text == mark
        self._at += found
        return found

    def comments(self) -> list[str]:
        """The texts of the comments that come next."""
        texts: list[str] = []
        while self.peek().kind == "comment":
            texts.append(self.next().text.removeprefix("//").removeprefix(" ").rstrip())
        return texts

    def type(self) -> Schema:
        """The schema of the type that comes next. Raises `TypeSyntaxError`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TypeSyntaxError(f"a type is nested more than {MAX_DEPTH} levels deep")
        notes = self.comments()
        schema = self._joined("|", lambda: self._joined("&", self._suffixed, lambda parts: {"allOf": parts}), _any_of)
        self._depth -= 1
        return described(schema, notes)

    def _joined(self, mark: str, part: Callable[[], Schema], join: Callable[[list[Schema]], Schema]) -> Schema:
        """Parts between marks; one may stand before the first, and comments behind each."""
        self.skip(mark)
        parts = [part()]
        while self._passes_to(mark):
            parts.append(part())
        return parts[0] if len(parts) == 1 else join(parts)

    def _passes_to(self, mark: str) -> bool:
        at = self._at
        self.comments()
        if self.skip(mark):
            return True
        self._at = at
        return False

    def _suffixed(self) -> Schema:
        schema = self._primary()
        while self.skip("["):
            self.expect("]")
            schema = {"type": "array", "items": schema}
        return schema

    def _primary(self) -> Schema:
        token = self.next()
        if token.kind == "text":
            return {"const": _unquoted(token.text)}
        if token.text == "{":
            return self._object()
        if token.text == "(":
            schema = self.type()
            self.expect(")")
            return schema
        if token.kind == "word":
            return self._named(token.text)
        raise TypeSyntaxError(f"{token.text or 'the end'!r} is no type")

    def _named(self, word: str) -> Schema:
        if word in _KINDS:
            return dict(_KINDS[word])
        if word in ("Array", "Record"):
            return self._generic(word)
        try:
            return {"const": json.loads(word)}
        except ValueError:
            raise TypeSyntaxError(f"{word!r} is no type that is read") from None

    def _generic(self, word: str) -> Schema:
        self.expect("<")
        arguments = [self.type()]
        while self.skip(","):
            arguments.append(self.type())
        self.expect(">")
        if word == "Array":
            return {"type": "array", "items": arguments[0]} if arguments[0] else {"type": "array"}
        return {"type": "object", "additionalProperties": arguments[-1] or True}

    def _object(self) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        schema: Schema = {"type": "object", "properties": properties}
        notes = self.comments()
        while not self.skip("}"):
            if self.skip("["):
                schema["additionalProperties"] = self._index() or True
            else:
                name = self._key()
                if not self.skip("?"):
                    required.append(name)
                self.expect(":")
                properties[name] = self._property(notes)
            notes = self.comments()
        return schema | ({"required": required} if required else {})

    def _key(self) -> str:
        token = self.next()
        if token.kind not in ("word", "text"):
            raise TypeSyntaxError(f"{token.text or 'the end'!r} is no name of a property")
        return _unquoted(token.text) if token.kind == "text" else token.text

    def _index(self) -> Schema:
        """``[key: string]: type``, behind its bracket."""
        self._key()
        self.expect(":")
        self.type()
        self.expect("]")
        self.expect(":")
        return self._property([])

    def _property(self, notes: list[str]) -> Schema:
        schema = self.type()
        behind = self._behind()
        if self.peek().text in (",", ";"):
            self.next()
            behind += self._behind()
        return described(schema, [*notes, *behind])

    def _behind(self) -> list[str]:
        """The texts of comments on the same line."""
        texts: list[str] = []
        while self.peek().kind == "comment" and not self.peek().new_line:
            texts.append(self.next().text.removeprefix("//").strip())
        return texts


def described(schema: Schema, notes: list[str]) -> Schema:
    """The schema with what comments say of it: its default, and its description."""
    defaults = [note.removeprefix(_DEFAULT).strip() for note in notes if note.startswith(_DEFAULT)]
    text = "\n".join(note for note in notes if not note.startswith(_DEFAULT)).strip()
    found = {"description": text} if text else {}
    return schema | found | ({"default": _value(defaults[-1], schema)} if defaults else {})


def _value(written: str, schema: Schema) -> Any:
    """A default: JSON, or the bare text of a string."""
    if schema.get("type") == "string" and not written.startswith('"'):
        return written
    try:
        return json.loads(written)
    except ValueError:
        return written.strip('"')


def _unquoted(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    try:
        value: str = json.loads(text)
    except ValueError:
        return text[1:-1]
    return value


def _any_of(parts: list[Schema]) -> Schema:
    value, arrays = parts[-1], 0
    while "items" in value:
        value, arrays = value["items"], arrays + 1
    if arrays and ("const" in value or value == _KINDS["null"]):
        # Prompts of gpt-oss have no parentheses around the items of an array: "a" | "b"[], string | null[].
        # Nobody means an array of nothing but one value.
        schema = _any_of([*parts[:-1], value])
        for _ in range(arrays):
            schema = {"type": "array", "items": schema}
        return schema
    if all(part.keys() == {"const"} for part in parts):
        values = [part["const"] for part in parts]
        texts = all(isinstance(value, str) for value in values)
        return ({"type": "string"} if texts else {}) | {"enum": values}
    if all(part.keys() == {"type"} for part in parts):
        return {"type": [part["type"] for part in parts]}
    return {"anyOf": parts}
