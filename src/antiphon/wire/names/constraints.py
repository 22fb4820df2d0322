"""Constraints of an answer, under every name that servers have for them, as one of ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

import msgspec

from antiphon.errors import Position, UnsupportedError
from antiphon.wire.errors import refused

Reader = Callable[[Any, str], Iterator["Constraint"]]
Kind = Literal["own", "json_object", "json_schema", "regex", "choice", "grammar"]
FIELD_OF: Mapping[str, str] = {"regex": "pattern", "choice": "choices", "grammar": "grammar"}
"""The field of our own ``response_format`` that each type needs."""
NAME = "answer"
"""The name of a schema without one."""

_BLANKS = re.compile(r"(\\s|\[(\\.|[^]\\])*\]|\\?[ nt])[*?]|")
"""Patterns of the blanks between the tokens of JSON that no blank at all fits, as JSON is written here."""
_COMPILERS = frozenset({"disable_any_whitespace", "disable_fallback", "backend", "backend_was_auto", "_backend"})
"""Entries of ``structured_outputs`` that choose how a constraint is enforced, never what it is."""


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """One constraint, at ``path`` of the client's body; ``place`` is where its schema, pattern or grammar is.

    ``own``: it is in our own words already. ``value`` is the schema, the pattern, the list of choices or the grammar;
    ``named`` what a schema comes with (name, description, strict).
    """

    kind: Kind
    path: str
    place: str
    value: Any = None
    named: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def as_response_format(self) -> dict[str, Any]:
        """As chat completions have it."""
        if self.kind == "json_schema":
            return {"type": self.kind, "json_schema": {"name": NAME, **self.named, "schema": self.value}}
        return {"type": self.kind, **({FIELD_OF[self.kind]: self.value} if self.kind in FIELD_OF else {})}

    def as_text_format(self) -> dict[str, Any]:
        """As Responses have it below ``text.format``."""
        form = self.as_response_format()
        return {"type": self.kind, **form["json_schema"]} if self.kind == "json_schema" else form

    def restored(self, own: str) -> dict[str, str]:
        """Our paths, the longest first, and the client's."""
        prefix, schema = (
            ("response_format", "json_schema.schema") if own == "response_format" else (f"{own}.format", "schema")
        )
        inner = schema if self.kind == "json_schema" else FIELD_OF.get(self.kind)
        return {**({f"{prefix}.{inner}": self.place} if inner else {}), prefix: self.path}


def constraint_in(fields: Mapping[str, msgspec.Raw], *, own: str, beside: Collection[str] = ()) -> Constraint | None:
    """The constraint of a body; None where there is none, or one in our own words.

    ``own`` is the field of the route itself; of those in ``beside`` it reads itself what stands next to a format.
    Raises `RequestError` for two at once, and for what cannot be enforced.
    """
    readers = {**READERS, **dict.fromkeys(beside, _format_alone), own: _format if own in READERS else _text}
    found = [one for name, reader in readers.items() if name in fields for one in _read(reader, name, fields[name])]
    if len(found) > 1:
        raise refused(
            found[1].path,
            f"it constrains the answer, and so does {found[0].path}.",
            hint="An answer has one constraint.",
        )
    return found[0] if found and found[0].kind != "own" else None


def compact_in(fields: Mapping[str, msgspec.Raw], *, own: str) -> Any:
    """Reads a body's rule for blanks in JSON: True for none, in any server's words; None where there is no rule."""
    form, vllm, pattern = (
        msgspec.json.decode(fields[name]) if name in fields else None
        for name in (own, "structured_outputs", "guided_whitespace_pattern")
    )
    if own not in READERS and isinstance(form, dict):
        form = form.get("format")
    if isinstance(form, dict) and "compact" in form:
        return form["compact"]
    patterns = [pattern, *([vllm.get("whitespace_pattern")] if isinstance(vllm, dict) else [])]
    compact = isinstance(vllm, dict) and vllm.get("disable_any_whitespace") is True
    return True if compact or any(given is not None for given in patterns) else None


def not_understood(fields: Mapping[str, msgspec.Raw], *, own: str) -> list[str]:
    """The paths in the route's own field of what no reader here looks at, where it is put into our words."""
    value = msgspec.json.decode(fields[own]) if own in fields else None
    path = own if own in READERS else f"{own}.format"
    given = value.get("format") if isinstance(value, dict) and own not in READERS else value
    return [f"{path}.{name}" for name in given if name not in _UNDERSTOOD] if isinstance(given, dict) else []


def _read(reader: Reader, name: str, raw: msgspec.Raw) -> Iterator[Constraint]:
    value = msgspec.json.decode(raw)
    if value is not None and value != "":
        yield from reader(value, name)


def _text(value: Any, path: str) -> Iterator[Constraint]:
    """Responses' ``text``, whose format has its schema beside its type."""
    if isinstance(value, dict) and isinstance(value.get("format"), dict):
        yield from _format(value["format"], f"{path}.format", flat=True)


