"""Values as literals in a model's own spelling: Python's, JSON's, or with a token for a quote.

What of a schema a literal cannot be held to (patterns, ``allOf``) is let through and noted, as in `.schema`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.conversation import JsonSchema
from antiphon.tokens import Control

from .grammar import ValueSpelling
from .json_values import SPACED, JsonWriter
from .rules import (
    CHARACTER,
    GAP,
    Part,
    Rules,
    any_text,
    listed_items,
    of_type,
    quoted,
    resolved,
    sequence,
    target,
    types_of,
)

MOST_COUNTED = 256
"""How many characters of a string are counted: beyond, the engine's lexer gives up."""
Relax = Callable[[str, str], None]
"""Notes a keyword, and its place, that is not enforced while sampling."""

_BLANK = r"\s\x1c-\x1f"
"""Characters that Python takes for blanks, as a reader does."""
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_WORD = r"/[A-Za-z_][A-Za-z0-9_.\-]{0,63}/"


class LiteralStyle(msgspec.Struct, frozen=True, kw_only=True):
    """``python``: Python's words and quotes besides JSON's. ``quote`` is round strings that have no escapes, and then
    names are bare and in alphabetical order. No string spells a text of ``avoid``. ``closes``: the signs before which a
    quote is the end of one of Python's strings; ``inside`` brackets the blanks between are the string's.
    """

    python: bool = False
    quote: Control | str = ""
    avoid: tuple[str, ...] = ()
    closes: str = r",:)\]}"
    inside: bool = False

    @property
    def comma(self) -> str:
        return '","' if self.quote else SPACED[","]

    @property
    def colon(self) -> str:
        return '":"' if self.quote else SPACED[":"]

    def word(self, value: bool | None) -> str:
        """A truth value, or none."""
        in_python = self.python or (self.quote and value is None)
        words = [json.dumps(value), *([str(value)] if in_python else [])]
        return f"({' | '.join(map(quoted, words))})"

    def ordered(self, names: Sequence[str]) -> list[str]:
        return sorted(names, key=lambda name: (name.lower(), name)) if self.quote else list(names)


