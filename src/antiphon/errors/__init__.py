"""Every error that Antiphon raises, as one tree.

An error says what is wrong, under which code, where, and what to do. The layer that knows the position adds it. What
each code means, and its HTTP status, is in `antiphon.errors.codes`.

    AntiphonError
    ├── FormatError            a conversation or a text does not fit its format
    │   ├── RenderError        … while writing a prompt
    │   ├── ParseError         … while reading (strict mode only; the default mode reports incidents)
    │   └── VisibilityError    hidden content was requested without the debug capability
    ├── TokenError             text or ids do not fit the vocabulary
    ├── TemplateError          a chat template is unknown, malformed, or raised
    ├── RequestError           a request that cannot be done as it is
    │   ├── UnsupportedError   … a setting that this engine or model cannot honour
    │   ├── ContextError       … more tokens than the context holds
    │   ├── ConflictError      … something that is going on forbids it
    │   ├── AccessError        … the caller is not known, or may not
    │   └── NotFoundError      … a name that does not exist
    ├── EngineError            the engine failed; the request is lost, the server is not
    │   ├── EngineLostError    … it died in the middle
    │   └── OverloadedError    … nothing free now; try again later
    ├── StoreError             what is kept between requests cannot be read or written
    ├── ConfigError            the configuration cannot be used
    └── ModelError             a model file is missing, broken, or too large for this machine
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Position:
    """A place in what was read: character ``offset`` from 0, ``line`` and ``column`` from 1, ``path`` in JSON."""

    offset: int | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.line}:{self.column or 1}"
        if self.path is not None:
            return self.path
        return f"offset {self.offset}" if self.offset is not None else ""


class AntiphonError(Exception):
    """The root: ``code`` is stable and for programs; ``position`` and ``hint`` are for people."""

    default_code: ClassVar[str] = "antiphon_error"

    def __init__(
        self, message: str, *, code: str | None = None, position: Position | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code: str = code or self.default_code
        self.position = position
        self.hint = hint

    def __str__(self) -> str:
        where = f" (at {self.position})" if self.position and str(self.position) else ""
        hint = f" {self.hint}" if self.hint else ""
        return (
            f"{self.message}{where}.{hint}"
            if (where or hint) and self.message[-1:] not in ".!?"
            else f"{self.message}{where}{hint}"
        )


class FormatError(AntiphonError):
    default_code = "format_error"


class RenderError(FormatError):
    default_code = "render_error"


class ParseError(FormatError):
    default_code = "parse_error"


class VisibilityError(FormatError):
    """OpenChatML §14: content that end users may not see was requested."""

    default_code = "E-PERM-VISIBILITY"


class TokenError(AntiphonError):
    default_code = "token_error"


class TemplateError(AntiphonError):
    default_code = "template_error"


class RequestError(AntiphonError):
    """A caller's mistake. ``position.path`` names the parameter (OpenAI's ``param``)."""

    default_code = "invalid_request"

    @property
    def param(self) -> str | None:
        return self.position.path if self.position else None


class UnsupportedError(RequestError):
    default_code = "unsupported_parameter"


class ContextError(RequestError):
    """``tokens`` are those of the prompt, or how many it has at least, of which there may be ``limit``."""

    default_code = "context_length_exceeded"
    tokens: int | None = None
    limit: int | None = None


class ConflictError(RequestError):
    default_code = "conflict"


class AccessError(RequestError):
    default_code = "permission_denied"


class NotFoundError(RequestError):
    default_code = "not_found"


class EngineError(AntiphonError):
    default_code = "engine_error"


class EngineLostError(EngineError):
    default_code = "engine_lost"


UNREACHABLE = "engine_unreachable"
"""The code of an `OverloadedError` when an engine's server does not answer at all."""


class OverloadedError(EngineError):
    """``retry_after`` is in seconds."""

    default_code = "overloaded"

    def __init__(
        self, message: str, *, retry_after: float = 1.0, code: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after = retry_after


class StoreError(AntiphonError):
    """The code says why: ``store_full``, ``store_readonly``, ``store_corrupt``, ``store_busy`` or ``store_failed``."""

    default_code = "store_failed"


class ConfigError(AntiphonError):
    default_code = "config_error"


class ModelError(AntiphonError):
    default_code = "model_error"


def json_words(error: ValueError) -> str:
    """The words of a `json.JSONDecodeError` without its place, and without the preposition before it."""
    return str(vars(error).get("msg", error)).removesuffix(" at").removesuffix(" starting")


def utf8_words(error: UnicodeDecodeError) -> str:
    """The words of what is no UTF-8, without its place."""
    return f"the byte 0x{error.object[error.start]:02x} is no UTF-8"


_MOST_LISTED = 40


def words_of(error: BaseException) -> str:
    """An error of another library in its words, one of the system without its number and the path."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def near(name: str, names: Collection[str]) -> str:
    """A hint that lists the names most like ``name``."""
    names = tuple(dict.fromkeys(names))
    close = difflib.get_close_matches(name, names, n=5, cutoff=0.5)
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    known = f"Known: {', '.join(sorted(names)[:_MOST_LISTED])}{more}." if names else "There is none here."
    return f"Did you mean {', '.join(close)}?" if close else known


def near_field(reason: str, *fields: str) -> str | None:
    """Names fields like one that msgspec does not know (``Object contains unknown field `x` …``); else None."""
    found = re.search(r"unknown field `([^`]+)`", reason)
    return near(found[1], fields) if found else None
