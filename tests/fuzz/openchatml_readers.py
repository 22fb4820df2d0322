"""Reads random and mutated transcripts with both readers, Python's and JavaScript's: they agree on what is valid.

    python tests/fuzz/openchatml_readers.py [SECONDS] [SEED]

They agree on every code and place, on frames, projections, calls, and what is shown, also of what is not valid. What is
left out, and counted: JSON deeper than Python's goes, headers with a byte order mark or a lone carriage return inside,
and texts that declare tools with letters beyond ASCII or with numbers that JavaScript has not.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from antiphon.formats.openchatml import Implementation, check
from fuzz.openchatml import corpus, invent
from kit.javascript import second_reader

_UNCHECKED = re.compile(r"\[{300}|# Tools[\s\S]*(?:NaN|Infinity|\r(?!\n)|[^\0-\x7f]|\.0)")
_UNLIKE = re.compile(r".\ufeff|\r(?!\n)|[\x85\u2028\u2029]", re.DOTALL)
"""What libyaml takes for breaks and marks in the middle of a text, in a header."""
_IN_XML = "the body is not XML"
VIEWS = ("frames", "projection", "shown", "debug", "resumed", "harmony", "calls")
MILD = [
    "x", " ", "\n", "<", "<|", "é", "<<|end|>", "<|literal|><|end|><|endliteral|>", "{}", "%41", "%", '"', "=", ",",
    " name=a", " intent=debug", " content_type=text", "user", "analysis", "commentary", "2", "json",
    "<|start|>user<|message|>x<|end|>", "<|start|>assistant<|message|>x<|return|>\n",
]  # fmt: skip
"""Words that may leave a transcript valid."""
TYPES = [
    "string", "number", "integer", "boolean", "null", "object", "any", "unknown", '"a"', "'b'", "1", "true",
    "Map<string>", "Array<{}>", "Array<{} | null>", "Record<string, {}>", "{}[]", "{} | {}", "{} & {}",
    "({} | null)[]", '"a" | {}[]', "Array<", "{ a: {}, b?: {} }", "{\n// note\na: {}, // default: 1\nb?: {};\n}",
    "{ [key: string]: {}, a?: {} }", '{ "a": {} }',
]  # fmt: skip
SCHEMAS = [
    '{"type": "string"}', '{"type": ["integer", "null"]}', '{"enum": ["a", 1, null]}', '{"const": {"a": 1}}', "true",
    "false", '{"minimum": 1, "exclusiveMaximum": 3}', '{"multipleOf": 0.5}', '{"minLength": 1, "maxLength": 1}',
    '{"type": "strng"}', '{"items": {}, "minItems": 1}', '{"prefixItems": [{}], "items": false}',
    '{"uniqueItems": true}', '{"contains": {}}', '{"properties": {"a": {}, "b": {}}, "required": ["a"]}',
    '{"properties": {"a": {}}, "additionalProperties": {}}', '{"anyOf": [{}, {}]}', '{"oneOf": [{}, {}]}',
    '{"allOf": [{}, {}]}', '{"not": {}}', '{"required": 1}', '{"minItems": -1}', '{"if": {}, "then": {}, "else": {}}',
    '{"dependentRequired": {"a": ["b"]}}', '{"dependentSchemas": {"a": {}}}', '{"propertyNames": {"maxLength": 1}}',
    '{"minProperties": 1, "maxProperties": 1}', '{"$ref": "#/$defs/x"}', '{"$ref": "http://example.com/x"}',
    '{"contains": {}, "minContains": 0, "maxContains": 1}', '{"description": "x"}',
]  # fmt: skip
VALUES = [
    "1", "2.5", "-1", '"a"', '"ab"', '"b"', "null", "true", "[]", "[{}]", "[{}, {}]", "{}", '{"a": {}}',
    '{"a": {}, "b": {}}', '{"c": {}}', '{"deadline_ms": 5, "a": {}}', '{"deadline_ms": 0}',
]  # fmt: skip
"""Types, schemas and values; others stand in place of the empty braces inside."""
FLAGS: list[list[str]] = [[], [], ["--fragment"], ["--fragment", "--harmony"]]


@dataclass
class Comparison:
    """How many texts were compared, how many of them were valid, how many were left out, and what differed first."""

    compared: int = 0
    valid: int = 0
    left_out: int = 0
    difference: str | None = None


def compare(
    other: Implementation, seed: int, *, seconds: float = 0.0, count: int = 0, tools: bool = False
) -> Comparison:
    """``tools``: texts that declare tools, and call them."""
    rng, seeds, found = random.Random(seed), corpus(), Comparison()
    right = [text for text in seeds if check(text.encode("utf-8", "surrogateescape"))["valid"]]
    end = time.monotonic() + seconds
    while found.compared < count or (not count and time.monotonic() < end):
        if tools:
            seeds = right = [declaring(rng)]
        text = invent(rng, seeds) if rng.random() < 0.5 else vary(rng, right)
        flags = rng.choice(FLAGS)
        report = other(text.encode("utf-8", "surrogateescape"), flags)
        assert isinstance(report, Mapping)
        if _UNCHECKED.search(text) or _UNLIKE.search(text.partition("\n<|start|>")[0]):
            found.left_out += 1
            continue
        ours = check(text.encode("utf-8", "surrogateescape"), flags)
        found.compared += 1
        found.valid += ours["valid"]
        found.difference = _difference(ours, report)
        if found.difference:
            found.difference = f"{flags} {text!r}\n{found.difference}"
            break
    return found


def vary(rng: random.Random, seeds: list[str]) -> str:
    """A transcript of the suite with a word more, or one in another's place."""
    text = rng.choice(seeds)
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(MILD) + text[at + rng.choice([0, 0, 1, 4]) :]


