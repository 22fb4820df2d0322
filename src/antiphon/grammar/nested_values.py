"""Values whose members are tags of their own, as deep as the value."""

from __future__ import annotations

from typing import Any

from antiphon.conversation import JsonSchema

from .kinds import of_type, target, types_of
from .literals import LiteralStyle, LiteralWriter, Relax
from .raw_values import RawValueWriter
from .rules import Part, Rules, sequence
from .spelling import Pieces, Spelling, ValueSpelling

_ITEM = "item"


class NestedValueWriter:
    """Writes a value and its closing tag, behind its opening one."""

    def __init__(self, rules: Rules, spelling: Spelling, form: ValueSpelling, root: JsonSchema, relax: Relax) -> None:
        self._rules = rules
        self._spelling = spelling
        self._form = form
        self._root = root
        self._relax = relax

    def value(self, name: str, node: JsonSchema, where: str) -> str | None:
        """The value of the member ``name``."""
        return self._value(name, node, where, _closing(self._form.after, name))

    def _value(self, name: str, node: JsonSchema, where: str, closing: Pieces) -> str | None:
        if isinstance(node, dict) and "$ref" in node:
            key = (id(self._root), name, node["$ref"], closing)
            inner = target(node["$ref"], self._root)
            return self._rules.recursive(key, lambda: self._value(name, inner, where, closing) or '%json {"enum": []}')
        ways = [self._raw(node, where, closing), self._empty(node, closing)]
        given = node if isinstance(node, dict) else {}
        for branch in given.get("anyOf", (given,)):
            if isinstance(branch, dict):
                ways += [self._object(branch, where, closing), self._array(branch, where, closing)]
        found = list(dict.fromkeys(way for way in ways if way is not None))
        return f"({' | '.join(found)})" if found else None

    def _empty(self, node: JsonSchema, closing: Pieces) -> str | None:
        """Nothing between the tags, which is read as an array, an object or null, in this order; as a text first."""
        types = types_of(node, self._root)
        given = node if isinstance(node, dict) else {}
        if "string" in types or "enum" in given or "anyOf" in given:
            return None
        least = {"array": "minItems", "object": "minProperties", "null": ""}
        kind = next((name for name in least if name in types), None)
        needs = given.get("required") if kind == "object" else None
        return None if kind is None or needs or given.get(least[kind]) else self._rules.pieces(closing)

    def _raw(self, node: JsonSchema, where: str, closing: Pieces) -> str | None:
        """What has no members: a text, a word or a number."""
        types = [name for name in types_of(node, self._root) if name not in ("object", "array")]
        if not types or node is False:
            return None
        form = ValueSpelling(after=closing, avoid=self._form.avoid)
        style = LiteralStyle(python=self._spelling.python, avoid=form.avoid)
        writer = RawValueWriter(
            self._rules, LiteralWriter(self._rules, style, self._root, self._relax), form, self._root, self._relax
        )
        if isinstance(node, dict) and "anyOf" in node:
            return writer.value({"anyOf": [self._flat(branch) for branch in node["anyOf"]]}, where)
        return writer.value(self._flat(node), where)

    def _flat(self, node: JsonSchema) -> JsonSchema:
        types = [name for name in types_of(node, self._root) if name not in ("object", "array")]
        given = node if isinstance(node, dict) else {}
        return {**of_type(given, ""), "type": types} if types and "enum" not in given else bool(types) and node

    def _object(self, node: dict[str, Any], where: str, closing: Pieces) -> str | None:
        properties = node.get("properties")
        if not properties or "object" not in types_of(node, self._root):
            return None
        parts = []
        for name, schema in properties.items():
            member = self._tagged(name, schema, f"{where}.properties.{name}")
            if member is not None:
                parts.append(Part(member, member, name in node.get("required", ())))
        return f"{sequence(self._rules, parts)} {self._rules.pieces(closing)}"

    def _array(self, node: dict[str, Any], where: str, closing: Pieces) -> str | None:
        if "array" not in types_of(node, self._root) or not isinstance(node.get("items"), dict):
            return None
        item = self._tagged(_ITEM, node["items"], f"{where}.items")
        least, most = max(1, int(node.get("minItems", 1))), node.get("maxItems", "")
        return None if item is None else f"({item}){{{least},{most}}} {self._rules.pieces(closing)}"

    def _tagged(self, name: str, node: JsonSchema, where: str) -> str | None:
        inside = self._value(name, node, where, _stripped(_closing(self._form.after, name)))
        if inside is None:
            return None
        begins = self._rules.pieces((*self._spelling.key, name, *_stripped(self._form.before)))
        return f"{begins} {inside}"


def _closing(after: Pieces, name: str) -> Pieces:
    return tuple(piece.replace("{key}", name) if type(piece) is str else piece for piece in after)


def _stripped(pieces: Pieces) -> Pieces:
    """Inner tags have no line breaks between."""
    last = pieces[-1] if pieces else ""
    return (*pieces[:-1], last.rstrip()) if type(last) is str else pieces
