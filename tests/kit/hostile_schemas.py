"""Schemas that no author means well: a table of them by name, and a strategy that makes more of their parts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

CYCLE = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
"""Definitions that only lead to each other."""


def closed(properties: dict[str, Any], *, optional: bool = False) -> dict[str, Any]:
    required = [] if optional else list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _wrapped(schemas: dict[str, Any]) -> dict[str, Any]:
    """Each as it stands, and as a property, which is required or not in turn."""
    properties = {
        f"property, {name}": closed({"x": schema}, optional=bool(i % 2))
        for i, (name, schema) in enumerate(schemas.items())
    }
    return {**schemas, **properties}


NUMBERS: dict[str, Any] = {
    f"{key} {value:g}": {"type": "number" if isinstance(value, float) else "integer", key: value}
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    for value in (2**53 + 1, 2**63, 2**64, 2**256 - 1, 1e300, 1e-300, 0.1)
}
VALUES: dict[str, Any] = {
    **{f"const {value}": {"const": value} for value in (2**53 + 1, 2**64, -(2**70), 1e300, -0.0, "", "\0", '"', "é😀")},
    "an enum with a great integer inside": {"enum": ["a", {"b": [2**64]}]},
    "a great default": {"type": "integer", "default": 2**64, "examples": [2**70]},
    "no values": {"enum": []},
    "const beside enum": {"const": 1, "enum": [2]},
}
CONTRADICTIONS: dict[str, Any] = {
    "bounds": {"type": "integer", "minimum": 3, "maximum": 2},
    "lengths": {"type": "string", "minLength": 3, "maxLength": 2},
    "items": {"type": "array", "minItems": 3, "maxItems": 2},
    "patterns": {"allOf": [{"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^b$"}]},
    "a pattern and a length": {"type": "string", "pattern": "^a$", "minLength": 5},
    "a step between bounds": {"type": "integer", "minimum": 1, "maximum": 2, "multipleOf": 5},
    "a fraction between bounds": {"type": "number", "minimum": 0.3, "maximum": 0.35, "multipleOf": 0.1},
    "types": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "a value of another type": {"type": "string", "enum": [1, 2]},
    "a name that may not be": {"type": "object", "required": ["a"], "additionalProperties": False},
    "nothing": False,
    "never matched": {"type": "string", "pattern": "^[^\\s\\S]$"},
}
REFERENCES: dict[str, Any] = {
    "a circle": {"$ref": "#/$defs/a", "$defs": CYCLE},
    "a circle in a required property": {**closed({"x": {"$ref": "#/$defs/a"}}), "$defs": CYCLE},
    "a circle in an optional property": {**closed({"x": {"$ref": "#/$defs/a"}}, optional=True), "$defs": CYCLE},
    "a circle or null": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "$defs": CYCLE},
    "items of a circle": {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": CYCLE},
    "itself": {"$ref": "#"},
    "itself through allOf": {"allOf": [{"$ref": "#"}]},
    "a definition of itself": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}},
    },
    "itself or null": {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}},
    "what it is not": {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
    "without end": {"$ref": "#/$defs/n", "$defs": {"n": closed({"n": {"$ref": "#/$defs/n"}})}},
    "a property": {"$ref": "#/properties/x", "properties": {"x": {"type": "integer"}}},
    "a value": {"$ref": "#/enum/0", "enum": [{"type": "integer"}]},
    "a number": {"$ref": 1},
    "an escaped name": {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "object"}}},
    "an anchor": {"$ref": "#foo", "$defs": {"a": {"$anchor": "foo", "type": "object"}}},
    "an id": {"$id": "urn:x", "$defs": {"a": {"$id": "urn:y", "type": "object"}}, "$ref": "urn:y"},
}
SPELLINGS = ("<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<think>", "</tool_call>")
CONTROLS: dict[str, Any] = {
    f"{what} {spelling}": schema
    for spelling in SPELLINGS
    for what, schema in {
        "a name": closed({spelling: {"type": "integer"}}),
        "a required name": {"type": "object", "required": [spelling]},
        "an enum": closed({"x": {"enum": [spelling, "a"]}}),
        "a const": closed({"x": {"const": {spelling: [spelling]}}}),
        "a pattern": closed({"x": {"type": "string", "pattern": f"^a?{spelling.replace('|', '[|]')}$"}}),
        "a title": {"title": spelling, "description": spelling, "type": "object"},
        "a pattern of names": {
            "type": "object", "patternProperties": {f"^{spelling.replace('|', '[|]')}$": {"type": "integer"}},
            "additionalProperties": False, "minProperties": 1,
        },
    }.items()
}  # fmt: skip
SHAPES: dict[str, Any] = {
    "an unknown type": {"type": "strin"},
    "a type that is a number": {"type": 3},
    "a list of types": {"type": ["string", "null", "integer"]},
    "no types": {"type": []},
    "required as a text": {"type": "object", "required": "a"},
    "required as numbers": {"type": "object", "required": [1]},
    "true": True,
    "properties as a list": {"type": "object", "properties": []},
    "a property as a number": closed({"a": 1}),
    "items as a list": {"type": "array", "items": [{"type": "integer"}]},
    "an empty anyOf": {"anyOf": []},
    "definitions as numbers": {"$defs": {"a": 1}},
    "a malformed pattern": {"type": "string", "pattern": "("},
    "an unknown property of characters": {"type": "string", "pattern": "\\p{Foo}"},
    "a backwards range": {"type": "string", "pattern": "^[z-a]$"},
    "a lone surrogate in a pattern": {"type": "string", "pattern": "\\ud800"},
    "a lone surrogate in a name": closed({"\udedd": {"type": "integer"}}),
    "a lone surrogate in a value": {"enum": ["\ud800"]},
    "guidance of the engine": {"x-guidance": 3, "type": "object"},
    "a great length": {"type": "string", "minLength": 2**64},
    "names that come twice": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    "many states": closed({"x": {"type": "string", "pattern": "^(?:a|b)*a(?:a|b){25}$"}}),
    "three hundred properties": closed({f"p{i}": {"type": "null"} for i in range(300)}, optional=True),
}
PATTERNS: dict[str, str] = {
    "two wildcards with counts": "^(?:.*a.{100}|.*b.{99}c)*$",
    "many wildcards with counts": f"^(?:{'|'.join(f'.*{chr(97 + i % 3)}.{{{30 + i}}}' for i in range(40))})*$",
    "counts of counts": "^(?:(?:.{0,60}a){1,60}|(?:.{0,59}b){1,60})*$",
    "nested quantifiers": "^(((a+)+)+)+$",
    "what may each be left out": "^" + "a?b?c?" * 300 + "$",
    "options, then as many": "^(a?){500}a{500}$",
    "ranges beside ranges": "^(?:[a-c]{1,120}[b-d]{1,120}[a-b]{1,120}){1,40}$",
    "a suffix of many": "^.*(?:foo.{40}|bar.{41}|baz.{42}|a.{90})$",
    "lengths without a common factor": "^(?:(?:[ab]{3})*|(?:[ab]{5})*|(?:[ab]{7})*|(?:[ab]{11})*|(?:[ab]{13})*)$",
    "classes of Unicode": r"^(?:\p{L}*\p{Lu}\p{L}{80}|\p{N}*.{70}\p{N})*$",
    "scripts": r"^\p{Script=Greek}+\P{L}*$",
    "a look ahead": "^(?=a)[ab]*$",
    "a look ahead that denies": "^(?!.*aa)[ab]*$",
    "a look behind": "(?<=a)b",
    "a reference back": r"^(a|b)\1$",
    "a named reference back": r"^(?<x>a|b)\k<x>$",
    "the edge of a word": r"^\ba\b$",
    "a flag": "^(?i:a)b$",
    "an atomic group": "^(?>a*)b$",
    "a possessive count": "^a*+b$",
    "anchors inside": "^a$|b^c|$",
    "a control by its number": r"^\cA\x07\u0000?\u{41}$",
    "half a character": r"^[\ud83d\ude00]$",
    "not in any line": "^.*$",
    "a class without any": "^[]$",
    "a class of all": "^[^]$",
    "digits": r"^\d\w\s\D\W\S$",
}
"""Patterns whose automata grow as they are followed, and what only some dialects have."""


def _in_places(pattern: str) -> dict[str, Any]:
    """A schema for each place that a pattern may have."""
    names = {"type": "object", "minProperties": 1}
    return {
        "of a text": closed({"x": {"type": "string", "pattern": pattern}}),
        "of names": {**names, "patternProperties": {pattern: {"type": "null"}}, "additionalProperties": False},
        "of all names": {**names, "propertyNames": {"pattern": pattern}, "additionalProperties": {"type": "null"}},
    }


HOSTILE_PATTERNS: dict[str, Any] = {
    f"{name}, {place}": schema for name, pattern in PATTERNS.items() for place, schema in _in_places(pattern).items()
}
HOSTILE: dict[str, Any] = {
    **_wrapped(NUMBERS | VALUES | CONTRADICTIONS),
    **{f"reference to {name}": schema for name, schema in REFERENCES.items()},
    **CONTROLS,
    **SHAPES,
}

_names = st.sampled_from([*SPELLINGS, "a", "b", "", "\0", '"', "\\", "é😀", "$ref", "minimum", "const", "a" * 40])
_numbers = st.sampled_from(
    [0, -0.0, 1, -1, 3, 2**53, 2**53 + 1, 2**63 - 1, 2**64, -(2**64), 2**256, 1e300, 5e-324, 0.1, 1e-7, 0.3]
)
_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _names),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_names, inner, max_size=2)),
    max_leaves=3,
)
_patterns = st.sampled_from(
    ["^a*$", "a", "^<[|]end[|]>$", "^[^\\s\\S]$", "(?=a)", "(", "^\\d+$", "a^b", "", '^"$', "^(a+)+$", "^x-", "."]
)
_refs = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/$defs/missing", ""])
_types = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "any"])
_counts = st.sampled_from([0, 1, 2, 3, 1.0, -1, 2**64])


def _keywords(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    named = st.dictionaries(_names, inner, max_size=3)
    listed = st.lists(inner, max_size=3)
    return {
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _numbers),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _counts),
        **dict.fromkeys(("anyOf", "allOf", "oneOf", "prefixItems"), listed),
        **dict.fromkeys(("not", "items", "additionalProperties", "if", "then", "propertyNames", "contains"), inner),
        "type": st.one_of(_types, st.lists(_types, max_size=2)),
        "properties": named,
        "patternProperties": st.dictionaries(_patterns, inner, max_size=2),
        "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        "required": st.lists(_names, max_size=2),
        "enum": st.lists(_values, max_size=3),
        "const": _values,
        "default": _values,
        "pattern": _patterns,
        "format": st.sampled_from(["date", "uuid", "regex", "odd"]),
        "uniqueItems": st.booleans(),
        "$ref": _refs,
        "title": _names,
    }


def _schema(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keywords = _keywords(inner)
    return st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=5, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries({key: keywords[key] for key in keys})
    )


schemas: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.booleans(), _types.map(lambda name: {"type": name})), _schema, max_leaves=6
)
"""Schemas of any keywords with any values."""