def declaring(rng: random.Random) -> str:
    """A transcript with tools, some in types and some in JSON, and calls of them."""
    typed = [f"type f{i} = (_: {_nested(rng, TYPES)}) => any;" for i in range(3)]
    as_json = [f'{{"name": "g{i}", "parameters": {_nested(rng, SCHEMAS)}}}' for i in range(3)]
    defs = _nested(rng, SCHEMAS).replace("$defs/x", "$defs/y")  # what refers to itself is read in more than one way
    as_json += [f'{{"name": "g3", "parameters": {{"$defs": {{"x": {defs}}}, "allOf": [{{"$ref": "#/$defs/x"}}]}}}}']
    lines = rng.sample([*typed, *as_json, "type f0 = () => any;", '{"name": "g0"}'], 5)
    calls = [
        f"<|start|>assistant to=functions.{rng.choice('fg')}{rng.randrange(4)} call_id=c{i}<|channel|>commentary"
        f"{rng.choice(['', '<|constrain|>json'])}<|message|>{_nested(rng, VALUES[-6:], VALUES)}<|call|>\n"
        for i in range(rng.randrange(3))
    ]
    declared = "\n".join(["# Tools", "## functions", *lines])
    return f"version: 2.2\n<|start|>developer<|message|>{declared}<|end|>\n{''.join(calls)}"


def _nested(rng: random.Random, outer: Sequence[str], inner: Sequence[str] = ()) -> str:
    """A text with others in place of its empty braces, some levels deep."""
    text = rng.choice(outer)
    for _ in range(4):
        text = re.sub(r"\{\}", lambda _: rng.choice(inner or outer), text)
    return text


def _difference(ours: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    for key in ("errors", "warnings"):
        if _places(ours[key]) != _places(other[key]):
            return f"{key}\nours: {ours[key] or 'none'}\nthe other: {other[key] or 'none'}"
    for key in ("valid", *VIEWS):
        if ours[key] != other[key]:
            return f"{key}\nours: {ours[key]}\nthe other: {other[key]}"
    return None


def _places(findings: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Codes and places in their order, before those of XML, in which parsers differ on where a fault is."""
    in_xml = [finding["code"] for finding in findings if _IN_XML in finding["message"]]
    others = [finding for finding in findings if _IN_XML not in finding["message"]]
    return [(one["code"], one["line"], one["column"]) for one in others] + [(code, 0, 0) for code in in_xml]


def main(arguments: list[str]) -> int:
    seconds, seed = float(arguments[0]) if arguments else 60.0, int(arguments[1]) if len(arguments) > 1 else 0
    with second_reader() as other:
        draws = int(os.environ.get("DRAWS", "0"))
        both = [compare(other, seed, seconds=seconds / 2, count=draws, tools=tools) for tools in (False, True)]
    for found in both:
        print(f"{found.compared} texts, {found.valid} of them valid, {found.left_out} left out")
        print(found.difference or "both readers agree")
    return 1 if any(found.difference for found in both) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
