"""The arguments of public functions against their annotations: what does not fit is a `RequestError`, never a crash."""

from __future__ import annotations

import dataclasses
import inspect
import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, wraps
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from antiphon.errors import Position, RequestError, near

# A value against an annotation of Python: where it does not fit, and how both are written in errors.

CHECKED = "antiphon.conversation"
"""The package whose dataclasses are checked field by field; of others, the class alone is."""

NAMES: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    bytes: "bytes",
    None: "None",
    type(None): "None",
    Any: "anything",
    Callable: "a function",
    Mapping: "a dictionary",
    dict: "a dictionary",
    type: "a type",
}
EXAMPLES: Mapping[Any, str] = {
    str: '"…"', int: "1", float: "0.5", bool: "True", bytes: 'b"…"', Mapping: "{…}", dict: "{…}", type: "int",
}  # fmt: skip
LISTS: Collection[Any] = (Sequence, list, tuple, set, frozenset, Iterable, Collection)
UNIONS: Collection[Any] = (Union, types.UnionType)


class Mismatch(msgspec.Struct, frozen=True):
    """A value at ``path`` that is not of the expected ``kind``."""

    path: str
    value: object
    kind: Any

    def below(self, path: str) -> Mismatch:
        """The same as seen from what has the value at ``path``."""
        return Mismatch(path + self.path, self.value, self.kind)


Finder = Callable[[Any], Mismatch | None]
"""Finds the first place of a value that is not as an annotation has it, if there is one."""


def mismatch(value: object, kind: Any, path: str) -> Mismatch | None:
    """The first place of ``value`` that is not as the annotation ``kind`` has it; None where all is."""
    found = _finder(kind)(value)
    return None if found is None else found.below(path)


@cache
def _finder(kind: Any) -> Finder:
    """The annotation as a function: conversations are checked at every call, and annotations are slow to read."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _finder(args[0])
    if origin in UNIONS:
        return _in_union(kind, [_finder(one) for one in args])
    fits, inside = _fits(kind), _inside(kind)

    def find(value: Any) -> Mismatch | None:
        return inside(value) if fits(value) else Mismatch("", value, kind)

    return find


def _in_union(kind: Any, finders: Sequence[Finder]) -> Finder:
    """Finds nothing where one alternative fits; the place inside where one fits outwardly, else the whole."""

    def find(value: Any) -> Mismatch | None:
        inside = list[Mismatch]()
        for one in finders:
            found = one(value)
            if found is None:
                return None
            inside += [found] if found.path else []
        return inside[0] if len(inside) == 1 else Mismatch("", value, kind)

    return find


def _fits(kind: Any) -> Callable[[Any], bool]:
    """Whether a value itself is of the kind, whatever is in it."""
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return lambda value: value in args
    if origin is float:
        return lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    if origin is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    if origin is tuple:
        return lambda value: isinstance(value, tuple | list)
    if origin is type:
        return lambda value: _is_type(value, args[0] if args else Any)
    if origin in LISTS:
        return lambda value: isinstance(value, origin) and not isinstance(value, str | bytes | bytearray | Mapping)
    if origin is None:
        return lambda value: value is None
    structural = getattr(origin, "_is_protocol", False) and not getattr(origin, "_is_runtime_protocol", False)
    if origin is Any or structural or not isinstance(origin, type):
        return lambda value: True
    return lambda value: isinstance(value, origin)


def _is_type(value: object, of: Any) -> bool:
    """Whether it is a type or stands for one: list[int], int | None, Literal["a"]."""
    if isinstance(value, type) and isinstance(of, type) and of is not Any:
        return issubclass(value, of)
    return isinstance(value, type | NewType) or get_origin(value) is not None


def _inside(kind: Any) -> Finder:
    """Finds what does not fit in a value that fits outwardly."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in LISTS:
        return _in_items(args[0])
    if origin in (Mapping, dict):
        return _in_mapping(*map(_finder, args))
    return _in_fields(kind) if _is_value(kind) else lambda value: None


def _in_items(kind: Any) -> Finder:
    find_in = _finder(kind)
    plain = {kind} if isinstance(kind, type) and not _is_value(kind) else set()

    def find(values: Any) -> Mismatch | None:
        if not isinstance(values, Collection) or set(map(type, values)) <= plain:  # as token ids are, by the thousand
            return None
        found = ((i, find_in(value)) for i, value in enumerate(values))
        return next((one.below(f"[{i}]") for i, one in found if one is not None), None)

    return find


def _in_mapping(find_in_key: Finder, find_in_value: Finder) -> Finder:
    def find(values: Any) -> Mismatch | None:
        found = ((key, find_in_key(key) or find_in_value(value)) for key, value in values.items())
        return next((one.below(f"[{key!r}]") for key, one in found if one is not None), None)

    return find


def _in_fields(kind: Any) -> Finder:
    def find(value: Any) -> Mismatch | None:
        for name, find_in in _fields(kind):
            if (found := find_in(getattr(value, name))) is not None:
                return found.below(f".{name}")
        return None

    return find


