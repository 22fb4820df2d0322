"""Values as models write them: JSON, Python's literals, and JSON with bare keys or other quotes.

>>> as_json("{'a': [1, None, True]}")
'{"a": [1, null, true]}'
>>> as_json(r"'\\U0001f600 \\x41'")
'"😀 A"'
>>> as_json("it is text") is None
True
>>> begun("{'a': [1, Tru")
'{"a": [1, tru'

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
from antiphon.tokens import well_formed

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
_WHOLE_ESCAPES = re.compile(
    r"(?s:(?:[^\\]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    r"|\\x[0-9a-fA-F]{2}|\\U[0-9a-fA-F]{8}|\\[^uxU])*)"
)
_CUT_NUMBER = re.compile(r"-?(?:\d[\d.eE+-]*)?")
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
        reader.value(0)
    except _NoValue:
        return None
    return reader.written if reader.at_end else None


def leading(text: str) -> tuple[str, int] | None:
    """The literal that the text begins with as JSON, and where it ends; None where it begins with none."""
    reader = _Literal(text, "")
    try:
        reader.value(0)
    except _NoValue:
        return None
    return reader.written, reader.at


def begun(text: str, *, quote: str = "") -> str | None:
    """The beginning of the JSON of a literal that was cut; None where the text begins none. ``quote``: as `as_json`."""
    reader = _Literal(text, quote, cut=True)
    try:
        reader.value(0)
    except _NoValue:
        reader.cut_token()
    return reader.written if reader.at_end else None


class _Literal:
    """Writes the JSON of a literal as far as it is read. ``cut``: a word at the end may go on."""

    def __init__(self, text: str, quote: str, *, cut: bool = False) -> None:
        self.at = 0
        """How far it has read."""
        self._text = text
        self._cut = cut
        self._quote = quote
        self._quotes = tuple(filter(None, (*ESCAPING, quote)))
        self._written: list[str] = []

    @property
    def written(self) -> str:
        return "".join(self._written)

    @property
    def at_end(self) -> bool:
        self._blanks()
        return self.at == len(self._text)

    def value(self, depth: int) -> None:
        """Reads a value. Raises `_NoValue` where none is, at the token that is none."""
        char = self._blanks()
        if depth > MOST_DEEP or not char:
            raise _NoValue
        if char == "{":
            for _ in self._items("{}"):
                self._key()
                self.value(depth + 1)
        elif char in "[(":
            for _ in self._items("[]", CLOSES[char]):
                self.value(depth + 1)
        elif self._quoted():
            self._write(self._string())
        elif number := _NUMBER.match(self._text, self.at):
            self.at = number.end()
            self._written.append(number.group())
        else:
            self._word()

    def cut_token(self) -> None:
        """Reads to the text's end what may be the beginning of one token."""
        rest = self._text[self.at :]
        quote = next((quote for quote in self._quotes if rest.startswith(quote)), "")
        if quote:
            inner = rest.removeprefix(quote)
            self._write(_plain(whole_escapes(inner)) if quote in ESCAPING else inner, closed=False)
        elif word := next((word for word in _WORDS if word.startswith(rest)), ""):
            self._written.append(_WORDS[word][: len(rest)])
        elif _CUT_NUMBER.fullmatch(rest):
            self._written.append(rest)
        elif self._quote and _BARE.fullmatch(rest) and not self._quote.startswith(rest):
            self._write(rest, closed=False)
        elif rest and not self._quote.startswith(rest):
            return
        self.at = len(self._text)

    def _write(self, string: str, *, closed: bool = True) -> None:
        quoted = json.dumps(string, ensure_ascii=False)
        self._written.append(quoted if closed else quoted[:-1])

    def _word(self) -> None:
        word = _WORD.match(self._text, self.at)
        if word is not None and word.group() in _WORDS:
            self.at = word.end()
            self._written.append(_WORDS[word.group()])
            return
        bare = _BARE.match(self._text, self.at) if self._quote else None
        if bare is None or (self._cut and bare.end() == len(self._text)):
            raise _NoValue
        self.at = bare.end()
        self._write(bare.group().strip().removesuffix(self._quote))

    def _items(self, brackets: str, close: str = "}") -> Iterator[None]:
        """Once before each item; takes the brackets and the commas, and writes them."""
        self.at += 1
        self._written.append(brackets[0])
        comma = ""
        while self._blanks() != close:
            if self.at < len(self._text):
                self._written.append(comma)
            yield
            comma = ", "
            if self._blanks() == ",":
                self.at += 1
            elif self._blanks() != close:
                raise _NoValue
        self.at += 1
        self._written.append(brackets[1])

    def _key(self) -> None:
        """Reads a key and the colon behind it."""
        if self._quoted():
            key = self._string()
        else:
            bare = _BARE_KEY if self._quote else _WORD
            word = bare.match(self._text, self.at) or _NUMBER.match(self._text, self.at)
            if word is None:
                raise _NoValue
            self.at = word.end()
            key = word.group().strip()
        colon = self._blanks()
        self._write(key, closed=bool(colon))
        if colon != ":":
            raise _NoValue
        self.at += 1
        self._written.append(": ")

    def _quoted(self) -> bool:
        return self._text.startswith(self._quotes, self.at)

    def _string(self) -> str:
        quote = next(quote for quote in self._quotes if self._text.startswith(quote, self.at))
        escaped = r"\\.|[^\\]" if quote in ESCAPING else "."
        string = re.compile(f"(?s:((?:{escaped})*?){re.escape(quote)}{_ENDS})")
        found = string.match(self._text, self.at + len(quote))
        if found is None:
            raise _NoValue
        self.at, inner = found.end(), found.group(1)
        return _plain(inner) if "\\" in inner and quote != self._quote else inner

    def _blanks(self) -> str:
        """The next character that is no blank; empty at the end."""
        found = _BLANKS.match(self._text, self.at)
        self.at = found.end() if found else self.at
        return self._text[self.at : self.at + 1]


def json_string(text: str) -> str | None:
    """The string between the quotes at the text's ends as JSON, whatever it holds; None where they are not there."""
    text = text.strip()
    if len(text) < 2 or text[0] != text[-1]:
        return None
    inner = text[1:-1]
    return json.dumps(_plain(inner) if "\\" in inner else inner, ensure_ascii=False)


def whole_escapes(text: str) -> str:
    """The text of a string that was cut, up to an escape that was."""
    found = _WHOLE_ESCAPES.match(text)
    return found.group() if found else ""


def _plain(text: str) -> str:
    """The text with its escapes resolved."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    if units := found.group(1):
        return well_formed("".join(chr(int(unit, 16)) for unit in units.split("\\u")[1:]))
    code = found.group(2) or found.group(3)
    return well_formed(chr(int(code, 16))) if code else _ESCAPES.get(found.group(4), found.group(4))


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
