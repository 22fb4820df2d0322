"""JSON Schema → the TypeScript-like types in which gpt-oss was trained on its tools (HAR-72 … HAR-79).

`TypePrinter` writes what the reference writes, comment for comment. `FullTypePrinter` also writes what the reference
loses as ``any``: anyOf, allOf, $ref, const, enum without a type, maps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from antiphon.errors import RenderError

# Compact JSON as the reference writes it into a prompt: numbers included, to the letter.

SMALLEST, LARGEST = -(2**63), 2**64 - 1
"""Integers in this range keep all their digits; others become doubles."""

MAX_JSON_DEPTH = 120


class JsonText(msgspec.Struct, frozen=True):
    """``signed_exponent``: dialect b writes ``1e+21`` where dialect a writes ``1e21``."""

    signed_exponent: bool = False

    def compact(self, value: Any, depth: int = 0) -> str:
        """One line, no spaces, keys in their order, characters unescaped. Raises `RenderError` for what is not JSON."""
        if depth > MAX_JSON_DEPTH:
            raise RenderError(f"a JSON value is nested more than {MAX_DEPTH} levels deep", code="json_too_deep")
        match value:
            case None | bool() | str():
                return json.dumps(value, ensure_ascii=False)
            case int() | float():
                return self.number(value)
            case Mapping():
                members = (f"{self.compact(str(k), depth)}:{self.compact(v, depth + 1)}" for k, v in value.items())
                return "{" + ",".join(members) + "}"
            case list() | tuple():
                return "[" + ",".join(self.compact(item, depth + 1) for item in value) + "]"
            case _:
                raise RenderError(f"a {type(value).__name__} is not JSON", code="not_json")

    def number(self, number: int | float) -> str:
        """Integers of 64 bits as they are; any other number as the shortest form of the double that was read."""
        if isinstance(number, int) and SMALLEST <= number <= LARGEST:
            return str(number)
        double = _as_read(number)
        if not math.isfinite(double):
            raise RenderError("a number in a schema is not finite", code="not_json")
        return self._shortest(double)

    def _shortest(self, double: float) -> str:
        sign, figures, shift = Decimal(repr(double)).as_tuple()
        assert isinstance(shift, int)
        minus = "-" if sign else ""
        digits = "".join(map(str, figures)).rstrip("0")
        if not digits:
            return f"{minus}0.0"
        point = len(figures) + shift  # where the decimal point is, counted from the first digit
        if 0 < point <= 16:
            return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
        if -5 < point <= 0:
            return f"{minus}0.{'0' * -point}{digits}"
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        plus = "+" if self.signed_exponent and point > 1 else ""
        return f"{minus}{digits[0]}{fraction}e{plus}{point - 1}"


def _as_read(number: int | float) -> float:
    """The double that the reference's JSON reader makes of a number's digits.

    It keeps the digits that fit 64 bits and scales once by a power of ten, which is one unit in the last place off now
    and then. The prompt shows its result, so Antiphon computes it in the same way.
    """
    if isinstance(number, float) and not math.isfinite(number):
        return number
    sign, figures, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    significand = 0
    for i, figure in enumerate(figures):
        if significand * 10 + figure > LARGEST:
            exponent += len(figures) - i
            break
        significand = significand * 10 + figure
    double = -float(significand) if sign else float(significand)
    while exponent < -308 and double:
        double /= 1e308
        exponent += 308
    power = float(f"1e{abs(exponent)}")
    return double / power if exponent < 0 else double * power


MAX_DEPTH = 100
MAX_NODES = 20_000
PRIMITIVES = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}


class TypePrinter(msgspec.Struct, frozen=True):
    """The reference's types. ``json`` writes the values of defaults."""

    json: JsonText

    def print(self, schema: Any) -> str:
        """The type of one value. Raises `RenderError` for a schema nested too deeply or grown too large."""
        return self._type(schema, "", _Budget(schema))

    def _type(self, schema: Any, indent: str, budget: _Budget) -> str:
        if not isinstance(schema, Mapping):
            return "any"
        with budget:
            return self._known_type(schema, indent, budget)

    def _known_type(self, schema: Mapping[str, Any], indent: str, budget: _Budget) -> str:
        if isinstance(variants := schema.get("oneOf"), list):
            return "".join(f"\n{line}" for line in self._variants(variants, indent, budget))
        kind = schema.get("type")
        if isinstance(kind, list) and (names := [name for name in kind if isinstance(name, str)]):
            return " | ".join("number" if name == "integer" else name for name in names)
        match kind:
            case "object":
                return self._object(schema, indent, budget)
            case "string":
                choices = [f'"{choice}"' for choice in _list(schema, "enum") if isinstance(choice, str)]
                return " | ".join(choices) or "string"
            case "array":
                return f"{self._type(schema['items'], indent, budget)}[]" if "items" in schema else "Array<any>"
            case str():
                return PRIMITIVES.get(kind, "any")
            case _:
                return "any"

    def _object(self, schema: Mapping[str, Any], indent: str, budget: _Budget) -> str:
        head = f"{indent}// {text}\n" if (text := _text(schema, "description")) is not None else ""
        properties = schema.get("properties")
        required = _list(schema, "required")
        lines = [
            line
            for key, value in (properties.items() if isinstance(properties, Mapping) else ())
            for line in self._property(key + ("" if key in required else "?"), value, indent, budget)
        ]
        return head + "{\n" + "".join(f"{indent}{line}\n" for line in lines) + indent + "}"

    def _property(self, key: str, schema: Any, indent: str, budget: _Budget) -> Iterator[str]:
        """The lines of one property, without their indentation."""
        fields = schema if isinstance(schema, Mapping) else {}
        yield from self._notes(fields)
        if isinstance(variants := fields.get("oneOf"), list):
            yield from self._property_of_variants(key, fields, variants, indent, budget)
            return
        written = self._type(schema, indent + "    ", budget)
        default = f" // default: {self._default(fields)}" if "default" in fields and "oneOf" not in fields else ""
        yield f"{key}: {written}{_null_suffix(fields, written)},{default}"

    def _notes(self, fields: Mapping[str, Any]) -> Iterator[str]:
        if (title := _text(fields, "title")) is not None:
            yield f"// {title}"
            yield "//"
        if (text := _text(fields, "description")) is not None and "oneOf" not in fields:
            yield f"// {text}"
        if examples := _list(fields, "examples"):
            yield "// Examples:"
            yield from (f'// - "{example}"' for example in examples if isinstance(example, str))

    def _property_of_variants(
        self, key: str, fields: Mapping[str, Any], variants: list[Any], indent: str, budget: _Budget
    ) -> Iterator[str]:
        text = _text(fields, "description")
        first = _text(variants[0], "description") if variants and isinstance(variants[0], Mapping) else None
        if text is not None and text != first:
            yield f"// {text}"
        if "default" in fields:
            yield f"// default: {self._default(fields)}"
        yield f"{key}:"
        for line in self._variants(variants, indent, budget, of_property=True, heading=text):
            yield line.removeprefix(indent)
        yield ","

    def _variants(
        self,
        variants: list[Any],
        indent: str,
        budget: _Budget,
        *,
        of_property: bool = False,
        heading: str | None = None,
    ) -> Iterator[str]:
        """A line for each variant. A property's ``heading`` and the first description after it are not repeated."""
        for i, variant in enumerate(variants):
            written = self._type(variant, indent + "   ", budget)
            fields = variant if isinstance(variant, Mapping) else {}
            text = _text(fields, "description")
            if heading is not None and (i == 0 or text == heading):
                text = None
            notes = [] if text is None else [text]
            if "default" in fields:
                notes.append(f"default: {self._default(fields, bare_choice=of_property)}")
            comment = f" // {' '.join(notes)}" if notes else ""
            yield f"{indent} | {written}{_null_suffix(fields, written)}{comment}"

    def _default(self, fields: Mapping[str, Any], *, bare_choice: bool = True) -> str:
        """A string is raw in quotation marks, one of an enum bare or as JSON: as the reference does."""
        default = fields["default"]
        if not isinstance(default, str):
            return self.json.compact(default)
        if not _list(fields, "enum"):
            return f'"{default}"'
        return default if bare_choice else self.json.compact(default)