@dataclass(frozen=True, slots=True)
class LiteralWriter:
    """Writes the rules of literals of one schema, whose references lead into ``root``."""

    _rules: Rules
    _style: LiteralStyle
    _root: JsonSchema
    _relax: Relax

    def value(self, node: JsonSchema, where: str = "") -> str | None:
        """A literal of the schema; None where no value fits."""
        if node is False:
            return None
        if node is True:
            return self.anything()
        if "$ref" in node:
            return self._reference(node["$ref"], where)
        if "enum" in node or "const" in node:
            return _any_of([self.fixed(value) for value in node.get("enum", [node.get("const")])])
        return _any_of(list(self._ways(node, where)))

    def anything(self) -> str:
        """Any value."""
        return self._rules.recursive((self._style, "anything"), self._anything)

    def fixed(self, value: Any) -> str | None:
        """This value; None where it cannot be spelled."""
        match value:
            case bool() | None:
                return self._style.word(value)
            case str():
                return self._fixed_string(value)
            case list():
                items = [self.fixed(item) for item in value]
                return self._bracketed("[]", _joined(items, self._style.comma)) if None not in items else None
            case dict():
                names = self._style.ordered(list(value))
                spelled = [(self.name(name), self.fixed(value[name])) for name in names]
                members = [f"{name} {self._style.colon} {text}" for name, text in spelled]
                whole = not any(None in member for member in spelled)
                return self._bracketed("{}", _joined(members, self._style.comma)) if whole else None
            case _:
                return quoted(json.dumps(value))

    def string(self, node: dict[str, Any], where: str = "") -> str:
        if "pattern" in node:
            self._relax("pattern", f"{where}.pattern")
        least, most = int(node.get("minLength", 0)), node.get("maxLength")
        if max(least, most or 0) > MOST_COUNTED:
            self._relax("maxLength", f"{where}.maxLength" if most else f"{where}.minLength")
            least, most = 0, None
        counted = f"{{{least},{'' if most is None else int(most)}}}" if least or most is not None else "*"
        return _any_of([self._quoted_text(counted, mark) for mark in self._marks]) or ""

    def name(self, name: str) -> str | None:
        """The name of a member; None where it cannot be spelled."""
        if self._style.quote:
            return quoted(name) if name.isidentifier() else None
        return self._fixed_string(name)

    @property
    def _inside(self) -> LiteralWriter:
        """Writes what is inside brackets."""
        return LiteralWriter(self._rules, replace(self._style, inside=True), self._root, self._relax)

    @property
    def _marks(self) -> tuple[str, ...]:
        return ('"', "'") if self._style.python else ('"',)

    def _ways(self, node: dict[str, Any], where: str) -> Iterator[str | None]:
        if "allOf" in node:
            self._relax("allOf", f"{where}.allOf")
        if "anyOf" in node:
            outer = {key: value for key, value in node.items() if key != "anyOf"}
            if outer.keys() - {"type", "allOf", "$defs", "definitions"}:
                self._relax("anyOf", f"{where}.anyOf")
            for i, branch in enumerate(node["anyOf"]):
                yield self.value(branch, f"{where}.anyOf[{i}]")
            return
        types = types_of({key: value for key, value in node.items() if key != "allOf"}, self._root)
        for name in types:
            if name != "integer" or "number" not in types:
                yield self._of_type(name, node, where)

    def _of_type(self, name: str, node: dict[str, Any], where: str) -> str | None:
        match name:
            case "null":
                return self._style.word(None)
            case "boolean":
                return f"({self._style.word(True)} | {self._style.word(False)})"
            case "string":
                return self.string(node, where)
            case "array":
                return self._array(node, where)
            case "object":
                return self._object(node, where)
            case _:
                bounds = {key: value for key, value in of_type(node, name).items() if key in (*_NUMBERS, "type")}
                return JsonWriter(self._rules, bounds).text()

    def _reference(self, reference: str, where: str) -> str:
        return self._rules.recursive(
            (self._style, id(self._root), reference),
            lambda: self.value(target(reference, self._root), where) or _NOTHING,
        )

    def _anything(self) -> str:
        item, name = self._inside.anything(), self._inside.any_name()
        number = JsonWriter(self._rules, {"type": "number"}).text()
        simple = [self.string({}), number, *map(self._style.word, (True, False, None))]
        listed = self._bracketed("[]", sequence(self._rules, [], more=self._part(item)))
        members = sequence(self._rules, [], more=self._part(f"{name} {self._style.colon} {item}"))
        return f"({' | '.join([*simple, listed, self._bracketed('{}', members)])})"

    def any_name(self) -> str:
        return self._rules.rule("NAME", _WORD) if self._style.quote else self.string({})

    def _array(self, node: dict[str, Any], where: str) -> str:
        value = self._inside.value
        prefix = [value(part, f"{where}.prefixItems[{i}]") for i, part in enumerate(node.get("prefixItems", ()))]
        item = value(node.get("items", True), f"{where}.items")
        least, most = int(node.get("minItems", 0)), node.get("maxItems")
        return self._bracketed("[]", listed_items(prefix, item, least, most, self._style.comma))

    def _object(self, node: dict[str, Any], where: str) -> str | None:
        parts = []
        properties, required = node.get("properties", {}), node.get("required", ())
        for name in self._style.ordered(list(properties)):
            spelled, value = self.name(name), self._inside.value(properties[name], f"{where}.properties.{name}")
            if spelled is not None and value is not None:
                parts.append(self._part(f"{spelled} {self._style.colon} {value}", name in required))
            elif name in required:
                return None
        others = self._others(node, where)
        return self._bracketed("{}", sequence(self._rules, parts, more=self._part(others) if others else None))

    def _part(self, text: str, required: bool = False) -> Part:
        return Part(text, f"{self._style.comma} {text}", required)

    def _others(self, node: dict[str, Any], where: str) -> str | None:
        """A member of another name."""
        for key in ("patternProperties", "minProperties", "maxProperties"):
            if key in node:
                self._relax(key, f"{where}.{key}")
        value = self._inside.value(other_members(node), f"{where}.additionalProperties")
        return None if value is None else f"{self._inside.any_name()} {self._style.colon} {value}"

    def _fixed_string(self, text: str) -> str | None:
        if self._style.quote:
            if str(self._style.quote) in text:
                return None
            return " ".join(filter(None, [self._mark, quoted(text), self._mark]))
        ways = [json.dumps(text, ensure_ascii=False), *([repr(text)] if self._style.python else [])]
        sayable = [way for way in dict.fromkeys(ways) if not any(word in way for word in self._style.avoid)]
        return _any_of([*map(quoted, sayable)])

    @property
    def _mark(self) -> str:
        return self._rules.pieces((self._style.quote,))

    def _quoted_text(self, counted: str, mark: str) -> str:
        """A string between marks. Python's may have the mark inside, where no end of a value follows it."""
        if self._style.quote:
            text = any_text(None) if counted == "*" else f"/(?s:.){counted}/"
            spelled = self._rules.clear(text, [str(self._style.quote)])
            return f"{self._mark} {self._rules.closed(spelled, (self._style.quote,))}"
        if not self._style.python:
            return self._terminal(f'/"({CHARACTER}){counted}"/')
        character = rf"[^{mark}\\]|\\(?s:.)"
        if counted == "*":
            character += rf"|{mark}[{mark}{_BLANK}]*([^{mark}{_BLANK}\\{self._style.closes}]|\\(?s:.))"
        blanks = GAP if self._style.inside else ""
        return self._terminal(f"/{mark}({character}){counted}{mark}{'' if counted != '*' else '+'}{blanks}/")

    def _terminal(self, pattern: str) -> str:
        return self._rules.rule("STRING", self._rules.clear(pattern, self._style.avoid))

    def _bracketed(self, brackets: str, inside: str) -> str:
        opens, closes = (quoted(sign) if self._style.quote else SPACED[sign] for sign in brackets)
        return " ".join(filter(None, [opens, inside, closes]))


