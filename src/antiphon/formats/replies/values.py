"""Reads arguments that are written as keys and values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape

from .compiled import CompiledForm, CompiledPairs, CompiledValue
from .ends import Enclosed, no_key
from .json_text import json_inside
from .literal import CLOSES, MOST_DEEP, OPENS, Schema, as_json, begun, json_string, typed
from .messages import Messages
from .source import SYMBOL, SYMBOLS, Marks, PlainTexts, Put, Reading, Source


class ArgumentsWriter:
    """One JSON object, member by member."""

    def __init__(self, put: Callable[[str], object]) -> None:
        self._put = put
        self._keys: set[str] = set()
        self._begun = False

    def begin(self, key: str, *, cut: bool = False) -> bool:
        """The key of the next member; False where there is one of that name already. ``cut``: it may go on."""
        fresh = key not in self._keys
        self._put((", " if self._begun else "{") + f'"{json_inside(key)}' + ('": ' if not cut else ""))
        self._keys.add(key)
        self._begun = True
        return fresh

    def raw(self, text: str) -> None:
        """Text that is no member; what is written is then no object."""
        self._put(text if self._begun else "{" + text)
        self._begun = True

    def has(self, key: str) -> bool:
        """Whether there is a member of that name."""
        return key in self._keys

    def value(self, text: str) -> None:
        """A member's whole value, as JSON."""
        self._put(text)

    def quote(self) -> None:
        """A string begins, or ends."""
        self._put('"')

    def string(self, text: str) -> None:
        """More of a string."""
        self._put(json_inside(text))

    def close(self) -> None:
        self._put("}" if self._begun else "{}")


# Reads values whose members are tags of their own.


Expects = Callable[[str], bool]
"""Whether a key may be the next one."""


class NestedReader:
    """Reads one such value. ``taken`` is all of its text so far, with its marks: what remains of one that is cut.

    ``enclosed`` reads a text up to its close, as `ValueReader` does.
    """

    def __init__(
        self,
        source: Source,
        messages: Messages,
        form: CompiledForm,
        pairs: CompiledPairs,
        value: CompiledValue,
        enclosed: Callable[[CompiledValue, Put, Expects], Reading[bool]],
    ) -> None:
        self.taken: list[str] = []
        self.broke = False
        """Text stands between members."""
        self._source = source
        self._messages = messages
        self._value = value
        self._enclosed = enclosed
        self._inner = pairs.inner
        self._closes = value.after.partition("{key}")[0]
        self._bounds = form.value_bounds
        self._marks = Marks((pairs.key, self._closes, *self._bounds))
        self._name_end = Marks((value.words[0],))

    def read(self, key: str, schema: Schema, expects: Expects, depth: int = 0) -> Reading[tuple[str, bool]]:
        """The value of ``key`` as JSON, and whether it came whole; the beginning of its JSON where it did not."""
        has_text = depth > MOST_DEEP or schema.kinds.isdisjoint(("array", "object"))
        if has_text or not (yield from self._source.begins(self._inner)):
            return (yield from self._without_members(key, schema, expects))
        members: list[tuple[str, str]] = []

        def next_one(name: str) -> bool:
            is_new = schema.may_have(name) and all(name != other for other, _ in members)
            return is_new or name == f"/{key}" or expects(name)

        while True:
            between, mark = yield from self._text(self._marks)
            name, end = (yield from self._text(self._name_end)) if mark and mark not in self._bounds else ("", "")
            self.broke = self.broke or bool(between.strip())
            if not end:
                self._source.left += mark + name if mark not in self._bounds else ""
                return _joined(members, schema)[:-1], False
            if mark == self._closes:
                for stray in filter(str.strip, (name if name != key else "", between)):
                    self._messages.incident("malformed_argument", self._source.position, stray)
                return _joined(members, schema), True
            inner, whole = yield from self.read(
                name, schema.items if name == "item" else schema.member(name), next_one, depth + 1
            )
            members.append((name, inner))
            if not whole:
                return _joined(members, schema)[:-1], False

    def _without_members(self, key: str, schema: Schema, expects: Expects) -> Reading[tuple[str, bool]]:
        parts: list[str] = []
        own = self._value.of(key)
        whole = yield from self._enclosed(own, parts.append, expects)
        text = "".join(parts)
        self.taken += (text, own.after * whole)
        return (_leaf if whole else _typed_so_far)(text, schema), whole

    def _text(self, marks: Marks) -> Reading[tuple[str, str]]:
        """As `Source.text_until`; a mark that ends the call stays."""
        text, mark = yield from self._source.text_until(marks)
        if mark in self._bounds:
            self._source.put_back(mark)
        self.taken.append(text + (mark if mark not in self._bounds else ""))
        return text, mark


