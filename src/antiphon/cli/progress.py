"""A bar on a terminal for whatever takes its time: bytes done, of how many, how fast, and how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .terminal import safe

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from antiphon.catalog.files.sources import Progress

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
"""Whether a program reads what this one prints (``--json``), which then shows nobody how far it is."""
PATIENCE = 1.0
"""Seconds that work may take without a bar."""


def is_watched() -> bool:
    """Whether a person sees how far the work is: on a terminal, and not where a program reads the results."""
    return sys.stderr.isatty() and not QUIET.get()


class LazyBar:
    """A bar that is there once the work has taken ``patience`` seconds; ``name`` is what is worked on.

    ``stages``: what is done with it, one after the other. The next has begun when the bytes that are done are fewer
    than before.
    """

    def __init__(self, name: str, size: int | None, patience: float, stages: tuple[str, ...]) -> None:
        self._name, self._size, self._stages = name, size, stages
        self._due = time.monotonic() + patience
        self._done, self._stage = 0, 0
        self._bar: Bar | None = None

    def update(self, done: int, total: int | None) -> None:
        if done < self._done and self._stage + 1 < len(self._stages):
            self._stage += 1
            self._size = None
        self._done = done
        if self._bar is None and time.monotonic() >= self._due:
            self._bar = opened_bar()
            self._bar.start()
            self._bar.add_task("")
        if self._bar is not None:
            words = safe(f"{self._stages[self._stage]} {self._name}".strip()).replace("[", "\\[")  # no markup
            known = total or self._size
            # A download may be of more than its file: of what packs it, or of a copy that is written meanwhile.
            shown = min(done, known) if known else done
            self._bar.update(self._bar.task_ids[0], description=words, completed=shown, total=known)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress_bar(
    name: str, size: int | None, *, patience: float = PATIENCE, stages: tuple[str, ...] = ("",)
) -> Iterator[Progress]:
    """A bar on a terminal for work that takes longer than ``patience`` seconds; nothing elsewhere."""
    if not is_watched():
        yield lambda done, total: None
        return
    bar = LazyBar(name, size, patience, stages)
    try:
        yield bar.update
    finally:
        bar.close()


def opened_bar() -> Bar:
    """What is printed to a terminal meanwhile stands above it; what goes to a file or a pipe goes there."""
    # Rich takes longer to import than most commands take to run.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(),
        TextColumn("left"),
    )  # fmt: skip
    return Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