def _format(value: Any, path: str, *, flat: bool = False) -> Iterator[Constraint]:
    """``response_format`` in any server's words; what is malformed is left to who reads our own."""
    kind = value.get("type") if isinstance(value, dict) else None
    reader = _TYPES.get(kind) if isinstance(kind, str) else None
    if reader is not None:
        yield from reader(value, path)
    elif kind == "json_schema" and not flat and "schema" in value and value.get("json_schema") is None:
        yield from _schema_of(value, "schema", path)
    elif flat and kind == "json_schema" and isinstance(value.get("json_schema"), dict):
        yield from _schema_of(value["json_schema"], "schema", f"{path}.json_schema")
    elif kind != "text":
        yield Constraint(kind="own", path=path, place=path)


def _foreign_format(value: Any, path: str) -> Iterator[Constraint]:
    """The same in a field that is no route's own, so that it is put into our words in any case."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise refused(path, "must be an object with a type.", code="invalid_type")
    for name in value:
        if name not in _UNDERSTOOD:
            place = f"{path}.{name[:64]}"
            raise UnsupportedError(f"{place} cannot be honoured.", position=Position(path=place))
    if value["type"] == "json_schema" and isinstance(value.get("json_schema"), dict):
        yield from _schema_of(value["json_schema"], "schema", f"{path}.json_schema")
        return
    for one in _format(value, path):
        if one.kind == "own":
            raise refused(
                f"{path}.type",
                f"{value['type'][:64]!r} is no type of format.",
                hint=f"Known: {', '.join(_KNOWN_TYPES)}.",
            )
        yield one


def _schema_of(value: Mapping[str, Any], key: str, path: str) -> Iterator[Constraint]:
    named = {name: value[name] for name in ("name", "description", "strict") if value.get(name) is not None}
    yield from _schema(value.get(key), f"{path}.{key}", named, whole=path)


def _schema(
    value: Any, path: str, named: Mapping[str, Any] | None = None, *, whole: str | None = None
) -> Iterator[Constraint]:
    schema = _json(value, path)
    if not isinstance(schema, dict | bool):
        raise refused(path, "must be a JSON Schema.", code="invalid_type")
    yield Constraint(kind="json_schema", path=whole or path, place=path, value=schema, named=named or {})


def _json(value: Any, path: str) -> Any:
    """A value that may be written as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise refused(path, "is no JSON.", code="invalid_json") from None


def _object(value: Any, path: str) -> Iterator[Constraint]:
    """``json_object``, which is on or off, or comes with a schema."""
    if value is False:
        return
    if isinstance(value, dict):
        place = next((key for key in ("schema", "value", "json_schema") if value.get(key) is not None), None)
        if place is not None:
            yield from _schema_of(value, place, path)
            return
    yield Constraint(kind="json_object", path=path, place=path)


def _pattern(value: Any, path: str) -> Iterator[Constraint]:
    yield from _of_text("regex", value, path)


def _grammar(value: Any, path: str) -> Iterator[Constraint]:
    if isinstance(value, dict):  # Text Generation Inference: a type and its value
        yield from _foreign_format(value, path)
        return
    yield from _lines(value, path)


def _lines(value: Any, path: str) -> Iterator[Constraint]:
    yield from _of_text("grammar", value, path)


def _of_text(kind: Kind, value: Any, path: str) -> Iterator[Constraint]:
    if not isinstance(value, str):
        raise refused(path, "must be a text.", code="invalid_type")
    if value:
        yield Constraint(kind=kind, path=path, place=path, value=value)


def _choices(value: Any, path: str) -> Iterator[Constraint]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise refused(path, "must be a list of texts.", code="invalid_type")
    yield Constraint(kind="choice", path=path, place=path, value=value)


def _structured_outputs(value: Any, path: str) -> Iterator[Constraint]:
    """vLLM's object, in which one entry is the constraint."""
    if not isinstance(value, dict):
        raise refused(path, "must be an object.", code="invalid_type")
    for name, entry in value.items():
        place = f"{path}.{name[:64]}"
        if entry is None or name in _COMPILERS:
            continue
        if name not in _ENTRIES:
            raise UnsupportedError(
                f"{place} cannot be honoured.", position=Position(path=place), hint=f"Known: {', '.join(_ENTRIES)}."
            )
        if entry == "" and name != "whitespace_pattern":
            raise refused(place, "is empty.")
        yield from _ENTRIES[name](entry, place)


def _whitespace(value: Any, path: str) -> Iterator[Constraint]:
    if not isinstance(value, str) or not _BLANKS.fullmatch(value):
        raise UnsupportedError(
            f"{path} cannot be honoured.", position=Position(path=path), hint="JSON is written without blanks."
        )
    yield from ()


