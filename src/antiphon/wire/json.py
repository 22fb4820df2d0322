"""JSON in and out: bodies to structs with errors that name the field, structs to bytes that always encode."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import msgspec

from antiphon.errors import Position, RequestError
from antiphon.structs import ready
from antiphon.tokens import utf8

from .names.translate import Names, Translation

# Which values a field may have that takes only some, for the hints of errors.

MOST_LISTED = 20

_PATH_STEP = re.compile(r"\[[^]]*\]|[^.\[]+")


def allowed_values(kind: type[msgspec.Struct], path: str) -> list[str]:
    """The values of the field at ``path`` of ``kind`` (``messages[0].role``); none where it takes any."""
    types = [msgspec.inspect.type_info(kind)]
    for step in _PATH_STEP.findall(path):
        types = [inner for type in _flat(types) for inner in _inner(type, step)]
    return sorted({value for type in _flat(types) for value in _values(type)})


def known_values(values: list[str]) -> str | None:
    """The hint that lists them, `MOST_LISTED` at most; None for none."""
    more = f" and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else ""
    return f"Known: {', '.join(values[:MOST_LISTED])}{more}." if values else None


def _flat(types: Iterable[msgspec.inspect.Type]) -> Iterator[msgspec.inspect.Type]:
    for type in types:
        match type:
            case msgspec.inspect.UnionType(types=several):
                yield from _flat(several)
            case msgspec.inspect.Metadata(type=inner):
                yield from _flat([inner])
            case _:
                yield type


def _inner(type: msgspec.inspect.Type, step: str) -> Iterator[msgspec.inspect.Type]:
    match type:
        case msgspec.inspect.StructType(fields=fields):
            yield from (field.type for field in fields if field.encode_name == step)
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            yield item
        case msgspec.inspect.DictType(value_type=value):
            yield value


def _values(type: msgspec.inspect.Type) -> Iterator[str]:
    match type:
        case msgspec.inspect.LiteralType(values=values):
            yield from map(str, values)
        case msgspec.inspect.EnumType(cls=cls):
            yield from (str(member.value) for member in cls)


Wire = TypeVar("Wire", bound=msgspec.Struct)

_PATH = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_LOOKED_THROUGH = 2**18
"""Bytes of a malformed body at most that is read a second time, to say where it is odd."""
_STEP = 2**17
_UTF8 = codecs.getincrementaldecoder("utf-8")
_encoder = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Compact JSON. A lone surrogate, which is no character, becomes U+FFFD: nothing fails on a model's output."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_mended(msgspec.to_builtins(value)))


def encode_given(value: object, path: str) -> bytes:
    """JSON of a value that a program hands in as ``path``. Raises `RequestError` for what JSON cannot carry."""
    try:
        return encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RequestError(
            f"{path}: it holds what JSON cannot carry: {error}.",
            code="invalid_type",
            position=Position(path=path),
            hint="Use texts, numbers, True, False, None, lists and dictionaries.",
        ) from None


def _mended(value: Any) -> Any:
    match value:
        case str():
            return utf8(value).decode()
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value


def decode(body: bytes, kind: type[Wire]) -> tuple[Wire, Names]:
    """The body as ``kind``, and how the client named its fields.

    Raises `RequestError` with the field's path in `param`.
    """
    try:
        fields = fields_of(body)
        translation = Translation.of(fields, kind, _names(kind))
        names = translation.names
        with names.restored_in_errors():
            try:
                body = body if translation.fields is fields else encode(translation.fields)
                return msgspec.json.decode(body, type=ready(kind)), names
            except msgspec.ValidationError as error:
                raise invalid(str(error), kind) from None
    except RecursionError:
        raise _malformed("the body is nested too deeply") from None


def fields_of(body: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a JSON object as they were written. Raises `RequestError`."""
    try:
        _check_utf8(body)
        return msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError as error:
        raise invalid(str(error), msgspec.Struct) from None
    except RecursionError:
        raise _malformed("the body is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise _unreadable(body, str(error)) from None


def _check_utf8(body: bytes) -> None:
    """Raises `RequestError` with the first byte that is wrong. Step by step, so that none holds other threads up."""
    decoder = _UTF8()
    for start in range(0, len(body), _STEP) or (0,):
        begun = len(decoder.getstate()[0])
        try:
            decoder.decode(body[start : start + _STEP], final=start + _STEP >= len(body))
        except UnicodeDecodeError as error:
            raise _malformed("the body is not UTF-8", offset=start - begun + error.start) from None


@cache
def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The fields of ``kind`` on the wire: to read them off its annotations takes longer than to read a request."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


def invalid(reason: str, kind: type[msgspec.Struct], within: str = "") -> RequestError:
    """msgspec's ``Expected `int`, got `str` - at `$.messages[0].role` ``, its path in this package's form.

    ``within``: the path of the value that it was found in.
    """
    found = _PATH.search(reason)
    message, path = (reason[: found.start()], found.group(1)) if found else (reason, "")
    code = "missing_required_parameter" if "missing required field" in message else "invalid_type"
    if missing := re.search(r"missing required field `([^`]+)`", message):
        path = f"{path}.{missing.group(1)}" if path else missing.group(1)
    path = f"{within}.{path}".replace(".[", "[").strip(".")
    message = message if len(message) <= 300 else f"{message[:300]}…"
    where = f"{path}: " if path else ""
    unknown = message.startswith("Invalid enum value")
    message = message.replace("Invalid enum value", "unknown value", 1) if unknown else message
    hint = known_values(allowed_values(kind, path)) if unknown and not within else None
    return RequestError(f"{where}{message}.", code=code, position=Position(path=path or None), hint=hint)


def _malformed(message: str, *, offset: int | None = None) -> RequestError:
    where = "" if offset is None else f" (byte {offset})"
    return RequestError(f"{message}{where}.", code="invalid_json")


def _unreadable(body: bytes, reason: str) -> RequestError:
    """Malformed JSON. ``NaN``, ``Infinity`` and a lone surrogate are what lax writers send: then the field is named."""
    for path, what in _oddities(body) if len(body) <= _LOOKED_THROUGH else ():
        return RequestError(
            f"{path}: {what}, which JSON does not have.", code="invalid_json", position=Position(path=path)
        )
    message = "the body is empty" if not body.strip() else reason
    return RequestError(f"{message}.", code="invalid_json", hint="Send one JSON object.")


def _oddities(body: bytes) -> Iterator[tuple[str, str]]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    pending: list[tuple[str, Any]] = [("", value)]
    while pending:
        path, value = pending.pop()
        match value:
            case dict():
                pending += [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
            case list():
                pending += [(f"{path}[{i}]", item) for i, item in enumerate(value)]
            case float() if not math.isfinite(value):
                yield utf8(path).decode(), f"the number is {value}"
            case str() if any("\ud800" <= c <= "\udfff" for c in value):
                yield utf8(path).decode(), "the text holds a lone surrogate"