class FullTypePrinter(TypePrinter, frozen=True):
    """The same layout, without loss of anything that TypeScript can express."""

    def _known_type(self, schema: Mapping[str, Any], indent: str, budget: _Budget) -> str:
        if isinstance(reference := schema.get("$ref"), str):
            with budget.expanding(reference) as target:
                return self._type(target, indent, budget)
        if "const" in schema:
            return self._literal(schema["const"])
        for keyword, operator in (("anyOf", " | "), ("allOf", " & ")):
            if isinstance(parts := schema.get(keyword), list) and parts:
                return self._joined(parts, operator, indent, budget)
        kind = schema.get("type")
        if "oneOf" not in schema and (choices := _list(schema, "enum")):
            return _union(self._literal(choice) for choice in choices)
        if isinstance(kind, list) and "oneOf" not in schema:
            return _union(self._of_kind(schema, name, indent, budget) for name in kind)
        if kind is None and "properties" in schema:
            return self._of_kind(schema, "object", indent, budget)
        return self._of_kind(schema, kind, indent, budget)

    def _of_kind(self, schema: Mapping[str, Any], kind: Any, indent: str, budget: _Budget) -> str:
        match kind:
            case "null":
                return "null"
            case "array" if "items" in schema:
                written = self._type(schema["items"], indent, budget)
                return f"({written})[]" if " | " in written or " & " in written else f"{written}[]"
            case "object" if not schema.get("properties") and isinstance(schema.get("additionalProperties"), Mapping):
                return f"{{ [key: string]: {self._type(schema['additionalProperties'], indent, budget)} }}"
            case _:
                # The two-argument super() does not work in a dataclass with slots.
                return TypePrinter._known_type(self, {**schema, "type": kind}, indent, budget)

    def _literal(self, value: Any) -> str:
        return f'"{value}"' if isinstance(value, str) else self.json.compact(value)

    def _joined(self, parts: list[Any], operator: str, indent: str, budget: _Budget) -> str:
        written = list(dict.fromkeys(self._type(part, indent, budget) for part in parts))
        if operator == " & ":
            written = [f"({part})" if " | " in part else part for part in written if part != "any"] or ["any"]
        return operator.join(written)


