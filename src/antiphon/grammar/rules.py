r"""The names and texts of rules, which all writers of rules share.

Regular expressions of free text without some spellings, in the dialect of llguidance's lexer.

>>> print(text_without(["<|end|>"], limit=None, escaped=False, closed=False))
/(?s:.*)/ & ~/(?s:.*)(<\|end\|>)(?s:.*)/
>>> print(text_without(["<|end|>"], limit=80, escaped=False, closed=False))
/([^<]|<[^<\|]){0,80}/

Patterns as ECMA-262 means them, in the engine's dialect, which is that of Rust's regex crate.

The two look alike and differ: to the engine ``\d`` and ``\w`` may be of any script, ``\s`` has U+0085 and lacks U+FEFF,
``.`` takes a carriage return, and a class has operators (``&&``, ``--``, ``[:alpha:]``) where ECMA-262 has characters.

>>> spelled_out(r"^\d+[a&&b-]$")
'^[0-9]+[a\\&\\&b\\-]$'
>>> spelled_out(".")
'[^\\n\\r\\u2028\\u2029]'
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from antiphon.conversation import JsonSchema
from antiphon.tokens import Control

from .grammar import Pieces

_SIGN = re.compile(r"\\c[A-Za-z]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)
_SETS = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
}
_DOT = r"[^\n\r\u2028\u2029]"
_DOT_IS_ANY = re.compile(r"\(\?[a-z]*s")
"""A flag after which ``.`` is any character."""
_OPERATORS = frozenset("[&~")
"""Signs that have a meaning in an engine's class, and none in one of ECMA-262."""


def spelled_out(pattern: str) -> str:
    """The same texts for the engine. What ECMA-262 does not have, and what neither can read, is left as it is."""
    return "".join(parts(pattern))


def parts(pattern: str) -> Iterator[str]:
    """`spelled_out` in pieces: a class, or what is between classes, sign by sign."""
    dot = "." if _DOT_IS_ANY.search(pattern) else _DOT
    members: list[str] = []
    inside: _Class | None = None
    for match in _SIGN.finditer(pattern):
        sign = match[0]
        if inside is not None:
            members.append(inside.item(sign, last=pattern[match.end() : match.end() + 1] == "]"))
            if inside.closed:
                yield "".join(members)
                inside = None
        elif sign == "[":
            inside, members = _Class(), [sign]
        else:
            yield dot if sign == "." else _escape(sign, inside=False)
    if inside is not None:
        yield "".join(members)


class _Class:
    """A character class as it is read: whether a ``-`` makes a range there or is itself."""

    def __init__(self) -> None:
        self._first = True
        self._low = self._range = False
        self.closed = False

    def item(self, sign: str, *, last: bool) -> str:
        """One sign of it; ``last``: the class ends after it."""
        first, self._first = self._first, False
        if sign == "^" and first:
            return sign
        if sign == "]":
            self.closed = True
            return sign
        if sign == "-" and self._low and not last:
            self._low, self._range = False, True
            return sign
        # After a range, or a set, a `-` begins nothing.
        is_set = len(sign) == 2 and sign[1].lower() in _SETS
        self._low = not self._range and not is_set
        self._range = False
        return f"\\{sign}" if sign == "-" or sign in _OPERATORS else _escape(sign, inside=True)


def _escape(sign: str, *, inside: bool) -> str:
    letter = sign[1:2]
    if len(sign) == 3:  # \cJ, a control character
        return f"\\x{ord(sign[2].upper()) - 64:02x}"
    if len(sign) != 2 or letter.lower() not in _SETS:
        return sign
    members = _SETS[letter.lower()]
    return members if inside and letter.islower() else f"[{'^' * letter.isupper()}{members}]"


_SPECIAL = re.compile(r"[][\\^$.|?*+(){}/&~\-#]")

NOT_BLANK = r"/\S(?s:.*)/"
"""A text that does not begin with a blank, and is not empty."""


def quote(text: str) -> str:
    """The text as a pattern of itself, fit to be between slashes."""
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", r"\n").replace("\r", r"\r")


