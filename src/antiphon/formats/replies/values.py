"""Reads arguments that are written as keys and values."""

from __future__ import annotations

import json
import re

from .compiled import CompiledForm, CompiledPairs, CompiledValue
from .json_text import ArgumentsWriter
from .literal import MOST_DEEP, Schema, as_json, json_string, typed
from .messages import Messages
from .source import SYMBOL, Marks, PlainTexts, Reading, Source

# Reads values whose members are tags of their own.


class NestedReader:
    """Reads one such value. ``taken`` is all of its text so far, which is what remains of a value that is cut off."""

    def __init__(
        self, source: Source, messages: Messages, form: CompiledForm, pairs: CompiledPairs, value: CompiledValue
    ) -> None:
        self.taken: list[str] = []
        self._source = source
        self._messages = messages
        self._closes = value.after_key.partition("{key}")[0]
        self._bounds = form.bounds.literals
        self._marks = Marks((pairs.key, self._closes, *self._bounds))
        self._name_end = Marks((value.words[0],))

    def read(self, key: str, schema: Schema, depth: int = 0) -> Reading[str | None]:
        """The value of ``key`` as JSON; None where the reply was cut in it."""
        texts: list[str] = []
        members: list[tuple[str, str]] = []
        while mark := (yield from self._text(self._marks, texts)):
            if mark in self._bounds:
                self._source.put_back(mark)
                return None
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
        """Reports text without a place in the value: a name in another tag's close, text between members."""
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


_MOST_KEY = 256
_KEY = re.compile(r"[A-Za-z_\"'$]")
_INNER_END = re.compile("\\s*(?:\\Z|(?P<end>[,:)\\]}\ud800-\udfff]))")


class ValueReader:
    """Reads the pairs of one call into a writer."""

    def __init__(
        self, source: Source, messages: Messages, form: CompiledForm, pairs: CompiledPairs, writer: ArgumentsWriter
    ) -> None:
        self._source = source
        self._messages = messages
        self._form = form
        self._pairs = pairs
        self._writer = writer
        self.broke = False
        """A literal ended before it began, or within its brackets, as at a bracket of the wrong kind."""

    def begins(self) -> Reading[bool]:
        """Whether another pair begins, past separators."""
        while True:
            char = yield from self._source.after_blanks()
            if not char:
                return False
            if char == self._pairs.separator:
                self._source.take(self._source.at + 1)
            elif not self._pairs.key:
                quoted = bool(self._pairs.quote) and (yield from self._source.follows(self._pairs.quote))
                return quoted or bool(_KEY.match(char))
            else:
                mark = yield from self._source.ahead(self._pairs.key_marks)
                if mark and mark != self._pairs.key:
                    self._source.put_back(mark)
                return mark == self._pairs.key

    def read(self, schema: Schema) -> Reading[bool]:
        """One pair, behind the mark of its key; False where the reply was cut in it."""
        parts: list[str] = []
        mark = yield from self._source.until(self._pairs.value_marks, parts.append)
        while mark and mark == self._pairs.quote:  # round a key
            mark = yield from self._source.until(self._pairs.value_marks, parts.append)
        value = self._pairs.values.get(mark)
        key = "".join(parts).strip().strip("\"'")
        if value is None or len(key) > _MOST_KEY:
            if mark and value is None:
                self._source.put_back(mark)
            self._messages.incident("malformed_argument", self._source.position, "".join(parts))
            return bool(mark)
        for word in value.words[1:]:
            yield from self._source.skip(word)
        yield from self._source.skip_exactly(value.layout)
        return (yield from self._member(value, key, schema.member(key)))

    def _member(self, value: CompiledValue, key: str, schema: Schema) -> Reading[bool]:
        fresh = self._writer.begin(key)
        if fresh and (value.reads == "text" or (value.reads == "schema" and schema.kinds == {"string"})):
            return (yield from self._string(value))
        text, whole = yield from self._text(value, key, schema)
        if not fresh:
            self._messages.incident("duplicate_argument", self._source.position, f"{key}: {text}")
        elif whole:
            self._writer.value(text)
        else:
            self._writer.value(json.dumps(text, ensure_ascii=False)[:-1])
        return whole

    def _string(self, value: CompiledValue) -> Reading[bool]:
        """A string as it comes."""

        def put(text: str) -> PlainTexts:
            self._writer.string(text)
            return value.plain

        self._writer.quote()
        mark = yield from self._source.until(value.marks, put)
        if mark:
            self._close(mark, value)
            self._writer.quote()
        return bool(mark)

    def _close(self, mark: str, value: CompiledValue) -> None:
        """A mark that is not the value's own belongs to what is round it."""
        if mark not in value.after:
            self._source.put_back(mark)
            self._messages.incident("unclosed_argument", self._source.position, "")

    def _text(self, value: CompiledValue, key: str, schema: Schema) -> Reading[tuple[str, bool]]:
        """The value as JSON, and whether it came whole; what came of it where it did not."""
        if value.reads == "literal":
            return (yield from self._literal(schema))
        if value.reads == "nested":
            nested = NestedReader(self._source, self._messages, self._form, self._pairs, value)
            text = yield from nested.read(key, schema)
            if text is None and self._source.goes_on:
                self._messages.incident("unclosed_argument", self._source.position, key)
                text = json.dumps("".join(nested.taken), ensure_ascii=False)
            return ("".join(nested.taken) if text is None else text, text is not None)
        parts: list[str] = []
        mark = yield from self._source.until(value.marks, parts.append)
        text = "".join(parts)
        if not mark:
            return text, False
        self._close(mark, value)
        if mark not in value.after and self._form.close:
            text = text.rstrip().removesuffix(self._form.close[0]).rstrip()
        if value.reads == "json":
            return as_json(text, quote=self._pairs.quote) or json.dumps(text, ensure_ascii=False), True
        return typed(text, schema), True

    def _literal(self, schema: Schema) -> Reading[tuple[str, bool]]:
        """A value that ends where it ends: at a comma or a bracket that is not its own."""
        scan = _LiteralScan(self._source, self._form, self._pairs)
        whole = yield from scan.read()
        text = "".join(scan.parts)
        if not whole:
            return text.lstrip("\"'").removeprefix(self._pairs.quote), False
        if scan.open or not text.strip():
            self.broke = True
            self._messages.incident("malformed_argument", self._source.position, "")
        found = json_string(text) if scan.is_string else as_json(text, quote=self._pairs.quote)
        if found is None or (found[0] == '"' and "string" not in schema.kinds):
            return typed(text.strip() if found is None else json.loads(found), schema), True
        return found, True


