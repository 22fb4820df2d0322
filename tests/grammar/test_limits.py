"""What a hostile schema or pattern meets before anything compiles it."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.grammar import EndOfTurn, Json, Regex, chain, check_pattern, check_schema
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer

VOCABULARY = Vocabulary(ByteTokenizer(["<eos>"]), [256])


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


BEYOND: dict[str, tuple[Callable[[], Any], str]] = {
    "minItems": (lambda: {"type": "array", "minItems": 10**9}, "s.minItems"),
    "maxItems": (lambda: {"properties": {"a": {"items": {}, "maxItems": 10**9}}}, "s.properties.a.maxItems"),
    "a property that is called default": (
        lambda: {"properties": {"default": {"minItems": 10**9}}},
        "s.properties.default.minItems",
    ),
    "minProperties": (lambda: {"minProperties": 10**9}, "s.minProperties"),
    "a fractional count": (lambda: {"maxItems": 1e9}, "s.maxItems"),
    "minLength": (lambda: {"minLength": 10**9}, "s.minLength"),
    "1e400": (lambda: {"minItems": float("inf")}, "s.minItems"),
    "not a number": (lambda: {"maximum": float("nan")}, "s.maximum"),
    "deep": (lambda: nested(10_000), ""),
    "very deep": (lambda: nested(1_000_000), ""),
    "a long enum": (lambda: {"enum": list(range(200_000))}, "s.enum"),
    "many properties": (lambda: {"properties": {f"p{i}": {} for i in range(50_000)}}, "s.properties"),
    "two megabytes": (lambda: {"description": "x" * 2_000_000}, "s"),
    "nested counts": (lambda: {"pattern": "((a{1000}){1000}){1000}"}, "s.pattern"),
    "nested counts in a name": (lambda: {"patternProperties": {"(a{1000}){1000}": {}}}, "s.patternProperties"),
    "a long pattern": (lambda: {"pattern": "a" * 5000}, "s.pattern"),
    "U+0000": (lambda: {"pattern": "a\0"}, "s.pattern"),
}
"""Each is made when it is needed: a million levels would be looked at by every later garbage collection."""


@contextmanager
def bounded(seconds: float = 1.0, megabytes: int = 50) -> Iterator[None]:
    """The work takes a bounded time of the processor (a tenth of it on an idle machine), and of the memory."""
    started, most = time.process_time(), _megabytes()
    yield
    assert time.process_time() - started < seconds
    assert _megabytes() - most < megabytes


def _megabytes() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("name", BEYOND)
def test_a_schema_beyond_a_limit_is_refused_at_its_place_and_at_once(name: str) -> None:
    make, path = BEYOND[name]
    schema = make()
    with bounded(), pytest.raises(RequestError) as refused:
        check_schema(schema, "s")
    assert str(refused.value.param).startswith("s")
    if path:
        assert refused.value.param == path


NOT_COMPILED: dict[str, Any] = {
    "look-ahead": {"type": "string", "pattern": "(?=x)"},
    "back-reference": {"type": "string", "pattern": r"(a)\1"},
    "unclosed group": {"type": "string", "pattern": "(a"},
    "bad type": {"type": "strin"},
    "a reference to nothing": {"$ref": "#/$defs/nothing"},
    "a remote reference": {"$ref": "http://127.0.0.1:9/schema"},
    "a file reference": {"$ref": "file:///etc/passwd"},
    "each other": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "false": False,
    "least above most": {"type": "integer", "minimum": 3, "maximum": 2},
    "a tiny step": {"type": "number", "multipleOf": 1e-300},
    "a huge range": {"type": "integer", "minimum": -(10**300), "maximum": 10**300},
    "deep": nested(200),
    "a look-behind": {"type": "string", "pattern": "(?<!x)y"},
    "a list": [],
    "a text": "",
}


@pytest.mark.parametrize("name", NOT_COMPILED)
def test_what_the_engine_could_not_hold_is_an_error_that_names_the_schema(name: str) -> None:
    with bounded(), pytest.raises(RequestError) as refused:
        compile_grammar(chain(Json(NOT_COMPILED[name], "response_format.schema", strict=True), EndOfTurn()), VOCABULARY)
    assert str(refused.value.param).startswith("response_format.schema")
    assert refused.value.message


@pytest.mark.parametrize("pattern", ["(?=x)", r"(a)\1", "(a", "a" * 5000, "((a{999}){999}){999}", "[", "a\0b"])
def test_a_pattern_that_cannot_be_enforced_is_an_error_that_names_it(pattern: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_grammar(chain(Regex(pattern, "structured_outputs.regex"), EndOfTurn()), VOCABULARY)
    assert refused.value.param == "structured_outputs.regex"


@pytest.mark.parametrize(
    "pattern", ["a{3}", r"\{5000\}\{5000\}", "[{9999}]{2}", "(a{100}){100}", "a{0}(b{2,}){3}", ")}{"]
)
def test_a_pattern_within_the_limits_passes(pattern: str) -> None:
    check_pattern(pattern, "p")


def test_the_fault_is_found_among_many_schemas() -> None:
    good, bad = Json({"type": "integer"}, "tools[0]"), Json({"type": "string", "pattern": "(a"}, "tools[1]")
    with pytest.raises(RequestError) as refused:
        compile_grammar(chain(good, bad, EndOfTurn()), VOCABULARY)
    assert str(refused.value.param).startswith("tools[1]")


ENFORCED_OR_REFUSED: dict[str, Any] = {
    "not": {"not": {"type": "object"}},
    "if": {"if": {"type": "string"}, "then": {"minLength": 2}},
    "uniqueItems": {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
    "oneOf": {"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]},
    "an unknown format": {"type": "string", "format": "nobody's"},
    "many branches": {"anyOf": [{"const": f"value {i}"} for i in range(2_000)]},
    "itself": {"$ref": "#"},
    "long and many": {"type": "string", "pattern": "^(a+)+$", "minLength": 100_000},
    "many conditions": {"allOf": [{"if": {"required": [f"{i}"]}, "then": {"required": [f"{i}x"]}} for i in range(40)]},
    "many denials": {"allOf": [{"not": {"required": [f"{i}{k}" for k in "abcd"]}} for i in range(12)]},
    "many dependencies": {"dependentRequired": {f"{i}": [f"{i}x"] for i in range(200)}},
    "crossed branches": {"allOf": [{"oneOf": [{"required": [f"{i}{k}"]} for k in "abcd"]} for i in range(12)]},
    "optional properties": {"type": "object", "properties": {f"p{i}": {} for i in range(1_000)}},
    "references": {"$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(500)}, "$ref": "#/$defs/d0"},
    "a tree of references": {
        "$defs": {f"d{i}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}
        | {"d40": {}},
        "$ref": "#/$defs/d0",
    },
    "counted strings": {"type": "array", "items": {"type": "string", "maxLength": 100_000}, "maxItems": 1_000},
    "nested counts": {"type": "array", "items": {"type": "array", "minItems": 900}, "minItems": 900},
}


def enforced_or_refused(schema: Any, *, strict: bool) -> RequestError | None:
    try:
        compile_grammar(chain(Json(schema, "s", strict=strict), EndOfTurn()), VOCABULARY)
    except RequestError as refused:
        return refused
    return None


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", ENFORCED_OR_REFUSED)
def test_what_is_hard_to_enforce_is_enforced_or_refused_in_bounded_time(name: str, strict: bool) -> None:
    with bounded(seconds=5, megabytes=100):
        outcome = enforced_or_refused(ENFORCED_OR_REFUSED[name], strict=strict)
    assert outcome is None or str(outcome.param).startswith("s"), outcome


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^(?:a|b)*a(?:a|b){25}$", "(.*a){50}", r"^(\p{L}{1,9}\s){1,9}$", "^(a{1,30}){1,30}$", "(a|a?)+$"],
)
def test_patterns_that_hurt_backtracking_engines_are_enforced_to_the_end(pattern: str) -> None:
    with bounded(seconds=10, megabytes=250):
        grammar = compile_grammar(chain(Json({"type": "string", "pattern": pattern}), EndOfTurn()), VOCABULARY)
        matcher = grammar.matcher()
        for byte in b'"' + b"a" * 200:
            if not matcher.mask()[byte // 8] >> byte % 8 & 1:
                break
            assert matcher.consume([byte]) is None


def test_no_reference_opens_a_file_or_a_connection(tmp_path: Path) -> None:
    secret = tmp_path / "schema.json"
    secret.write_text('{"type": "integer"}')
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        for uri in (f"http://127.0.0.1:{server.getsockname()[1]}/s", secret.as_uri(), str(secret)):
            for schema in ({"$ref": uri}, {"$id": uri, "$ref": "other.json"}, {"$schema": uri}, {"$dynamicRef": uri}):
                with pytest.raises(RequestError):
                    compile_grammar(chain(Json(schema, "s"), EndOfTurn()), VOCABULARY)
        with pytest.raises(BlockingIOError):
            server.accept()