def _additional(value: Any, path: str) -> Iterator[Constraint]:
    if value is not False:
        hint = 'Write "additionalProperties": false into the schema.'
        raise UnsupportedError(f"{path} cannot be honoured.", position=Position(path=path), hint=hint)
    yield from ()


def _structural_tag(value: Any, path: str) -> Iterator[Constraint]:
    """Reads a schema, pattern, grammar or text that stands alone in it. Free text between tags cannot be promised."""
    tag = _json(value, path)
    given = tag.get("format") if isinstance(tag, dict) else None
    inner: dict[str, Any] = given if isinstance(given, dict) else {}
    kind = str(inner.get("type"))
    if kind not in _TAG_FORMATS:
        hint = (
            "Use tools, or response_format. Of a structural tag a format alone can be held: "
            + ", ".join(_TAG_FORMATS)
            + "."
        )
        raise UnsupportedError(f"{path} cannot be honoured.", position=Position(path=path), hint=hint)
    key, reader = _TAG_FORMATS[kind]
    if inner.get(key) in (None, ""):
        raise refused(f"{path}.format.{key}", "is empty.", code="missing_required_parameter")
    yield from reader(inner.get(key), f"{path}.format.{key}")


def _constant(value: Any, path: str) -> Iterator[Constraint]:
    yield from _choices([value], path)


def _ollama(value: Any, path: str) -> Iterator[Constraint]:
    """``json``, or a schema."""
    if value == "json":
        yield Constraint(kind="json_object", path=path, place=path)
        return
    if not isinstance(value, dict):
        raise refused(path, 'must be "json" or a JSON Schema.')
    yield from _schema(value, path)


def _output_config(value: Any, path: str) -> Iterator[Constraint]:
    """Anthropic's object: the format is its constraint."""
    if not isinstance(value, dict):
        raise refused(path, "must be an object.", code="invalid_type")
    for name, entry in value.items():
        place = f"{path}.{name[:64]}"
        if entry is None:
            continue
        if name != "format":
            raise UnsupportedError(
                f"{place} cannot be honoured.", position=Position(path=place), hint="Use reasoning_effort."
            )
        yield from _foreign_format(entry, place)


def _format_alone(value: Any, path: str) -> Iterator[Constraint]:
    """The format of an object of which the route reads the rest."""
    if isinstance(value, dict) and value.get("format") is not None:
        yield from _foreign_format(value["format"], f"{path}.format")


def _typed(kind: Reader, *keys: str) -> Reader:
    """A format whose constraint is under the first of some keys."""

    def read(value: Any, path: str) -> Iterator[Constraint]:
        key = next((key for key in keys if value.get(key) is not None), keys[0])
        if value.get(key) in (None, ""):
            raise refused(f"{path}.{key}", f"is needed for type {value['type']}.", code="missing_required_parameter")
        for one in kind(value[key], f"{path}.{key}"):
            yield Constraint(kind=one.kind, path=path, place=one.place, value=one.value, named=one.named)

    return read


_TYPES: Mapping[str, Reader] = {
    "json_object": _object,
    "json": _typed(_schema, "value", "schema", "json_schema"),
    "regex": _typed(_pattern, "pattern", "regex", "value"),
    "regex_schema": _typed(_pattern, "regex_schema"),
    "choice": _typed(_choices, "choices", "choice", "value"),
    "grammar": _typed(_lines, "grammar", "value"),
    "ebnf": _typed(_lines, "ebnf", "grammar", "value"),
    "structural_tag": _structural_tag,
}
_UNDERSTOOD = frozenset(
    "type name description strict schema json_schema value pattern regex regex_schema choice choices grammar ebnf"
    " format structures triggers compact".split()
)
"""The keys of a format, in any server's words."""
_KNOWN_TYPES = ("text", "json_schema", *_TYPES)
_ENTRIES: Mapping[str, Reader] = {
    "json": _schema, "json_object": _object, "regex": _pattern, "choice": _choices, "grammar": _grammar,
    "structural_tag": _structural_tag, "whitespace_pattern": _whitespace, "disable_additional_properties": _additional,
}  # fmt: skip
_TAG_FORMATS: Mapping[str, tuple[str, Reader]] = {
    "json_schema": ("json_schema", _schema), "regex": ("pattern", _pattern), "grammar": ("grammar", _lines),
    "const_string": ("value", _constant),
}  # fmt: skip
READERS: Mapping[str, Reader] = {
    "response_format": _foreign_format, "structured_outputs": _structured_outputs,
    "guided_json": _schema, "guided_regex": _pattern, "guided_choice": _choices, "guided_grammar": _grammar,
    "guided_whitespace_pattern": _whitespace,
    "json_schema": _schema, "regex": _pattern, "ebnf": _grammar, "grammar": _grammar,
    "structural_tag": _structural_tag, "format": _ollama, "output_format": _foreign_format,
    "output_config": _output_config,
}  # fmt: skip
"""How the constraint of each name is read; every name of the table that is one is here."""