_OPENS = {"}": "{", "]": "[", ")": "("}


class _LiteralScan:
    """Finds where a literal ends; strings in it may hold anything but what ends a call."""

    def __init__(self, source: Source, form: CompiledForm, pairs: CompiledPairs) -> None:
        self.parts: list[str] = []
        self.is_string: bool | None = None
        """All of it is one string; None where there was no mark."""
        self._source = source
        self._quote = pairs.quote
        self.open = ""
        """The brackets that are open."""
        self._string_end = pairs.string_end
        self._marks = Marks((pairs.quote, *form.bounds.literals))
        # A mark that the vocabulary has as a text may be a part of a string, as the grammar admits it.
        self._string_marks = Marks((pairs.quote, *filter(SYMBOL.match, form.bounds.literals)))
        self._special = re.compile(
            "|".join(("[\"'{}\\[\\](),\ud800-\udfff]", *map(re.escape, self._marks.longest_first)))
        )

    def read(self) -> Reading[bool]:
        """Whether the literal came whole."""
        source = self._source
        while True:
            settled = len(source.text) if source.last else self._marks.tail(source.text, source.at)
            found = self._special.search(source.text, source.at)
            if found is None or found.start() >= settled:
                self.parts.append(source.take(settled))
                if not (yield from source.more()):
                    return False
                continue
            mark, length = found.group(), found.start() - source.at
            if mark != self._quote and (SYMBOL.match(mark) or (len(mark) > 1 and self.open)):
                self.parts.append(source.take(found.start()))
                return True
            own = bool(self.open) if mark == "," else mark not in _OPENS or (yield from self._is_own(mark, length + 1))
            if not own:
                self.parts.append(source.take(source.at + length))
                return True
            self.parts.append(source.take(source.at + length + len(mark)))
            self.is_string = mark in "\"'" and self.is_string is None and "".join(self.parts).strip() == mark
            self.open += mark if mark in "{[(" else ""
            if (mark == self._quote or mark in "\"'") and not (yield from self._string(mark, inner=bool(self.open))):
                return False

    def _is_own(self, bracket: str, taken: int) -> Reading[bool]:
        """Whether a bracket closes one of the value's own: one of another kind where another argument follows."""
        at = self.open.rfind(_OPENS[bracket])
        if at >= 0 or not self.open:
            self.open = self.open[: max(at, 0)]
            return at >= 0
        source = self._source
        while (found := self._string_end.match(source.text, source.at + taken)) is not None and not found.lastgroup:
            if not (yield from source.more()):
                break
        if found is None or found.lastgroup != "another":
            return False
        self.open = self.open[:-1]
        return True

    def _string(self, quote: str, *, inner: bool) -> Reading[bool]:
        if quote == self._quote:
            return (yield from self._marked_string(quote))
        inside = re.compile(f"[{quote}\\\\\ud800-\udfff]")
        source = self._source
        while True:
            found = inside.search(source.text, source.at)
            if found is None:
                self.parts.append(source.take(len(source.text)))
            elif SYMBOL.match(found.group()):
                self.parts.append(source.take(found.start()))
                return True
            elif found.group() == "\\" and found.end() < len(source.text):
                self.parts.append(source.take(found.end() + 1))
                continue
            elif found.group() == quote:
                closes = yield from self._closes(found.start(), inner=inner)
                if closes is not None:
                    self.parts.append(source.take(source.at + closes[0]))
                    if closes[1]:
                        return True
                    continue
            if not (yield from source.more()):
                self.parts.append(source.take(len(source.text)))
                return False

    def _marked_string(self, quote: str) -> Reading[bool]:
        mark = yield from self._source.until(self._string_marks, self.parts.append)
        if mark == quote:
            self.parts.append(mark)
        else:
            self._source.put_back(mark)
        return bool(mark)

    def _closes(self, at: int, *, inner: bool) -> Reading[tuple[int, bool] | None]:
        """How much to take with the quote, and whether it closes the string: where an end of a value follows.

        ``inner``: the string is in brackets of the value's own.
        """
        source = self._source
        taken = at - source.at + 1
        end = _INNER_END if inner else self._string_end
        while (found := end.match(source.text, source.at + taken)) is not None:
            if found.lastgroup is not None:
                return taken, True
            if not (yield from source.more()):
                return taken, True
        return taken, False
