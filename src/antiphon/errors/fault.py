"""Errors on their way from one process to another."""

from __future__ import annotations

import msgspec

from antiphon import errors

from . import AntiphonError, ContextError, EngineError, OverloadedError, Position

ERRORS = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AntiphonError)
}
"""The classes that arrive as themselves; one of another module arrives as its base."""


class Fault(msgspec.Struct, array_like=True, frozen=True):
    """An `AntiphonError` with all that it has, or `TimeoutError`, which only has a name."""

    name: str
    message: str = ""
    code: str = ""
    position: Position | None = None
    hint: str | None = None
    retry_after: float = 0.0
    tokens: int | None = None
    limit: int | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: AntiphonError | TimeoutError) -> Fault:
        if isinstance(error, TimeoutError):
            return cls("TimeoutError")
        return cls(
            next(kind.__name__ for kind in type(error).__mro__ if ERRORS.get(kind.__name__) is kind),
            error.message, error.code, error.position, error.hint,
            retry_after=error.retry_after if isinstance(error, OverloadedError) else 0.0,
            tokens=error.tokens if isinstance(error, ContextError) else None,
            limit=error.limit if isinstance(error, ContextError) else None,
            notes=tuple(getattr(error, "__notes__", ())),
        )  # fmt: skip

    def error(self) -> Exception:
        """Makes the error again; a class that is not known here, of another version, is an `EngineError`."""
        if self.name == "TimeoutError":
            return TimeoutError()
        error = ERRORS.get(self.name, EngineError)(self.message, code=self.code, hint=self.hint)
        error.position = self.position
        if isinstance(error, OverloadedError):
            error.retry_after = self.retry_after
        if isinstance(error, ContextError):
            error.tokens, error.limit = self.tokens, self.limit
        for note in self.notes:
            error.add_note(note)
        return error
