"""A log that a test sets up, and what it was before."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

LOGGERS = ("antiphon", "antiphon.access", "uvicorn")


@contextlib.contextmanager
def log_of_its_own() -> Iterator[None]:
    """Whatever the code inside sets up, the tests that follow have the loggers as they were."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers[:], logger.propagate, logger.level) for logger in loggers]
    try:
        yield
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            for handler in logger.handlers:
                if handler not in handlers:
                    handler.close()
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)