def _is_value(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__.startswith(CHECKED)


@cache
def _fields(kind: Any) -> Sequence[tuple[str, Finder]]:
    """The fields of a dataclass; read once it is met, as one may be in itself."""
    names = {field.name for field in dataclasses.fields(kind)}
    return [(name, _finder(hint)) for name, hint in get_type_hints(kind).items() if name in names]


def described(kind: Any) -> str:
    """The annotation in words: "a whole number or None"."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return described(args[0])
    if origin in UNIONS:
        words = list(dict.fromkeys(described(one) for one in args))
        return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    if origin is Literal:
        return " or ".join(map(repr, args))
    if origin in LISTS:
        return f"a list of {_plural(args[0])}"
    known = NAMES.get(origin or kind)
    return known or f"a {getattr(origin or kind, '__name__', kind)}"


def _plural(kind: Any) -> str:
    """Describes a list's items in words."""
    plurals = {str: "texts", int: "whole numbers", float: "numbers", bytes: "bytes"}
    return plurals.get(kind) or f"items that are each {described(kind)}"


def example(kind: Any, value: object) -> str:
    """How a value of the kind is written; the given one, where it only stands in another form."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in UNIONS:
        lists = [one for one in args if get_origin(one) in LISTS and mismatch(value, get_args(one)[0], "") is None]
        return example((lists or [one for one in args if one is not types.NoneType])[0], value)
    if origin is Literal:
        return repr(args[0])
    if origin in LISTS:
        return f"[{_written(value) if mismatch(value, args[0], '') is None else example(args[0], None)}]"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"{kind.__name__}.{next(iter(kind)).name}"
    if kind in (int, float) and isinstance(value, str) and value.strip().lstrip("-").replace(".", "", 1).isdecimal():
        return value.strip()
    return EXAMPLES.get(origin or kind) or f"{getattr(origin or kind, '__name__', '…')}(…)"


def _written(value: object) -> str:
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else "…" if len(repr(value)) > 40 else repr(value)


def shown(value: object) -> str:
    """A value as an error shows it: short, with its type."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, type) or inspect.isroutine(value):
        what = "type" if isinstance(value, type) else "function"
        return f"the {what} {getattr(value, '__name__', value)}"
    if isinstance(value, str | int | float | bytes):
        text = repr(value)
        return f"{text if len(text) <= 40 else text[:39] + '…'} ({type(value).__name__})"
    return f"a {type(value).__name__}"


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class UnknownOptionError(RequestError, TypeError):
    """An option that there is not; a `TypeError` too, which is what a call of Python raises."""

    default_code = "invalid_request"


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function, which raises `RequestError` at once for an argument that its annotation does not take.

    Options of ``**options: Unpack[…]`` are checked as the `TypedDict` has them; a name that it does not have is an
    `UnknownOptionError`.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # raises it in Python's own words
        kinds = _kinds(function)
        for name, value in bound.arguments.items():
            if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                check_options(value, kinds[name])
            elif name in kinds:
                check(value, kinds[name], name)
        return function(*args, **kwargs)

    return call


def refused(path: str, message: str, hint: str | None, *, code: str = "invalid_value") -> RequestError:
    """The error about the argument at ``path``, with which its message begins."""
    return RequestError(f"{path}: {message}", code=code, position=Position(path=path), hint=hint)


def check(value: object, kind: Any, name: str) -> None:
    """Raises `RequestError` (``invalid_type``) where ``value``, the argument ``name``, is not as ``kind`` has it."""
    found = mismatch(value, kind, name)
    if found is not None:
        raise refused(
            found.path,
            f"{described(found.kind)} is expected, not {shown(found.value)}.",
            f"For example {found.path}={example(found.kind, found.value)}.",
            code="invalid_type",
        )


def check_path(value: object, name: str) -> None:
    """Raises `RequestError` for a text that no file system takes, as the name of a file or of a model."""
    try:
        os.fsencode(value if isinstance(value, Path) else str(value))
    except UnicodeEncodeError:
        raise refused(name, "it holds a lone surrogate, which is no character.", "Give a text of characters.") from None


@cache
def _kinds(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of a function's parameters, evaluated; of ``Unpack[Options]``, the `TypedDict`."""
    hints = get_type_hints(function)
    hints.pop("return", None)
    return {name: get_args(hint)[0] if any(map(is_typeddict, get_args(hint))) else hint for name, hint in hints.items()}


_hints = cache(get_type_hints)


def check_options(options: Mapping[str, object], kind: Any) -> None:
    """Checks options as the `TypedDict` ``kind`` has them; of another kind, none."""
    if not is_typeddict(kind):
        return
    known = _hints(kind)
    for name, value in options.items():
        if name not in known:
            raise UnknownOptionError(
                f"{name}: there is no such option.", position=Position(path=name), hint=near(name, known)
            )
        check(value, known[name], name)
