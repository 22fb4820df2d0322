"""The destination of a server's log, and how its lines are written. The program sets it up; the library only logs."""

from __future__ import annotations

import logging
import logging.handlers
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO

import msgspec

from antiphon.errors import ConfigError

# One line a request: who, what, how long, how many tokens. Never content of a client or a model.


class AccessLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Times in milliseconds from the request on. ``id`` is the client's own where it sent a sane one.

    ``route`` is a pattern ("other" where there is none), ``key`` a name, ``model`` one of the catalog, ``error`` a
    code: nothing here is text of the client's choice. ``gone``: it hung up before its answer was whole.
    """

    id: str
    method: str
    route: str
    status: int
    total_ms: float
    key: str = ""
    model: str | None = None
    error: str | None = None
    stream: bool = False
    gone: bool = False
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    queue_ms: float | None = None
    ttft_ms: float | None = None

    def __str__(self) -> str:
        """The line for people."""
        words = [f"{self.method} {self.route} {self.status}{' stream' if self.stream else ''}"]
        words += [word for word in (self.error, self.model, self.key and f"key {self.key}") if word]
        if self.prompt_tokens is not None:
            words.append(f"{self.prompt_tokens}+{self.completion_tokens or 0} tok")
        for name, ms in (("queue", self.queue_ms), ("ttft", self.ttft_ms), ("total", self.total_ms)):
            if ms is not None:
                words.append(f"{name} {ms:.0f}ms")
        return "  ".join([*words, self.id])


Level = Literal["debug", "info", "warning", "error"]
ACCESS = logging.getLogger("antiphon.access")
"""Its messages are `AccessLine`s."""
_LOGGERS = ("antiphon", "uvicorn")


def set_up_log(
    *, form: Literal["text", "json"] = "text", level: Level = "info", access: bool = True, file: str = ""
) -> None:
    """The log of this process, in place of what was set up before. ``file`` "": standard error.

    A file that was moved away is opened anew. Raises `ConfigError` for one that cannot be written.
    """
    handler: logging.Handler
    try:
        path = Path(file).expanduser()
        handler = logging.handlers.WatchedFileHandler(path, encoding="utf-8") if file else TerminalHandler()
    except OSError as error:
        raise ConfigError(f"cannot write the log {file}: {error.strerror}", code="log_file") from None
    formatter = JsonLines if form == "json" else TextLines
    handler.setFormatter(formatter(details=level == "debug"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        for old in logger.handlers[:]:
            logger.removeHandler(old)
            old.close()
        logger.addHandler(handler)
        logger.propagate = False
    logging.getLogger("antiphon").setLevel(level.upper())
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # the access log has the same
    ACCESS.setLevel(logging.INFO if access else logging.CRITICAL)


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Standard error. On a terminal a line begins where one that says what is waited for may stand, and erases it."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        return f"\r\x1b[K{line}" if self.stream.isatty() else line


class TextLines(logging.Formatter):
    """A line for people. An error's message may have a client's text: only ``details`` shows more than its kind."""

    def __init__(self, *, details: bool) -> None:
        super().__init__()
        self._details = details

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname}: " if record.levelno > logging.INFO else ""
        # Nothing that could forge another line, or colour a terminal.
        message = record.getMessage()
        if not message.isprintable():
            message = "".join(c if c.isprintable() else "?" for c in message)
        line = f"{moment(record)} {level}{message}"
        return "\n".join([line, self.fault(record)]) if record.exc_info else line

    def fault(self, record: logging.LogRecord) -> str:
        """The place and the kind of a record's error."""
        kind, error, where = record.exc_info or (None, None, None)
        if kind is None or error is None:
            return ""
        if self._details:
            return "".join(traceback.format_exception(kind, error, where)).rstrip()
        return "\n".join(_kinds(error, where))


class JsonLines(TextLines):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {"time": moment(record), "level": record.levelname.lower()}
        if isinstance(record.msg, AccessLine):
            fields |= msgspec.to_builtins(record.msg)
        else:
            fields |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            fields["fault"] = self.fault(record)
        return msgspec.json.encode(fields).decode()


def moment(record: logging.LogRecord) -> str:
    """When it was logged: RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _kinds(error: BaseException | None, where: TracebackType | None) -> Iterator[str]:
    """The error and what it came from: kinds and lines of code, no messages."""
    while error is not None:
        yield "".join(traceback.format_tb(where)) + f"{type(error).__module__}.{type(error).__qualname__}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        where = error.__traceback__ if error is not None else None
