"""Values as models write them: JSON, Python's literals, and JSON with bare keys or other quotes.

>>> as_json("{'a': [1, None, True]}")
'{"a": [1, null, true]}'
>>> as_json(r"'\\U0001f600 \\x41'")
'"😀 A"'
>>> as_json("it is text") is None
True

Types an argument that a model wrote as bare text, by the tool's schema.

>>> typed("02134", {"type": "string"})
'"02134"'
>>> typed("3", {"type": "integer"})
'3'
>>> typed("None", {"type": ["object", "null"]})
'null'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from antiphon.conversation import JsonSchema, ToolSpec

MOST_DEEP = 64
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_WORDS = {"true": "true", "True": "true", "false": "false", "False": "false", "null": "null", "None": "null"}
_WORD = re.compile(r"[A-Za-z_$][\w$.-]*")
_BARE = re.compile(r"[^,{}\[\]()]+")
_BARE_KEY = re.compile(r"[^,:{}\[\]()]+")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_BLANKS = re.compile(r"\s*")
_ESCAPE = re.compile(
    r"((?:\\u[0-9a-fA-F]{4})+)|\\(?:x([0-9a-fA-F]{2})|U(00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|(.))", re.DOTALL
)
ESCAPING = ("'", '"')
"""Quotes of strings with escapes."""
CLOSES = {"{": "}", "[": "]", "(": ")"}
OPENS = {close: open for open, close in CLOSES.items()}
_ENDS = r"(?=\s*(?:[,:)\]}]|\Z))"
"""The end of a value behind a quote; one that none follows is a character of the string: models write them so."""


class _NoValue(Exception):
    pass


def as_json(text: str, *, quote: str = "") -> str | None:
    """The literal as JSON, its numbers as they are spelled; None where the text is none.

    ``quote`` stands round strings besides ``'`` and ``"``, with no escapes between; with one, a word that is no value
    is a string too.
    """
    reader = _Literal(text, quote)
    try:
        value = reader.value(0)
    except _NoValue:
        return None
    return value if reader.at_end else None


def leading(text: str) -> tuple[str, int] | None:
    """The literal that the text begins with as JSON, and where it ends; None where it begins with none."""
    reader = _Literal(text, "")
    try:
        return reader.value(0), reader.at
    except _NoValue:
        return None


class _Literal:
    def __init__(self, text: str, quote: str) -> None:
        self._text = text
        self._quote = quote
        self._quotes = tuple(filter(None, (*ESCAPING, quote)))
        self._at = 0

    @property
    def at(self) -> int:
        """How far it has read."""
        return self._at

    @property
    def at_end(self) -> bool:
        self._blanks()
        return self._at == len(self._text)

    def value(self, depth: int) -> str:
        char = self._blanks()
        if depth > MOST_DEEP or not char:
            raise _NoValue
        if char == "{":
            return self._object(depth)
        if char in "[(":
            items = [self.value(depth + 1) for _ in self._items(CLOSES[char])]
            return "[" + ", ".join(items) + "]"
        if self._quoted():
            return json.dumps(self._string(), ensure_ascii=False)
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return number.group()
        return self._word()

    def _word(self) -> str:
        word = _WORD.match(self._text, self._at)
        if word is not None and word.group() in _WORDS:
            self._at = word.end()
            return _WORDS[word.group()]
        bare = _BARE.match(self._text, self._at) if self._quote else None
        if bare is None:
            raise _NoValue
        self._at = bare.end()
        return json.dumps(bare.group().strip().removesuffix(self._quote), ensure_ascii=False)

    def _object(self, depth: int) -> str:
        members: dict[str, str] = {}
        for _ in self._items("}"):
            key = json.dumps(self._key(), ensure_ascii=False)
            if self._blanks() != ":":
                raise _NoValue
            self._at += 1
            members[key] = self.value(depth + 1)
        return "{" + ", ".join(f"{key}: {value}" for key, value in members.items()) + "}"

    def _items(self, close: str) -> Iterator[None]:
        """Once before each item; takes the brackets and the commas."""
        self._at += 1
        while self._blanks() != close:
            yield
            if self._blanks() == ",":
                self._at += 1
            elif self._blanks() != close:
                raise _NoValue
        self._at += 1

    def _key(self) -> str:
        if self._quoted():
            return self._string()
        bare = _BARE_KEY if self._quote else _WORD
        word = bare.match(self._text, self._at) or _NUMBER.match(self._text, self._at)
        if word is None:
            raise _NoValue
        self._at = word.end()
        return word.group().strip()

    def _quoted(self) -> bool:
        return self._text.startswith(self._quotes, self._at)

    def _string(self) -> str:
        quote = next(quote for quote in self._quotes if self._text.startswith(quote, self._at))
        escaped = r"\\.|[^\\]" if quote in ESCAPING else "."
        string = re.compile(f"(?s:((?:{escaped})*?){re.escape(quote)}{_ENDS})")
        found = string.match(self._text, self._at + len(quote))
        if found is None:
            raise _NoValue
        self._at, inner = found.end(), found.group(1)
        return _plain(inner) if "\\" in inner and quote != self._quote else inner

    def _blanks(self) -> str:
        """The next character that is no blank; empty at the end."""
        found = _BLANKS.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]


def json_string(text: str) -> str | None:
    """The string between the quotes at the text's ends as JSON, whatever it holds; None where they are not there."""
    text = text.strip()
    if len(text) < 2 or text[0] != text[-1]:
        return None
    inner = text[1:-1]
    return json.dumps(_plain(inner) if "\\" in inner else inner, ensure_ascii=False)


