"""What the translations of one schema's nodes share: definitions by name, the order of names, what was relaxed.

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

from jsonschema_rs import CanonicalSchema, canonical

from antiphon.conversation import JsonSchema
from antiphon.errors import RequestError

MOST_NODES = 20_000
"""How many nodes the engine's schema may have: alternatives multiply."""


class TranslationContext:
    """One schema's translation: `schema` for what is inside a node, `relax` for what the engine cannot enforce."""

    def __init__(
        self,
        form: CanonicalSchema,
        ranks: dict[str, int],
        node: Callable[[CanonicalSchema, TranslationContext], JsonSchema],
    ) -> None:
        """``ranks`` are the author's order of property names; ``node`` translates any one node."""
        self._form = form
        self._ranks = ranks
        self._node = node
        self._names: dict[str, str] = {}
        self._targets = form.definitions()
        self._nodes = 0
        self.relaxed: list[tuple[str, ...]] = []

    def schema(self, node: CanonicalSchema) -> JsonSchema:
        """The engine's schema of a node. Error: the whole has become more than `MOST_NODES`."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise RequestError(
                "the schema has too many cases", code="invalid_schema", hint="Use fewer oneOf, if, not or dependencies."
            )
        return self._node(node, self)

    def relax(self, *keywords: str) -> JsonSchema:
        """Lets any value through where one of ``keywords`` would not; says so in `relaxed`."""
        self.relaxed.append(keywords)
        return True

    def reference(self, uri: str) -> JsonSchema:
        name = self._names.setdefault(uri, f"d{len(self._names)}")
        return {"$ref": f"#/$defs/{name}"}

    def joint(self, uris: Iterable[str], whole: CanonicalSchema) -> JsonSchema:
        """A reference to what definitions are together: they may come together again inside of it."""
        uri = " ".join(sorted({*uris}))
        self._targets.setdefault(uri, whole)
        return self.reference(uri)

    def target(self, node: CanonicalSchema) -> CanonicalSchema:
        """What a reference stands for; any other node itself."""
        for _ in range(32):
            match node.view():
                case canonical.ReferenceView(uri):
                    node = self._definition(uri)
                case _:
                    break
        return node

    def definitions(self) -> dict[str, JsonSchema]:
        """The definitions that were referred to, those that they refer to, and so on."""
        written: dict[str, JsonSchema] = {}
        while len(written) < len(self._names):
            for uri, name in list(self._names.items()):
                if name not in written:
                    written[name] = self.schema(self._definition(uri))
        return written

    def in_order(self, names: Iterable[str]) -> list[str]:
        """The names in their author's order."""
        return sorted(names, key=lambda name: (self._ranks.get(name, len(self._ranks)), name))

    def _definition(self, uri: str) -> CanonicalSchema:
        found = self._targets.get(uri) or self._form.definition(uri)
        if found is None:
            raise RequestError(f"the schema refers to {uri!r}, which it does not have", code="invalid_schema")
        return found
