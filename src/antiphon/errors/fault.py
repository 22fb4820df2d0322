"""Errors on their way from one process to another."""

from __future__ import annotations

import msgspec

from antiphon import errors

from . import AntiphonError, OverloadedError, Position


class Fault(msgspec.Struct, array_like=True):
    """An `AntiphonError`, or `TimeoutError`, which only has a name."""

    name: str
    message: str
    code: str = ""
    hint: str | None = None
    path: str | None = None
    retry_after: float = 1.0
    offset: int | None = None
    line: int | None = None
    column: int | None = None

    @classmethod
    def of(cls, error: AntiphonError) -> Fault:
        name = next(kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
        at = error.position or Position()
        after = getattr(error, "retry_after", 1.0)
        return cls(name, error.message, error.code, error.hint, at.path, after, at.offset, at.line, at.column)


def fault_of(fault: Fault) -> Exception:
    """The error again."""
    if fault.name == "TimeoutError":
        return TimeoutError()
    kind = getattr(errors, fault.name)
    if kind is OverloadedError:
        return OverloadedError(fault.message, retry_after=fault.retry_after, code=fault.code, hint=fault.hint)
    at = Position(fault.offset, fault.line, fault.column, fault.path)
    error: AntiphonError = kind(
        fault.message, code=fault.code, position=None if at == Position() else at, hint=fault.hint
    )
    return error
