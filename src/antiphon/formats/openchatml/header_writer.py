"""A transcript's header, written: whatever values it has, `read_header` gives the same ones back, or it is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import yaml

from antiphon.errors import Position, RenderError
from antiphon.errors.place import Place

from .document import VERSION, DocumentHeader
from .finding import E_HEADER, Finding
from .spelling import START
from .yaml_header import MAX_DEPTH, HeaderScanner, read_header

_BREAKS = frozenset("\n\r\x85\u2028\u2029")
_TEXT = "tag:yaml.org,2002:str"


class _Dumper(yaml.CSafeDumper):
    """Texts whose line breaks YAML would fold, and keys that would begin a frame, are in double quotes."""


class _Quoted(str):
    __slots__ = ()


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TEXT, value, style=None if _BREAKS.isdisjoint(value) else '"')


_Dumper.add_representer(str, _text)
_Dumper.add_representer(_Quoted, lambda dumper, value: dumper.represent_scalar(_TEXT, str(value), style='"'))


def spell_header(header: DocumentHeader) -> str:
    """The canonical header: fenced, the version quoted, the other keys in their order (A-O28, A-O29).

    Dates become their text, as they are read. Raises `RenderError` for what no header can hold, with its path.
    """
    fields = plain_fields(header)
    spelled = f'---\nversion: "{header.version}"\n{"".join(map(_entry, fields, fields.values()))}---\n'
    if fields or header.version != VERSION:
        _check(spelled, header.version, fields)
    return spelled


def plain_fields(header: DocumentHeader) -> dict[str, Any]:
    """The header's fields as a reader gives them: keys as text, plain values. Raises `RenderError` for any other."""
    return {str(key): _plain(value, str(key), 2) for key, value in header.fields.items()}


def _entry(key: str, value: Any) -> str:
    """One line for a scalar; below a key, collections of scalars are inline."""
    inline = None if isinstance(value, dict | list) else False
    first = _Quoted(key) if key.startswith(START.spelling) else key
    try:
        text: str = yaml.dump(
            {first: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=inline, width=120
        )
    except (yaml.YAMLError, ValueError) as error:
        raise _unwritable(key, str(error)) from None
    return text


def _plain(value: Any, path: str, depth: int) -> Any:
    """Plain data of the same meaning in containers of its own, so that YAML needs neither tags nor anchors."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return str(value)
        case datetime() | date():
            return value.isoformat()
        case Mapping() | list() | tuple() if depth > MAX_DEPTH:
            raise _unwritable(path, f"it is nested deeper than {MAX_DEPTH} levels")
        case Mapping():
            return {_plain(k, path, MAX_DEPTH + 1): _plain(v, f"{path}.{k}", depth + 1) for k, v in value.items()}
        case list() | tuple():
            return [_plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise _unwritable(path, f"a header has no {type(value).__name__}")


def _check(spelled: str, version: str, fields: dict[str, Any]) -> None:
    """That the header ends where it should and reads as it was meant."""
    scanner = HeaderScanner()
    scanner.feed(spelled, last=True)
    if scanner.overlong or scanner.frames_at != len(spelled):
        raise _unwritable("header", "it is too long")
    read = read_header(spelled[: scanner.yaml_end], Place())
    if isinstance(read, Finding):
        raise _unwritable("header", read.message)
    if read.version != version or not alike(read.fields, fields):
        raise _unwritable("header", "it would be read as something else")


def alike(one: Any, other: Any) -> bool:
    """Whether two values of a header are the same and of the same kinds; NaN is itself."""
    if type(one) is not type(other):
        return False
    match one:
        case dict():
            keys = list(one) == list(other) and all(map(alike, one, other))
            return keys and all(map(alike, one.values(), other.values()))
        case list():
            return len(one) == len(other) and all(map(alike, one, other))
        case float() if math.isnan(one):
            return math.isnan(other)
    return bool(one == other)


def _unwritable(path: str, problem: str) -> RenderError:
    return RenderError(f"the header cannot be written: {problem}", code=E_HEADER, position=Position(path=path))