def whole_characters(text: str) -> str:
    """The text with pairs of surrogates joined, and those that stand alone replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _plain(text: str) -> str:
    """The text with its escapes resolved."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    if units := found.group(1):
        return whole_characters("".join(chr(int(unit, 16)) for unit in units.split("\\u")[1:]))
    code = found.group(2) or found.group(3)
    return whole_characters(chr(int(code, 16))) if code else _ESCAPES.get(found.group(4), found.group(4))


ANY = frozenset(("string", "integer", "number", "boolean", "null", "object", "array"))
_MOST_STEPS = 32
_KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}


class Schema(msgspec.Struct, frozen=True):
    """A place in a schema, whose references lead into ``root``."""

    node: JsonSchema = True
    root: JsonSchema = True

    @property
    def resolved(self) -> JsonSchema:
        """The schema behind references; ``True`` where one leads nowhere."""
        node = self.node
        for _ in range(_MOST_STEPS):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            node = _target(self.root, node["$ref"])
        return True

    def member(self, key: str) -> Schema:
        """The schema of an object's member, or of an array's item (``key`` of no member)."""
        return Schema(self._member(self.resolved, key, 0), self.root)

    def may_have(self, key: str) -> bool:
        """Whether an object's own properties have this member."""
        node = self.resolved
        properties = node.get("properties") if isinstance(node, dict) else None
        return isinstance(properties, dict) and key in properties

    def _member(self, node: JsonSchema, key: str, depth: int) -> JsonSchema:
        if not isinstance(node, dict) or depth > _MOST_STEPS:
            return True
        properties = node.get("properties")
        if isinstance(properties, dict) and key in properties:
            return _schema(properties[key])
        for branch in _branches(node):
            found = self._member(Schema(branch, self.root).resolved, key, depth + 1)
            if found is not True:
                return found
        return _schema(node.get("additionalProperties", True))

    @property
    def items(self) -> Schema:
        node = self.resolved
        return Schema(_schema(node.get("items", True)) if isinstance(node, dict) else True, self.root)

    @property
    def kinds(self) -> frozenset[str]:
        """The types that a value here may have."""
        return _kinds(self, 0)


def arguments_of(tools: Iterable[ToolSpec | str]) -> dict[str, Schema]:
    """The schema of each tool's arguments, by its name and by its qualified one."""
    found = {}
    for tool in tools:
        if isinstance(tool, ToolSpec) and tool.parameters is not None:
            schema = Schema(tool.parameters, tool.parameters)
            found[tool.name] = found[tool.recipient] = schema
    return found


def typed(text: str, schema: Schema | JsonSchema) -> str:
    """The JSON of the value that the text spells: of the schema's type where it is one, else a string of the text."""
    kinds = (schema if isinstance(schema, Schema) else Schema(schema, schema)).kinds
    if kinds != {"string"}:
        value = as_json(text.strip())
        if value is not None and fits(value, kinds):
            return value
    return json.dumps(text, ensure_ascii=False)


def fits(value: str, kinds: frozenset[str]) -> bool:
    """Whether a JSON text, which is no string, is of one of the types."""
    kind = _KINDS[type(json.loads(value))] if value[0] not in "{[" else {"{": "object", "[": "array"}[value[0]]
    if kind == "integer":
        return bool(kinds & {"integer", "number"})
    if kind == "number" and "number" not in kinds and "integer" in kinds:
        return float(value).is_integer()
    return kind in kinds and kind != "string"


def _kinds(schema: Schema, depth: int) -> frozenset[str]:
    node = schema.resolved
    if not isinstance(node, dict) or depth > _MOST_STEPS:
        return ANY
    found = _own_kinds(node)
    for branch in ("anyOf", "oneOf"):
        if isinstance(options := node.get(branch), list) and options:
            each = [_kinds(Schema(_schema(option), schema.root), depth + 1) for option in options]
            found &= frozenset().union(*each)
    if isinstance(parts := node.get("allOf"), list):
        for part in parts:
            found &= _kinds(Schema(_schema(part), schema.root), depth + 1)
    return found | {"null"} if node.get("nullable") is True else found


def _own_kinds(node: Mapping[str, Any]) -> frozenset[str]:
    """By ``type``, else by the values that are allowed, else by the keywords that only one type has."""
    given = node.get("type")
    if isinstance(given, str):
        return frozenset((given,)) & ANY or ANY
    if isinstance(given, list):
        return frozenset(kind for kind in given if isinstance(kind, str)) & ANY or ANY
    values = node.get("enum") if isinstance(node.get("enum"), list) else [node["const"]] if "const" in node else None
    if values:
        return frozenset(_KINDS.get(type(value), "object") for value in values)
    if "properties" in node:
        return frozenset(("object",))
    return frozenset(("array",)) if "items" in node else ANY


def _branches(node: Mapping[str, Any]) -> list[JsonSchema]:
    lists = [node.get(keyword) for keyword in ("allOf", "anyOf", "oneOf")]
    return [_schema(branch) for branches in lists if isinstance(branches, list) for branch in branches]


def _schema(value: object) -> JsonSchema:
    return value if isinstance(value, (dict, bool)) else True


def _target(root: JsonSchema, reference: str) -> JsonSchema:
    node: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        node = node.get(step) if isinstance(node, dict) else None
    return _schema(node)