def quoted(text: str) -> str:
    """A Lark literal; empty for the empty text, which Lark has no need of."""
    return json.dumps(text, ensure_ascii=False) if text else ""


# Strings of JSON, and what is between its signs.

GAP = r"[ \t]{0,16}(\r?\n[ \t]{0,40})?"
"""Blanks between two signs of JSON, bounded: a small model may never end them. A mask costs 11 µs more for them."""
_BEYOND_ASCII = (
    r"(00[89a-fA-F]|0[1-9a-fA-F][0-9a-fA-F]|[1-9a-ce-fA-CE-F][0-9a-fA-F]{2}|[dD][0-7][0-9a-fA-F])[0-9a-fA-F]"
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_PLAIN = r'[^"\\\x00-\x1f]|\\["\\\/bfnrt]'
CHARACTER = rf"{_PLAIN}|\\u(00[0-7][0-9a-fA-F]|{_BEYOND_ASCII})"
"""A character of a string: itself or any escape; of two surrogates both."""
OF_NAME = rf"{_PLAIN}|\\u(00([01][0-9a-fA-F]|2[67]|3[cCeE]|7[fF])|{_BEYOND_ASCII})"
"""The same, but of ASCII only what serializers escape: names of the schema are told from others by it."""
_SHORT = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", **dict(zip('"\\/', '"\\/', strict=True))}
_ESCAPED = re.compile(r"[\x00-\x1f\x7f-\U0010ffff\"\\/<>&']")
"""Characters that some serializer escapes."""


def is_escaped(text: str) -> bool:
    """Whether some serializer escapes a character of it."""
    return bool(_ESCAPED.search(text))


def spelled(text: str) -> str:
    """The pattern of a JSON string of the text, whatever of it is escaped that some serializer escapes."""
    return f'"{"".join(map(_spelled, text))}"'


def _spelled(char: str) -> str:
    if not is_escaped(char):
        return quote(char)
    ways = [quote(char)] if char >= " " and char not in '"\\' else []
    ways += [quote(f"\\{_SHORT[char]}")] if char in _SHORT else []
    units = char.encode("utf-16-be").hex()
    digits = [f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in units]
    codes = "".join(rf"\\u{''.join(digits[at : at + 4])}" for at in range(0, len(digits), 4))
    return f"({'|'.join([*ways, codes])})"


def not_first(char: str) -> str:
    """A text whose first character that is no blank is not this one."""
    return rf"/\s*([^\s{quote(char)}](?s:.*))?/"


def any_text(limit: int | None) -> str:
    """Any characters, at most ``limit``."""
    return r"/(?s:.*)/" if limit is None else rf"/(?s:.{{0,{limit}}})/"


def text_without(spellings: Collection[str], *, limit: int | None, escaped: bool, closed: bool) -> str:
    """Any characters that spell none of ``spellings``, as a body of a Lark terminal.

    ``escaped``: a spelling after ``<`` is text (``<<|end|>``). ``closed``: a spelled-out closer comes next, and would
    be text after a ``<``. A text with a ``limit`` spells not even their first two characters.
    """
    if not spellings:
        return any_text(limit)
    if limit is not None:
        return _bounded(spellings, limit)
    before = r"((?s:.*)[^<])?" if escaped else r"(?s:.*)"
    clear = f"{any_text(None)} & ~/{before}({'|'.join(map(quote, sorted(spellings)))})(?s:.*)/"
    return f"{clear} & /{before}/" if escaped and closed else clear


def _bounded(spellings: Collection[str], limit: int) -> str:
    """At most ``limit`` characters, or pairs that begin like a spelling and go on otherwise.

    A counted repetition met with a complement makes the engine's lexer give up in mid-reply; this costs what it says.
    """
    seconds: dict[str, set[str]] = {}
    for spelling in spellings:
        seconds.setdefault(spelling[0], set()).update(spelling[1:2])
    # After a spelling of one character nothing may come: that character is no text at all.
    alone = {spelling for spelling in spellings if len(spelling) == 1}
    firsts = "".join(map(quote, sorted(seconds)))
    pairs = [
        f"{quote(first)}[^{firsts}{''.join(map(quote, sorted(then - seconds.keys())))}]"
        for first, then in sorted(seconds.items())
        if first not in alone
    ]
    return f"/({'|'.join([f'[^{firsts}]', *pairs])}){{0,{limit}}}/"


# What types a place in a schema may have, by its keywords: a reader of untyped text decides by the same.

TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")
_TYPE_OF = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
_MOST_STEPS = 32


def type_of(value: Any) -> str:
    """The JSON type of a value."""
    return _TYPE_OF.get(type(value), "object")


def resolved(node: JsonSchema, root: JsonSchema) -> JsonSchema:
    """Resolves a reference; any other node is returned as it is."""
    for _ in range(_MOST_STEPS):
        if not isinstance(node, dict) or "$ref" not in node:
            return node
        node = target(node["$ref"], root)
    return True


def target(reference: str, root: JsonSchema) -> JsonSchema:
    """The definition that a reference leads to; anything, where it leads nowhere."""
    found = definition(reference, root)
    return True if found is None else found


def definition(reference: str, root: JsonSchema) -> JsonSchema | None:
    """The same; None where the reference leads nowhere in ``root``."""
    node: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        node = node.get(unquote(step).replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict | bool) else None


def types_of(node: JsonSchema, root: JsonSchema) -> tuple[str, ...]:
    """The types that a value may have, in the order of `TYPES`."""
    return tuple(sorted(_types(node, root, {}, 0), key=TYPES.index))


def _types(node: JsonSchema, root: JsonSchema, known: dict[int, frozenset[str]], depth: int) -> frozenset[str]:
    """Looks at each part once, by its identity: a definition may be led to in many ways, or lead back to itself."""
    node = resolved(node, root)
    if node is False:
        return frozenset()
    if node is True or depth > _MOST_STEPS:
        return frozenset(TYPES)
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = frozenset(TYPES)
    found = _own_types(node)
    for key in ("anyOf", "oneOf"):
        if node.get(key):
            found &= {name for branch in node[key] for name in _types(branch, root, known, depth + 1)}
    for part in node.get("allOf", ()):
        found &= _types(part, root, known, depth + 1)
    known[id(node)] = frozenset(found)
    return known[id(node)]


def _own_types(node: dict[str, Any]) -> set[str]:
    if (given := node.get("type")) is not None:
        return {given} if isinstance(given, str) else {*given}
    if "enum" in node or "const" in node:
        return {type_of(value) for value in node.get("enum", [node.get("const")])}
    if "properties" in node:
        return {"object"}
    return {"array"} if "items" in node or "prefixItems" in node else {*TYPES}


def of_type(node: dict[str, Any], name: str) -> dict[str, Any]:
    """The node for values of one type."""
    return {**{key: value for key, value in node.items() if key not in ("$defs", "definitions")}, "type": name}


class Rules:
    """Lark rules and terminals, written as they are needed, equal bodies once; each method returns an expression.

    ``controls`` are those that the vocabulary has, with their ids.
    """

    def __init__(self, controls: Mapping[Control, int]) -> None:
        self._controls = controls
        self._names: dict[Hashable, str] = {}
        self.rules: list[str] = []

    def rule(self, kind: str, body: str, attributes: str = "") -> str:
        """The name of a rule, or a terminal, with this body."""
        definition = f"{attributes}: {body}"
        name = self._names.get(definition)
        if name is None:
            name = self._names[definition] = f"{kind}_{len(self.rules)}"
            self.rules.append(f"{name}{definition}")
        return name

    def recursive(self, key: Hashable, body: Callable[[], str]) -> str:
        """The name of the rule of a key, whose body may refer to it; written once."""
        if key not in self._names:
            place = len(self.rules)
            self._names[key] = f"value_{place}"
            self.rules.append("")
            self.rules[place] = f"{self._names[key]}: {body()}"
        return self._names[key]

    def json(self, schema: JsonSchema, *, any_whitespace: bool = False) -> str:
        """A JSON text of the engine's schema, which bounds no blanks: one is behind each comma and colon, or none."""
        top = schema if isinstance(schema, dict) else {} if schema else {"enum": []}
        compact: dict[str, object] = {"whitespace_flexible": False}
        ways = [compact, {**compact, "item_separator": ", ", "key_separator": ": "}][: 1 + any_whitespace]
        written = [self.rule("json", f"%json {json.dumps({'x-guidance': way, **top})}") for way in ways]
        return f"({' | '.join(written)})" if any_whitespace else written[0]

    def pieces(self, pieces: Pieces) -> str:
        """These and nothing else. Texts that stand side by side are one lexeme."""
        written, text = [], ""
        for piece in pieces:
            if self.id(piece) is None:
                text += str(piece)
            else:
                written += [quoted(text), self.control(piece)]
                text = ""
        return " ".join(filter(None, [*written, quoted(text)]))

    def closed(self, text: str, closing: Pieces) -> str:
        """A text of a terminal's pattern and what closes it, which is spelled out or begins where a control does."""
        at = next((i for i, piece in enumerate(closing) if self.id(piece) is not None), len(closing))
        spelled = "".join(map(str, closing[:at]))
        if at == len(closing):
            return self.rule("body", f"{self.rule('TEXT', text)} {quoted(spelled)}", "[lazy]")
        before = self.rule("TEXT", f"{self.rule('TEXT', text)} {quoted(spelled)}" if spelled else text)
        return f"{before} {self.pieces(closing[at:])}"

    def clear(self, text: str, spellings: Collection[str]) -> str:
        """The terminal's pattern, where it spells none of the texts."""
        if not spellings:
            return text
        return f"{text} & ~/(?s:.*)({'|'.join(map(quote, sorted(spellings)))})(?s:.*)/"

    def id(self, control: Control | str | None) -> int | None:
        """The id of a control that the vocabulary has; None for a text."""
        return self._controls.get(control) if isinstance(control, Control) else None

    def control(self, control: Control | str) -> str:
        """A control, by its id where the vocabulary has it."""
        id = self.id(control)
        return quoted(str(control)) if id is None else f"<[{id}]>"


class Part(msgspec.Struct, frozen=True):
    """One of several: as it stands ``first``, and as it stands behind another, with what separates them.

    A separator and what follows it are one literal wherever they can be: a lexeme is never taken back.
    """

    first: str
    later: str
    required: bool = False


def sequence(rules: Rules, parts: Sequence[Part], *, more: Part | None = None) -> str:
    """The parts in order, those required present, then any number of ``more``.

    Each tail has a rule of its own, so the text is as long as the parts, not as their combinations.
    """
    tail = f"({more.later})*" if more else ""
    begins = [f"{more.first} {tail}"] if more else []
    for part in reversed(parts):
        begin = f"{part.first} {tail}"
        begins = [begin] if part.required else [begin, *begins]
        tail = rules.rule("rest", f"{part.later if part.required else f'({part.later})?'} {tail}")
    if not begins:
        return ""
    return f"({' | '.join(begins)}){'' if any(part.required for part in parts) else '?'}"


def listed_items(prefix: Sequence[str | None], item: str | None, least: int, most: int | None, comma: str) -> str:
    """The items of an array: a prefix, each part only behind the one before, then any number of ``item``."""
    room = None if most is None else max(0, int(most) - len(prefix))
    inside = ""
    if item is not None and room != 0:
        first = max(0, least - len(prefix))
        inside = f"({comma} {item}){{{first},{'' if room is None else room}}}"
        if not prefix:
            rest = f"({comma} {item}){{{max(0, least - 1)},{'' if most is None else int(most) - 1}}}"
            return f"({item} {rest}){'' if least else '?'}"
    for i, part in reversed(list(enumerate(prefix))):
        if part is None or (most is not None and i >= most):
            inside = ""
            continue
        inside = f"{comma if i else ''} {part} {inside}".strip()
        inside = inside if i < least else f"({inside})?"
    return inside
