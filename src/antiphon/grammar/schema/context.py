"""The context of translating one schema's nodes: definitions by name, the author's schema, what was relaxed.

Definitions that are referred to are written once, under short names, and may refer to themselves:

    schema   {"$ref": "#/$defs/node", "$defs": {"node":
             {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "not": {"required": ["x"]}}}}
    engine   {"$ref": "#/$defs/d0", "$defs": {"d0":
             {"type": "object", "properties": {"next": {"$ref": "#/$defs/d0"}, "x": false}}}}
    accepts  {}  {"next":{"next":{}}}
    refuses  {"x":1}  {"next":{"x":1}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from jsonschema_rs import CanonicalSchema, canonical

from antiphon.conversation import JsonSchema
from antiphon.errors import RequestError

from .branches import Authored, Branch, parts
from .order import AuthoredSchema, items, listed, member, of_pattern, order_of, prefix_of, under

MOST_NODES = 20_000
"""How many nodes the engine's schema may have: alternatives multiply."""
Relaxed = list[tuple[str, ...]]


class Translation:
    """One schema's translation: what all its places share."""

    def __init__(
        self,
        form: CanonicalSchema,
        author: AuthoredSchema,
        node: Callable[[CanonicalSchema, TranslationContext], JsonSchema],
    ) -> None:
        """``author`` is the schema as it was written; ``node`` translates any one node of its canonical ``form``."""
        self.author = author
        self._form = form
        self._node = node
        self._names: dict[str, str] = {}
        self._targets = form.definitions()
        self._places: dict[str, Authored] = {}
        self._nodes = 0
        self.relaxed: Relaxed = []

    def schema(self, node: CanonicalSchema, context: TranslationContext) -> JsonSchema:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise RequestError(
                "the schema has too many cases", code="invalid_schema", hint="Use fewer oneOf, if, not or dependencies."
            )
        return self._node(node, context)

    def reference(self, uri: str) -> JsonSchema:
        name = self._names.setdefault(uri, f"d{len(self._names)}")
        return {"$ref": f"#/$defs/{name}"}

    def joint(self, uris: Iterable[str], whole: CanonicalSchema, places: Authored) -> JsonSchema:
        """A reference to what definitions are together, as ``places`` has them: they may meet again inside of it."""
        ranks = {id(node): i for i, node in enumerate(self.author.applying(places))}
        ranked = {uri: min((ranks.get(id(node), len(ranks)) for node in self.place(uri)), default=0) for uri in uris}
        together = sorted(ranked, key=lambda uri: (ranked[uri], uri))
        uri = " ".join(together)
        self._targets.setdefault(uri, whole)
        self._places.setdefault(uri, tuple(place for one in together for place in self.place(one)))
        return self.reference(uri)

    def place(self, uri: str) -> Authored:
        """The place of a definition in the author's schema."""
        return self._places[uri] if uri in self._places else self.author.at(uri)

    def definition(self, uri: str) -> CanonicalSchema:
        found = self._targets.get(uri) or self._form.definition(uri)
        if found is None:
            raise RequestError(f"the schema refers to {uri!r}, which it does not have", code="invalid_schema")
        return found

    def definitions(self) -> dict[str, JsonSchema]:
        """The definitions that were referred to, those that they refer to, and so on."""
        written: dict[str, JsonSchema] = {}
        while len(written) < len(self._names):
            for uri, name in list(self._names.items()):
                if name not in written:
                    written[name] = TranslationContext(self, self.place(uri)).schema(self.definition(uri))
        return written


class TranslationContext(msgspec.Struct, frozen=True):
    """One place of a translation: `schema` for what is at the place, `relax` for what the engine cannot enforce.

    ``places`` are the author's schemas that apply there; those of an inner value are in the context that `member`,
    `others` and `items` give.
    """

    whole: Translation
    places: Authored

    def schema(self, node: CanonicalSchema) -> JsonSchema:
        """The engine's schema of a node. Error: the whole has become more than `MOST_NODES`."""
        return self.whole.schema(node, self)

    def relax(self, *keywords: str) -> JsonSchema:
        """Lets any value through where one of ``keywords`` would not; says so in `Translation.relaxed`."""
        self.whole.relaxed.append(keywords)
        return True

    def target(self, node: CanonicalSchema) -> CanonicalSchema:
        """Resolves a reference; any other node is returned as it is."""
        for _ in range(32):
            match node.view():
                case canonical.ReferenceView(uri):
                    node = self.whole.definition(uri)
                case _:
                    break
        return node

    def applying(self, branch: Branch | None = None) -> TranslationContext:
        """The place with all that applies to its value, ``branch`` being the alternative that is translated."""
        return TranslationContext(self.whole, self.whole.author.applying(self.places, branch))

    def parts(self, node: CanonicalSchema, branch: Branch) -> list[CanonicalSchema]:
        """The object as several where its author gives alternatives, which it is of, an order each; else itself."""
        for ways in self.whole.author.lost_orders(self.places, branch):
            several = parts(node, branch, ways)
            if len(several) > 1:
                return several
        return [node]

    def listed(self) -> list[str]:
        """The names that the author gives an object, in order, where `applying` says what applies."""
        return listed(self.places)

    def in_order(self, names: Iterable[str]) -> list[str]:
        """The names in their author's order; others after them, by the alphabet."""
        ranks = {name: i for i, name in enumerate(order_of(self.places))}
        return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), name))

    def member(self, name: str) -> TranslationContext:
        """The value of a property."""
        return TranslationContext(self.whole, member(self.places, name))

    def pattern(self, pattern: str) -> TranslationContext:
        """The value of a property whose name has a pattern."""
        return TranslationContext(self.whole, of_pattern(self.places, pattern))

    def others(self) -> TranslationContext:
        """The value of a property that has no schema by name."""
        return TranslationContext(self.whole, under(self.places, "additionalProperties", "unevaluatedProperties"))

    def containing(self) -> TranslationContext:
        """The item that an array must have."""
        return TranslationContext(self.whole, under(self.places, "contains"))

    @property
    def prefix(self) -> int:
        """How many items of an array have a place of their own, where `applying` says what applies."""
        return max((len(prefix_of(node)) for node in self.places), default=0)

    def items(self, place: int | None = None) -> TranslationContext:
        """The item at a place of a tuple, or those behind it."""
        return TranslationContext(self.whole, items(self.places, place))
