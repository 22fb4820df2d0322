"""The arguments of public functions against their annotations: what does not fit is a `RequestError`, never a crash."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints, is_typeddict

from antiphon.errors import Position, RequestError, near

from .annotations import Mismatch, described, example, mismatch, shown

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
                _check_options(value, kinds[name])
            elif name in kinds:
                check(value, kinds[name], name)
        return function(*args, **kwargs)

    return call


def check(value: object, kind: Any, name: str) -> None:
    """Raises `RequestError` (``invalid_type``) where ``value``, the argument ``name``, is not as ``kind`` has it."""
    found = mismatch(value, kind, name)
    if found is not None:
        raise wrong_type(found)


def check_path(value: object, name: str) -> None:
    """Raises `RequestError` for a text that no file system takes, as the name of a file or of a model."""
    try:
        os.fsencode(value if isinstance(value, Path) else str(value))
    except UnicodeEncodeError:
        raise RequestError(
            f"{name}: it holds a lone surrogate, which is no character.",
            code="invalid_value",
            position=Position(path=name),
            hint="Give a text of characters.",
        ) from None


def wrong_type(found: Mismatch) -> RequestError:
    """What is expected, what is there, and how it is written."""
    return RequestError(
        f"{found.path}: {described(found.kind)} is expected, not {shown(found.value)}.",
        code="invalid_type",
        position=Position(path=found.path),
        hint=f"For example {found.path}={example(found.kind, found.value)}.",
    )


@cache
def _kinds(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of a function's parameters, evaluated; of options, the `TypedDict`."""
    hints = get_type_hints(function)
    hints.pop("return", None)
    return {name: (get_args(hint) or (hint,))[0] if _is_options(hint) else hint for name, hint in hints.items()}


def _is_options(hint: Any) -> bool:
    """``Unpack[Options]``."""
    return any(is_typeddict(part) for part in get_args(hint))


@cache
def options_of(kind: type) -> Mapping[str, Any]:
    """The options of a `TypedDict` by name, with their annotations."""
    return get_type_hints(kind)


def _check_options(options: Mapping[str, object], kind: Any) -> None:
    if not is_typeddict(kind):
        return
    known = options_of(kind)
    for name, value in options.items():
        if name not in known:
            raise UnknownOptionError(
                f"{name}: there is no such option.", position=Position(path=name), hint=near(name, known)
            )
        check(value, known[name], name)