class _Budget:
    """Bounds one printing: how deep, how many types, and which ``$ref`` is being expanded already."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._depth = 0
        self._nodes = 0
        self._open: list[str] = []

    def __enter__(self) -> None:
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH:
            raise RenderError(
                f"a schema is nested more than {MAX_DEPTH} levels deep",
                code="schema_too_deep",
                hint="Flatten the tool's parameters.",
            )
        if self._nodes > MAX_NODES:
            raise RenderError(f"a schema has more than {MAX_NODES} types", code="schema_too_large")

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    def expanding(self, reference: str) -> _Expansion:
        return _Expansion(self._root, self._open, reference)


class _Expansion:
    """The schema that a local ``$ref`` names; ``True`` (any) where it recurses, or names nothing here."""

    def __init__(self, root: Any, opened: list[str], reference: str) -> None:
        self._root = root
        self._open = opened
        self._reference = reference

    def __enter__(self) -> Any:
        recursive = self._reference in self._open
        self._open.append(self._reference)
        return True if recursive else _resolve(self._root, self._reference)

    def __exit__(self, *_: object) -> None:
        self._open.pop()


def _resolve(root: Any, reference: str) -> Any:
    if not reference.startswith("#"):
        return True
    found = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return True
        found = found[key]
    return found


def _union(parts: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(parts))


def _null_suffix(fields: Mapping[str, Any], written: str) -> str:
    return " | null" if fields.get("nullable") is True and "null" not in written else ""


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) else None


def _list(fields: Mapping[str, Any], key: str) -> list[Any]:
    value = fields.get(key)
    return value if isinstance(value, list) else []
