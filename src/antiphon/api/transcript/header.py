"""A transcript's header as a request: known keys by type, and those that change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.errors import Position, RequestError
from antiphon.formats.openchatml import DocumentHeader
from antiphon.structs import ready

from .schema import CapabilityLists, GenerationSettings, HeaderFields

SETTINGS = "generation_settings"


def read_header(header: DocumentHeader) -> HeaderFields:
    """Raises `RequestError` with the path of a key whose value is of another type, or is none of its words."""
    try:
        return msgspec.convert(_named(header.fields), ready(HeaderFields))
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$.")
        path = where.rstrip("`") or "header"
        raise RequestError(f"{path}: {reason}.", code="invalid_value", position=Position(path=path)) from None


def _named(value: Any) -> Any:
    """The value without keys that are no text: no known key is one of them."""
    if not isinstance(value, Mapping):
        return value
    return {key: _named(inner) for key, inner in value.items() if isinstance(key, str)}


def ignored_keys(header: DocumentHeader) -> Iterator[str]:
    """The paths of keys that are unknown here: OpenChatML §2 has them ignored."""
    yield from _unknown(header.fields, HeaderFields, "")
    yield from _unknown(header.fields.get(SETTINGS), GenerationSettings, f"{SETTINGS}.")
    yield from _unknown(header.fields.get("capabilities"), CapabilityLists, "capabilities.")


def _unknown(fields: object, known: type[msgspec.Struct], prefix: str) -> Iterator[str]:
    if isinstance(fields, Mapping):
        yield from (f"{prefix}{key}" for key in fields if key not in known.__struct_fields__)


def in_settings(error: RequestError) -> None:
    """An error of planning, at the place where a header has the setting."""
    path = error.position.path if error.position else None
    if path is not None and path.partition("[")[0] in GenerationSettings.__struct_fields__:
        error.position = Position(path=f"{SETTINGS}.{path}")


def words(value: Any) -> tuple[str, ...]:
    """A word or several, as a header's lists may be written."""
    return (value,) if isinstance(value, str) else tuple(value or ())