_BEGINS = {"{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
"""The type of a JSON text by its first character, but for numbers and strings."""


def _typed_so_far(text: str, schema: Schema) -> str:
    """The beginning of what `typed` gives for a text that was cut."""
    value, kinds = begun(text.strip()), schema.kinds
    numbers = kinds & {"integer", "number"}
    if value == "" or (value and (_BEGINS.get(value[0]) in kinds or (numbers and value[0] in "-0123456789"))):
        return value
    return json.dumps(text, ensure_ascii=False)[:-1]


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


class ValueReader:
    """Reads the pairs of one call into a writer."""

    def __init__(
        self,
        source: Source,
        messages: Messages,
        form: CompiledForm,
        pairs: CompiledPairs,
        schema: Schema,
        writer: ArgumentsWriter,
    ) -> None:
        self._source = source
        self._messages = messages
        self._form = form
        self._pairs = pairs
        self._schema = schema
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
                if mark == self._pairs.key:
                    return True
                self._source.put_back(mark)
                if mark or not (yield from self._astray()):
                    return False

    def _astray(self) -> Reading[bool]:
        """Text where a key or the call's close should be; it stays in the arguments, which it breaks."""
        text, mark = yield from self._source.text_until(self._pairs.between)
        self._source.put_back(mark)
        if text.strip():
            self._messages.incident("malformed_argument", self._source.position, text)
            self._writer.raw(text)
        return bool(text)

    def read(self) -> Reading[bool]:
        """One pair, behind the mark of its key; False where the reply was cut in it."""
        parts: list[str] = []
        mark = yield from self._source.until(self._pairs.value_marks, parts.append)
        while mark and mark == self._pairs.quote:  # round a key
            mark = yield from self._source.until(self._pairs.value_marks, parts.append)
        value = self._pairs.values.get(mark)
        written = "".join(parts)
        key = written.strip().strip("\"'")
        if "&" in key and mark.startswith('"') and not self._schema.may_have(key):
            key = unescape(key)  # It is an attribute.
        if mark in self._pairs.empty:
            self._writer.begin(key)
            self._writer.value(_leaf("", self._schema.member(key)))
            return True
        if value is None or len(key) > _MOST_KEY:
            if mark and value is None:
                self._source.put_back(mark)
            return self._no_value(written, key) and bool(mark)
        beginning, longer = self._pairs.longer.get(mark, (None, value))
        if beginning is not None and (yield from self._source.begins(beginning, if_cut=True)):
            value = longer
        for word in value.words[1:]:
            if not (yield from self._source.skip(word)):
                return self._no_value(written + mark, key)
        yield from self._source.skip_exactly(value.layout)
        return (yield from self._member(value, key, self._schema.member(key)))

    def _no_value(self, written: str, key: str) -> bool:
        """A key behind which no value begins; it stays in the arguments, which it breaks, unless a limit cut it."""
        if self._source.cut and not self._source.goes_on:
            self._writer.begin(key, cut=True)
            return False
        self._messages.incident("malformed_argument", self._source.position, written)
        self._writer.raw(self._pairs.key + written)
        return True

    def _member(self, value: CompiledValue, key: str, schema: Schema) -> Reading[bool]:
        if not self._writer.begin(key):
            self._messages.incident("duplicate_argument", self._source.position, key)
        if value.reads == "text" or (value.reads == "schema" and schema.kinds == {"string"}):
            return (yield from self._string(value))
        text, whole = yield from self._text(value, key, schema)
        self._writer.value(text)
        return whole

    def _string(self, value: CompiledValue) -> Reading[bool]:
        """A string as it comes."""

        def put(text: str) -> PlainTexts:
            self._writer.string(text)
            return value.plain

        self._writer.quote()
        whole = yield from self._enclosed(value, put, self._expects)
        if whole:
            self._writer.quote()
        return whole

    def _enclosed(self, value: CompiledValue, put: Put, expects: Expects) -> Reading[bool]:
        """A text up to its end; False where the reply was cut in it."""
        closed = yield from Enclosed(self._source, value.ends, put, expects).read()
        for word in value.rest if closed else ():
            yield from self._source.skip(word)
        if closed is False:
            self._messages.incident("unclosed_argument", self._source.position, "")
        return closed is not None

    def _expects(self, key: str) -> bool:
        """Whether an argument may come by this name."""
        return not self._writer.has(key) and self._schema.may_have(key)

    def _text(self, value: CompiledValue, key: str, schema: Schema) -> Reading[tuple[str, bool]]:
        """The value as JSON, and whether it came whole; the beginning of its JSON where it did not."""
        if value.reads == "literal":
            return (yield from self._literal(schema))
        if value.reads == "nested":
            nested = NestedReader(self._source, self._messages, self._form, self._pairs, value, self._enclosed)
            text, whole = yield from nested.read(key, schema, self._expects)
            if not whole and self._source.goes_on:
                self._messages.incident("unclosed_argument", self._source.position, key)
            if whole:
                return "".join(nested.taken) if nested.broke else text, True
            as_written = nested.broke or self._source.goes_on or not self._source.cut
            return json.dumps("".join(nested.taken), ensure_ascii=False)[:-1] if as_written else text, False
        parts: list[str] = []
        whole = yield from self._enclosed(value, parts.append, self._expects)
        text = "".join(parts)
        if not whole:
            is_json = value.reads == "json"
            given = begun(text, quote=self._pairs.quote) if is_json else _typed_so_far(text, schema)
            return self._so_far(text, given), False
        if value.reads == "json":
            return as_json(text, quote=self._pairs.quote) or json.dumps(text, ensure_ascii=False), True
        return typed(text, schema), True

    def _so_far(self, text: str, value: str | None) -> str:
        """The beginning of a value's JSON: ``value`` where a limit cut it, else that of a string of the text."""
        return json.dumps(text, ensure_ascii=False)[:-1] if value is None or not self._source.cut else value

    def _literal(self, schema: Schema) -> Reading[tuple[str, bool]]:
        """A value that ends where it ends: at a comma or a bracket that is not its own."""
        scan = _LiteralScan(self._source, self._form, self._pairs)
        whole = yield from scan.read()
        text = "".join(scan.parts)
        if not whole:
            inside = text.lstrip("\"'").removeprefix(self._pairs.quote)
            return self._so_far(inside, begun(text, quote=self._pairs.quote)), False
        if scan.open or self._pairs.spelled_quote.startswith(text.strip()):  # nothing, or a quote that was cut
            self.broke = True
            self._messages.incident("malformed_argument", self._source.position, "")
            return text.strip(), True
        found = json_string(text) if scan.is_string else as_json(text, quote=self._pairs.quote)
        if found is None and text.strip()[0] in CLOSES and "string" not in schema.kinds:
            self._messages.incident("malformed_argument", self._source.position, "")
            return text.strip(), True
        if found is None or (found[0] == '"' and "string" not in schema.kinds):
            return typed(text.strip() if found is None else json.loads(found), schema), True
        return found, True


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
        self._strings = pairs.strings
        self._another = pairs.another
        self._marks = Marks((pairs.quote, *form.bounds.literals))
        self._special = re.compile(
            "|".join((rf"[\"'{{}}\[\](),{SYMBOLS}]", *map(re.escape, self._marks.longest_first)))
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
            self.parts.append(source.take(found.start()))
            mark = found.group()
            if mark != self._quote and (SYMBOL.match(mark) or (len(mark) > 1 and self.open)):
                return True
            if not (bool(self.open) if mark == "," else mark not in OPENS or (yield from self._is_own(mark))):
                return True
            self.parts.append(source.take(source.at + len(mark)))
            self.is_string = mark in "\"'" and self.is_string is None and "".join(self.parts).strip() == mark
            self.open += mark if mark in CLOSES else ""
            if (mark == self._quote or mark in "\"'") and not (yield from self._string(mark)):
                return False

    def _is_own(self, bracket: str) -> Reading[bool]:
        """Whether the next bracket closes one of the value's own; one of another kind: if another argument follows."""
        at = self.open.rfind(OPENS[bracket])
        if at >= 0 or not self.open:
            self.open = self.open[: max(at, 0)]
            return at >= 0
        is_other = yield from self._source.begins(self._another)
        self.open = self.open[:-1] if is_other else self.open
        return is_other

    def _string(self, quote: str) -> Reading[bool]:
        """A string up to its closing quote, with that, or to what ends the call; False where the reply does."""
        closed = yield from Enclosed(
            self._source, self._strings[quote, bool(self.open)], self.parts.append, no_key
        ).read()
        if closed:
            self.parts.append(quote)
        return closed is not None
