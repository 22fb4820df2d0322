"""Patterns, grammars and great schemas that no author means well: tables by name, and generators that make more.

Each generator yields ``(name, program)``, its table first and then as many more, the same for the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from kit.hostile_schemas import HOSTILE, HOSTILE_PATTERNS, PATTERNS, closed


def _objects(count: int) -> dict[str, Any]:
    return closed({f"p{i}": {"type": "string"} for i in range(count)}, optional=True)


def _chain(length: int, step: Callable[[dict[str, str]], dict[str, Any]]) -> dict[str, Any]:
    """Definitions that each lead to the next by ``step``."""
    steps = {f"d{i}": step({"$ref": f"#/$defs/d{i + 1}"}) for i in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{length}": {"type": "object"}}}


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


_TWICE = {"type": "object", "properties": {"x": {"$ref": "#/$defs/e"}}, "required": ["x"]}
GREAT_SCHEMAS: dict[str, Any] = {
    "two thousand properties": _objects(2000),
    "objects of two thousand": closed({f"o{i}": _objects(1999) for i in range(3)}),
    "five thousand values": {"enum": [f"value number {i}" for i in range(5000)]},
    "two thousand alternatives": {"anyOf": [closed({f"k{i}": {"const": i}}) for i in range(2000)]},
    "a thousand exclusive alternatives": {"oneOf": [closed({f"k{i}": {"const": i}}) for i in range(1000)]},
    "exclusive alternatives that overlap": {
        "oneOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": i}}} for i in range(500)]
    },
    "three hundred patterns that meet": {
        "allOf": [{"type": "string", "pattern": f"^.*{i}.*$"} for i in range(300)]
    },
    "two thousand denials": {"allOf": [{"not": {"enum": [i]}} for i in range(2000)]},
    "five hundred patterns of names": {
        "type": "object", "patternProperties": {f"^x{i}.*{i % 7}$": {"type": "integer"} for i in range(500)}
    },
    "a long chain": _chain(1500, lambda next: {"type": "object", "properties": {"n": next}}),
    "a chain that doubles": _chain(40, lambda next: {"allOf": [next, next]}),
    "a chain that doubles by choice": _chain(40, lambda next: {"anyOf": [next, {"type": "array", "items": next}]}),
    "a web": {
        "$ref": "#/$defs/d0",
        "$defs": {
            f"d{i}": {"properties": {f"n{j}": {"$ref": f"#/$defs/d{(i * 7 + j) % 90}"} for j in range(50)}}
            for i in range(90)
        },
    },
    "itself twice, exclusive": {
        "$ref": "#/$defs/e", "$defs": {"e": {"oneOf": [{"type": "null"}, _TWICE, {**_TWICE, "minProperties": 2}]}}
    },
    "itself twice, both": {"$ref": "#/$defs/e", "$defs": {"e": {"type": "object", "allOf": [_TWICE, _TWICE]}}},
    "a product of choices": {
        "allOf": [
            {"anyOf": [{"properties": {f"a{i}_{j}": {"type": "integer"}}} for j in range(10)]} for i in range(10)
        ]
    },
    "a thousand conditions": {
        "allOf": [
            {"if": {"properties": {f"a{i}": {"const": 1}}}, "then": {"required": [f"b{i}"]}} for i in range(1000)
        ]
    },
    "many items of many items": {
        "type": "array", "minItems": 9999, "items": {"type": "array", "minItems": 9999, "items": {"type": "array"}}
    },
    "long texts": closed({f"p{i}": {"type": "string", "minLength": 9999, "maxLength": 99999 + i} for i in range(400)}),
    "a thousand steps": closed(
        {f"p{i}": {"type": "number", "minimum": i / 7, "maximum": 1e15 + i, "multipleOf": 0.01} for i in range(1000)}
    ),
    "great ranges": closed(
        {f"p{i}": {"type": "integer", "minimum": -(10**15) - i, "maximum": 10**15 + i} for i in range(1900)}
    ),
    "nested as deep as may be": _nested(31),
}  # fmt: skip

GRAMMARS: dict[str, str] = {
    "a long list": "root ::= " + " | ".join(f'"{"ab" * 20}{i}"' for i in range(1300)),
    "counts of counts": 'root ::= ((("a"{0,30}){0,30}){0,30}){0,30}',
    "a long count that leads back": "root ::= [a-z]{1000,2000} root?",
    "counts of rules": 'root ::= x{1000}\nx ::= y{100}\ny ::= "a" | "b" x',
    "ambiguous": 'root ::= s\ns ::= s s | s s s | "a" | ""',
    "left behind what may be empty": 'root ::= a\na ::= b a "x" | "y"\nb ::= "" | "z"',
    "great classes": "root ::= "
    + " ".join("[^" + "".join(chr(0x400 + 2 * i * k % 3000) for i in range(200)) + "]*" for k in range(1, 60)),
    "a web of rules": "root ::= r0\n"
    + "\n".join(f"r{i} ::= " + " | ".join(f'r{(i * 7 + j) % 499} "x"' for j in range(15)) for i in range(499)),
    "groups without an end": "root ::= " + "(" * 60_000,
    "escapes": 'root ::= "' + "\\x41" * 15_000 + '"',
    "a comment": "#" + "a" * 60_000 + '\nroot ::= "a"',
    "long names": "root ::= " + " ".join("a" * 2000 + str(i) for i in range(30)),
    "terminals that count": "start: "
    + " | ".join(f"T{i}" for i in range(480))
    + "\n"
    + "\n".join(f"T{i}: /.*a.{{{i % 60}}}b/" for i in range(480)),
    "terminals that double": "start: T0\n" + "\n".join(f"T{i}: T{i + 1} T{i + 1}" for i in range(30)) + '\nT30: "a"',
    "rules that double": "start: r0\n" + "\n".join(f"r{i}: r{i + 1} r{i + 1}" for i in range(400)) + '\nr400: "a"',
    "a long pattern": "start: /" + "(a.{10}b)*" * 400 + "/",
    "terminals in a circle": "start: A\nA: B\nB: A",
    "many groups": "start: " + "(" * 19 + '"a"' + ")*" * 19,
    "comments": "// x\n" * 12_000 + 'start: "a"',
    "what is ignored": "start: A+\nA: /[a-z]+/\n%ignore /( |\\n|.{50}x)+/",
}
"""In GBNF and in Lark."""


def hostile_schemas(generated: int = 0, seed: int = 30) -> Iterator[tuple[str, Any]]:
    """The tables of schemas, and more of the generated patterns in them."""
    yield from GREAT_SCHEMAS.items()
    yield from HOSTILE.items()
    yield from HOSTILE_PATTERNS.items()
    for name, pattern in hostile_patterns(generated, seed):
        yield f"of {name}", closed({"x": {"type": "string", "pattern": pattern}})


def hostile_patterns(generated: int = 300, seed: int = 30) -> Iterator[tuple[str, str]]:
    """The table of patterns, and drawn ones of classes, counts and alternatives."""
    yield from PATTERNS.items()
    random = Random(seed)
    for number in range(generated):
        options = "|".join(_pattern(random, 0) for _ in range(random.randint(1, 8)))
        yield f"pattern {number}", f"^(?:{options})*$"


def _pattern(random: Random, depth: int) -> str:
    drawn = random.random()
    if depth > 5 or drawn < 0.2:
        return random.choice(["a", "b", ".", "[a-z]", "[^x]", r"\w", r"\p{L}", r"\d", r"\s", "(?:ab|ba)"])
    if drawn < 0.5:
        return _pattern(random, depth + 1) + _pattern(random, depth + 1)
    if drawn < 0.7:
        return f"(?:{_pattern(random, depth + 1)}|{_pattern(random, depth + 1)})"
    counts = ["*", "+", "?", f"{{0,{random.randint(1, 200)}}}", f"{{{random.randint(1, 99)}}}"]
    return f"(?:{_pattern(random, depth + 1)}){random.choice(counts)}"


def hostile_grammars(generated: int = 300, seed: int = 30) -> Iterator[tuple[str, str]]:
    """The table of grammars, and drawn ones, in GBNF and in Lark in turn."""
    yield from GRAMMARS.items()
    random = Random(seed)
    for number in range(generated):
        count = random.choice([3, 10, 50, 200])
        if number % 2:
            rules = "\n".join(f'r{i} ::= {_expression(random, count, "gbnf", 0)} | "q"' for i in range(count))
            yield f"GBNF {number}", f"root ::= r0\n{rules}"
        else:
            rules = "\n".join(f"r{i}: {_expression(random, count, 'lark', 0)} | T0" for i in range(count))
            terminals = "\n".join(f"T{i}: {_expression(random, count, 'terminal', 0)}" for i in range(count))
            yield f"Lark {number}", f"start: r0\n{rules}\n{terminals}"


_COUNTED = {
    "gbnf": ["*", "+", "?", "{0,50}", "{3,}", "{100}"],
    "lark": ["*", "+", "?"],
    "terminal": ["*", "+", "~0..50"],
}


def _expression(random: Random, count: int, kind: str, depth: int) -> str:
    drawn = random.random()
    if depth > 3 or drawn < 0.45:
        rule, terminal = f"r{random.randrange(count)}", f"T{random.randrange(count)}"
        atoms = {
            "gbnf": [rule, '"a"', "[a-z]", "[^\\n]", '"xyz"', "."],
            "lark": [rule, terminal],
            "terminal": ['"a"', "/[a-z]+/", "/.{3,40}x/", '"xyz"'],
        }
        return random.choice(atoms[kind])
    first, second = (_expression(random, count, kind, depth + 1) for _ in range(2))
    if drawn < 0.65:
        return f"{first} {second}"
    return f"({first} | {second})" if drawn < 0.85 else f"({first}){random.choice(_COUNTED[kind])}"
