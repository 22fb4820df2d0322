"""Reads values whose members are tags of their own."""

from __future__ import annotations

import json

from .compiled import CompiledPairs, CompiledValue
from .literal import MOST_DEEP
from .marks import Marks
from .messages import Messages
from .source import Reading, Source
from .typed import Schema, typed


class NestedReader:
    """Reads one such value. ``taken`` is all of its text so far, which is what remains of a value that is cut off."""

    def __init__(self, source: Source, messages: Messages, pairs: CompiledPairs, value: CompiledValue) -> None:
        self.taken: list[str] = []
        self._source = source
        self._messages = messages
        self._closes = value.after_key.partition("{key}")[0]
        self._marks = Marks((pairs.key, self._closes))
        self._name_end = Marks((value.words[0],))

    def read(self, key: str, schema: Schema, depth: int = 0) -> Reading[str | None]:
        """The value of ``key`` as JSON; None where the reply was cut in it."""
        texts: list[str] = []
        members: list[tuple[str, str]] = []
        while mark := (yield from self._text(self._marks, texts)):
            names: list[str] = []
            if not (yield from self._text(self._name_end, names)):
                return None
            name = "".join(names)
            if mark == self._closes or depth > MOST_DEEP:
                self._report("" if name == key else name, "".join(texts) if members else "")
                return _joined(members, schema) if members else _leaf("".join(texts), schema)
            child = schema.items if name == "item" else schema.member(name)
            inner = yield from self.read(name, child, depth + 1)
            if inner is None:
                return None
            members.append((name, inner))
        return None

    def _text(self, marks: Marks, into: list[str]) -> Reading[str]:
        """The next of the marks, and into the list what stands before it."""

        def put(text: str) -> None:
            into.append(text)
            self.taken.append(text)

        return (yield from self._source.until(marks, put))

    def _report(self, *texts: str) -> None:
        """What has no place in the value: the name in another tag's close, text between members."""
        for text in filter(str.strip, texts):
            self._messages.incident("malformed_argument", self._source.position, text)


def _leaf(text: str, schema: Schema) -> str:
    """A value without members; an empty tag is an array, an object or null where the schema has no text."""
    empty = {"array": "[]", "object": "{}", "null": "null"}
    kinds = schema.kinds if not text.strip() else frozenset(("string",))
    kind = next((kind for kind in empty if kind in kinds), "") if "string" not in kinds else ""
    return empty.get(kind) or typed(text, schema)


def _joined(members: list[tuple[str, str]], schema: Schema) -> str:
    """Members as an object, or as an array where each is an item and the schema has no such member."""
    if all(name == "item" for name, _ in members) and "array" in schema.kinds:
        return "[" + ", ".join(value for _, value in members) + "]"
    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in members) + "}"
