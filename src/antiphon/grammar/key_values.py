"""The arguments of a call as keys and values.

What this spelling cannot be held to is checked when the call is whole; of a strict schema it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError, UnsupportedError

from .grammar import Pieces, Spelling, ValueSpelling
from .literals import LiteralStyle, LiteralWriter, RawValueWriter, Relax, other_members
from .rules import Part, Rules, of_type, quote, resolved, sequence, target, type_of, types_of

if TYPE_CHECKING:
    from .grammar import Json


# Values whose members are tags of their own, as deep as the value.

_ITEM = "item"


@dataclass(frozen=True, slots=True)
class NestedValueWriter:
    """Writes a value and its closing tag, behind its opening one."""

    _rules: Rules
    _spelling: Spelling
    _form: ValueSpelling
    _root: JsonSchema
    _relax: Relax

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
        """A value without members: a text, a word or a number."""
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


_BARE_NAME = r"/[A-Za-z_][A-Za-z0-9_.\-]{0,63}/"
_TAGGED_NAME = r"""/[^\s<>"'=:(){}\[\],]([^<>"'=:\n]{0,62}[^\s<>"'=:])?/"""
_STEPS = 32


class KeyValuesWriter:
    """Writes the rules of one object of arguments."""

    def __init__(self, rules: Rules, spelling: Spelling, json: Json) -> None:
        self._rules = rules
        self._spelling = spelling
        self._json = json
        self._root: JsonSchema = True
        self._has_text = any(form.reads == "text" for form in spelling.values)

    def arguments(self, engine: JsonSchema) -> str:
        """The members of an object of the engine's schema.

        Errors: `RequestError` where none fits that can be written so; `UnsupportedError` for what a strict schema has
        and this spelling cannot be held to.
        """
        self._root = engine
        written = self._object(resolved(engine, engine), "", _STEPS)
        if written is None:
            raise RequestError(
                "no arguments fit these parameters that the model has a way to write",
                code="invalid_schema",
                position=Position(path=self._json.path),
                hint="Spell names and values of the schema without the model's own markers.",
            )
        return written

    def _relax(self, keyword: str, where: str) -> None:
        if self._json.strict:
            raise UnsupportedError(
                f"{keyword} cannot be enforced while sampling, as this model writes its calls",
                code="invalid_schema",
                position=Position(path=self._json.path + where),
                hint="Leave it out, or leave out strict: then it is checked when the call is whole.",
            )

    def _object(self, node: JsonSchema, where: str, steps: int) -> str | None:
        if node is False:
            return None
        given = node if isinstance(node, dict) else {}
        if "anyOf" in given and steps:
            return self._one_of(given, where, steps)
        for key in ("allOf", "patternProperties", "minProperties", "enum", "const"):
            if key in given:
                self._relax(key, f"{where}.{key}")
        return self._members(given, where)

    def _one_of(self, node: dict[str, Any], where: str, steps: int) -> str | None:
        """One way for each branch, which adds to what stands beside it."""
        outer = {key: value for key, value in node.items() if key != "anyOf"}
        ways = []
        for i, branch in enumerate(node["anyOf"]):
            inner = resolved(branch, self._root)
            both = False if inner is False else self._both(outer, inner if isinstance(inner, dict) else {}, where)
            ways.append(self._object(both, f"{where}.anyOf[{i}]", steps - 1))
        found = list(dict.fromkeys(way for way in ways if way is not None))
        if "" in found:
            rest = [way for way in found if way]
            return f"({' | '.join(rest)})?" if rest else ""
        return f"({' | '.join(found)})" if found else None

    def _both(self, outer: dict[str, Any], inner: dict[str, Any], where: str) -> JsonSchema:
        if "object" not in types_of(inner, self._root):
            return False
        known, narrowed = outer.get("properties", {}), inner.get("properties", {})
        if any(not self._narrows(narrowed[name], known[name]) for name in known.keys() & narrowed.keys()):
            self._relax("anyOf", f"{where}.anyOf")
        merged = {**outer, **inner}
        for key in ("properties", "required"):
            if key in outer and key in inner:
                one, other = outer[key], inner[key]
                merged[key] = {**one, **other} if isinstance(one, dict) else [*one, *other]
        return merged

    def _narrows(self, inner: JsonSchema, outer: JsonSchema) -> bool:
        """Whether all values of ``inner`` are plainly some of ``outer``: it is one value of a type, or of a list."""
        if not isinstance(inner, dict) or not isinstance(outer, dict) or inner.keys() != {"const"}:
            return False
        value = inner["const"]
        if not outer.keys() <= {"type", "enum", "description"} or type_of(value) not in types_of(outer, self._root):
            return False
        return value in outer.get("enum", [value])

    def _members(self, node: dict[str, Any], where: str) -> str | None:
        names = [
            *node.get("properties", ()),
            *(n for n in node.get("required", ()) if n not in node.get("properties", ())),
        ]
        # Templates write bare names sorted.
        ordered = sorted(names, key=lambda name: (name.lower(), name))
        orders = [ordered, names] if self._spelling.quote and ordered != names else [names]
        found = [self._in_order(order, node, where) for order in orders]
        ways = list(dict.fromkeys(way for way in found if way is not None))
        return f"({' | '.join(ways)})" if len(ways) > 1 else ways[0] if ways else None

    def _in_order(self, names: list[str], node: dict[str, Any], where: str) -> str | None:
        parts: list[Part] = []
        required = node.get("required", ())
        properties: dict[str, JsonSchema] = node.get("properties", {})
        for name in names:
            schema = properties.get(name, other_members(node))
            member = self._member(name, schema, f"{where}.properties.{name}", required=name in required)
            if member is not None:
                parts.append(member)
            elif name in required:
                return None
        if node.get("maxProperties", len(parts)) < len(parts):
            self._relax("maxProperties", f"{where}.maxProperties")
        return sequence(self._rules, parts, more=self._others(node, where))

    def _others(self, node: dict[str, Any], where: str) -> Part | None:
        """A member whose name the schema does not say, where it has such members."""
        open_ = "additionalProperties" in node or "patternProperties" in node
        if node.get("properties") and not open_:
            return None
        pattern = _TAGGED_NAME if self._spelling.key else _BARE_NAME
        if known := node.get("properties"):
            pattern += f" & ~/({'|'.join(map(quote, sorted(known)))})/"
        values = list(self._values(other_members(node), f"{where}.additionalProperties"))
        if not values:
            return None
        name = self._rules.rule("NAME", pattern)
        return self._part("", f"{name} ({' | '.join(values)})")

    def _member(self, name: str, schema: JsonSchema, where: str, *, required: bool) -> Part | None:
        values = list(self._values(schema, where, name))
        befores = ["".join(map(str, form.before)).split("\n")[0].strip() for form in self._spelling.values]
        bare = bool(self._spelling.key) or name.isidentifier()
        # Else a reader would not find the name between its markers as it is.
        plain = bare and name == name.strip().strip("\"'") and not any(mark and mark in name for mark in befores)
        if not values or not plain:
            return None
        return self._part(name, self._rules.rule("member", " | ".join(values)), required=required)

    def _part(self, name: str, value: str, *, required: bool = False) -> Part:
        key, separator = self._spelling.key, self._spelling.separator
        first, later = self._rules.pieces((*key, name)), self._rules.pieces((*separator, *key, name))
        return Part(f"{first} {value}", f"{later} {value}", required)

    def _values(self, node: JsonSchema, where: str, name: str = "") -> Iterator[str]:
        """A value in each of the forms that it may have, with the markers round it."""
        kinds = types_of(node, self._root)
        bounds = ("enum", "const", "pattern", "minLength", "anyOf")
        may_be_empty = "string" in kinds and not (isinstance(node, dict) and not node.keys().isdisjoint(bounds))
        for place, form in enumerate(self._spelling.values):
            if not _may_be(form, kinds):
                continue
            value = self._value(form, node, where, name, first=not place)
            if value is not None:
                yield f"{self._rules.pieces(form.before)} {value}"
            if value is not None and may_be_empty and self._begins_another(form):
                yield self._rules.pieces((*form.before, *form.after))

    def _begins_another(self, form: ValueSpelling) -> bool:
        """Whether another form's marker goes on where this one's ends: an empty text is then a lexeme of its own."""
        before = "".join(map(str, form.before))
        return any("".join(map(str, o.before)).startswith(before) for o in self._spelling.values if o != form)

    def _value(self, form: ValueSpelling, node: JsonSchema, where: str, name: str, *, first: bool) -> str | None:
        style = LiteralStyle(python=self._spelling.python, quote=self._spelling.quote, avoid=form.avoid)
        literals = LiteralWriter(self._rules, style, self._root, self._relax)
        raw = RawValueWriter(self._rules, literals, form, self._root, self._relax)
        match form.reads:
            case "schema":
                # Of several such forms the others are for texts that the first cannot have.
                return raw.value(node, where, others=first)
            case "text":
                return raw.value(node, where, others=False)
            case "nested":
                return NestedValueWriter(self._rules, self._spelling, form, self._root, self._relax).value(
                    name, node, where
                )
            case "json" if self._has_text and "string" in types_of(node, self._root):
                return raw.value(node, where, strings=False)
            case _:
                ways = [way for way in (literals.value(node, where), *self._otherwise(style, node, where)) if way]
                return f"({' | '.join(ways)}) {self._rules.pieces(form.after)}" if ways else None

    def _otherwise(self, style: LiteralStyle, node: JsonSchema, where: str) -> Iterator[str | None]:
        """Yields literals as templates write them without a look: strings with colons, and JSON within other quotes."""
        given = resolved(node, self._root)
        if not isinstance(given, dict) or given.keys() & {"enum", "const"}:
            return
        types = types_of(given, self._root)
        if style.python and "string" in types:
            unnested = replace(style, closes=r",)\]}")
            yield LiteralWriter(self._rules, unnested, self._root, self._relax).string(of_type(given, "string"), where)
        nested = [name for name in types if name in ("object", "array")]
        if style.quote and nested:
            within = {**of_type(given, ""), "type": nested}
            yield LiteralWriter(self._rules, LiteralStyle(), self._root, self._relax).value(within, where)


def _may_be(form: ValueSpelling, kinds: tuple[str, ...]) -> bool:
    """Whether a value of the types may have the form, whose marker may name its type."""
    if form.reads != "json":
        return True
    before = "".join(map(str, form.before))
    named = [kind for kind in ("string", "number", "boolean", "null", "object", "array") if f'"{kind}"' in before]
    return not named or any(kind in named or (kind == "integer" and "number" in named) for kind in kinds)