_NOTHING = '%json {"enum": []}'


def other_members(node: dict[str, Any]) -> JsonSchema:
    """The schema of members that have no schema by name; more than it, where patterns of names decide."""
    others: JsonSchema = node.get("additionalProperties", True)
    if node.get("maxProperties") == 0:
        return False
    patterns = list(node.get("patternProperties", {}).values())
    if not patterns or others is True:
        return others
    return {"anyOf": [*patterns, *([] if others is False else [others])]}


def _any_of(ways: Sequence[str | None]) -> str | None:
    found = list(dict.fromkeys(way for way in ways if way is not None))
    return f"({' | '.join(found)})" if len(found) > 1 else found[0] if found else None


def _joined(items: Sequence[str | None], comma: str) -> str:
    return f" {comma} ".join(item for item in items if item is not None)


# Values between two markers, where a string stands as it is and anything else as a literal.

_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|\[[^]]*\]|[^]\\])*\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RawValueWriter:
    """Writes a value's rules together with the marker behind it."""

    _rules: Rules
    _literals: LiteralWriter
    _form: ValueSpelling
    _root: JsonSchema
    _relax: Relax

    def value(self, node: JsonSchema, where: str, *, strings: bool = True, others: bool = True) -> str | None:
        """A value of the schema, of those that are ``strings`` (as they are) or ``others``; None for no value."""
        ways = list(dict.fromkeys(self._ways(resolved(node, self._root), where, strings, others)))
        free = self._closed(any_text(None))
        if free in ways:
            return free
        return f"({' | '.join(ways)})" if ways else None

    def _ways(self, node: JsonSchema, where: str, strings: bool, others: bool) -> Iterator[str]:
        if node is False:
            return
        given = node if isinstance(node, dict) else {}
        if "anyOf" in given and not given.keys() & {"enum", "const", "type"}:
            for i, branch in enumerate(given["anyOf"]):
                inner = resolved(branch, self._root)
                yield from self._ways(inner, f"{where}.anyOf[{i}]", strings, others)
            return
        if "enum" in given or "const" in given:
            yield from self._fixed(given.get("enum", [given.get("const")]), strings, others)
            return
        types = types_of(given, self._root)
        if strings and "string" in types:
            yield (text := self._string(given, where))
            others = others and text != self._closed(any_text(None))
        if others and set(types) != {"string"}:
            literal = self._literals.value(
                {**of_type(given, ""), "type": [name for name in types if name != "string"]}, where
            )
            if literal is not None:
                yield f"{literal} {self._rules.pieces(self._form.after)}"

    def _fixed(self, values: list[Any], strings: bool, others: bool) -> Iterator[str]:
        for value in values:
            if isinstance(value, str) and strings:
                if not any(word in value for word in self._form.avoid):
                    yield " ".join(filter(None, [quoted(value), self._rules.pieces(self._form.after)]))
            elif not isinstance(value, str) and others:
                literal = self._literals.fixed(value)
                if literal is not None:
                    yield f"{literal} {self._rules.pieces(self._form.after)}"

    def _string(self, node: dict[str, Any], where: str) -> str:
        """The string as it is."""
        text = any_text(None)
        least, most = int(node.get("minLength", 0)), node.get("maxLength")
        if max(least, most or 0) > MOST_COUNTED:
            self._relax("maxLength", f"{where}.{'maxLength' if most else 'minLength'}")
        elif least or most is not None:
            text = f"/(?s:.){{{least},{'' if most is None else int(most)}}}/"
        for part in (node, *node.get("allOf", ())):
            if "pattern" in part:
                whole = whole_pattern(part["pattern"])
                if whole is None:
                    self._relax("pattern", f"{where}.pattern")
                else:
                    text += f" & /{whole}/"
        return self._closed(text)

    def _closed(self, text: str) -> str:
        return self._rules.closed(self._rules.clear(text, self._form.avoid), self._form.after)


def whole_pattern(pattern: str) -> str | None:
    """The pattern for a whole text in which the pattern is found; None where its anchors stand inside.

    >>> whole_pattern("^[a-z]+$"), whole_pattern("b/c"), whole_pattern("^a|b$")
    ('(?:[a-z]+)', '(?s:.*)(?:b\\\\/c)(?s:.*)', None)
    """
    signs = _SIGN.findall(pattern)
    begins, ends = signs[:1] == ["^"], signs[-1:] == ["$"]
    inner = signs[begins : len(signs) - ends]
    if "^" in inner or "$" in inner or ((begins or ends) and _has_choice(inner)) or any("\n" in s for s in inner):
        return None
    text = "".join(sign.replace("/", "\\/") if not sign.startswith("\\") else sign for sign in inner)
    return f"{'' if begins else '(?s:.*)'}(?:{text}){'' if ends else '(?s:.*)'}"


def _has_choice(signs: list[str]) -> bool:
    depth = 0
    for sign in signs:
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            return True
    return False
