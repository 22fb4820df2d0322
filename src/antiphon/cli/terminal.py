"""Text of others on a terminal: a model's, a tool's, a server's, a file's. It never moves the cursor, or worse.

All that the commands print for people goes through `tell`; all that they print for programs through `options.as_json`.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from antiphon.catalog.files.sources import Progress
    from antiphon.formats.harmony import Span
    from antiphon.generation.passages import Passage
    from antiphon.tokens import Piece, Tokenizer


UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Controls of terminals (C0 but tabs and line feeds, C1), halves of characters, and what turns others' direction."""


def safe(text: str) -> str:
    """The text without what moves a terminal's cursor, or shows other text than there is."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def tell(*parts: object, sep: str = " ", end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Prints the parts: safely on a terminal, and elsewhere, where programs read, as they are."""
    stream = sys.stdout if file is None else file
    text = sep.join(map(str, parts)) + end
    print(safe(text) if stream.isatty() else text, end="", file=stream, flush=flush)


def print_note(text: str) -> None:
    """Prints a line for people to stderr."""
    tell(text, file=sys.stderr, flush=True)


class TerminalSink:
    """Bytes of a file that go to a terminal, as a file that is written to."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(self, content: bytes) -> int:
        sys.stdout.write(safe(self._decode(content)))
        return len(content)

    def flush(self) -> None:
        sys.stdout.flush()


# A bar on a terminal for whatever takes its time: bytes done, of how many, how fast, and how long it will take.

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
    """Opens a progress bar; meanwhile prints to a terminal stand above it, those to a file or a pipe go there."""
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


# A line on a terminal for whatever cannot say how far it is: what is waited for, and for how many seconds.

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PERIOD = 0.1
ERASE = "\r\x1b[K"


def dim(text: str) -> str:
    """The text in grey on a terminal that has colours."""
    return f"\x1b[2m{text}\x1b[0m" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else text


class StatusLine:
    """The last line of a terminal's stderr while something is waited for; nothing where stderr is no terminal.

    The cursor must stand at the beginning of a line at `begin`, and stands there again after `end`. Nothing else may
    be printed between the two.
    """

    def __init__(self) -> None:
        self._visible = is_watched()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, words: str | Callable[[], str], *, after: float = 0.3) -> None:
        """Shows ``words``, which may be others each time, once ``after`` seconds have passed; ends what was shown."""
        self.end()
        if self._visible:
            self._over.clear()
            self._thread = threading.Thread(target=self._draw, args=(words, time.monotonic(), after), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Erases the line, where there is one."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def _draw(self, words: str | Callable[[], str], began: float, after: float) -> None:
        drawn = False
        wait = after
        while not self._over.wait(wait):
            seconds = time.monotonic() - began
            frame = FRAMES[int(seconds / PERIOD) % len(FRAMES)]
            shown = safe(words if isinstance(words, str) else words())
            room = max(1, shutil.get_terminal_size().columns - 12)
            sys.stderr.write(ERASE + dim(f"{frame} {shown[:room]} {seconds:.1f} s"))
            sys.stderr.flush()
            drawn, wait = True, PERIOD
        if drawn:
            sys.stderr.write(ERASE)
            sys.stderr.flush()


@contextmanager
def waiting_for(words: str | Callable[[], str], *, after: float = 0.3) -> Iterator[None]:
    """Shows on a terminal that ``words`` are waited for while the block runs, once ``after`` seconds have passed."""
    status = StatusLine()
    status.begin(words, after=after)
    try:
        yield
    finally:
        status.end()


@contextmanager
def then_waiting(parts: Iterator[bytes], words: str) -> Iterator[Iterator[bytes]]:
    """The parts; once the last was read, ``words`` are waited for: some forms are written only when all is read.

    Without words nothing is shown: where the result itself goes to the terminal.
    """
    status = StatusLine()

    def read() -> Iterator[bytes]:
        yield from parts
        if words:
            status.begin(words, after=PATIENCE)

    try:
        yield read()
    finally:
        status.end()


def say(words: str) -> None:
    """A line on stderr, also while something is waited for."""
    terminal = sys.stderr.isatty()
    print(f"{ERASE}{safe(words)}" if terminal else words, file=sys.stderr, flush=True)


def each_of(files: Sequence[Path], doing: str) -> Iterator[Path]:
    """The files one by one; on a terminal, how many of them are done, or the one that is alone.

    What is done with a file shows no bar of its own meanwhile.
    """
    done = 0

    def words() -> str:
        return f"{doing} {files[0].name}" if len(files) == 1 else f"{doing}: {done} of {len(files)} files"

    with waiting_for(words, after=PATIENCE):
        before = QUIET.set(True)
        try:
            for file in files:
                yield file
                done += 1
        finally:
            QUIET.reset(before)


# Prompts and replies for a terminal: controls with their ids, envelopes and texts each in a colour of its own.

_CONTROL, _ID, _ENVELOPE, _OFF = "\x1b[1;36m", "\x1b[2m", "\x1b[33m", "\x1b[0m"


def has_colour() -> bool:
    """A terminal has, unless NO_COLOR is set; a pipe has not."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def pretty(
    pieces: Iterable[Piece], tokenizer: Tokenizer | None, *, in_reply: bool = False, colour: bool = False
) -> Iterator[str]:
    """The pieces as they are to be printed, one by one; a message on lines of its own."""
    from antiphon.formats.harmony import spans  # here and not above: few look at the envelopes

    first = True
    for span in spans(pieces, tokenizer, in_reply=in_reply):
        if (span.kind, span.text) == ("control", "<|start|>") and not first:
            yield "\n"
        yield _coloured(span) if colour else span.text + _id(span)
        first = False


def _coloured(span: Span) -> str:
    text = safe(span.text)
    match span.kind:
        case "control":
            return f"{_CONTROL}{text}{_OFF}{_ID}{_id(span)}{_OFF}"
        case "envelope":
            return f"{_ENVELOPE}{text}{_OFF}"
        case "text":
            return text


def _id(span: Span) -> str:
    return "" if span.id is None else f"[{span.id}]"


# The mask of a conversation: each text in the colour of its owner, what the model samples underlined.

_OWNERS = {"template": "2", "system": "35", "user": "32", "assistant": "94", "tool": "33"}
_MARK = "\x1b[7m┃\x1b[0m"


def legend() -> str:
    """One line that says what the colours of `owned` mean."""
    owners = (f"\x1b[{colour}m{name}{_OFF}" for name, colour in _OWNERS.items())
    return f"{' · '.join(owners)} · \x1b[4msampled{_OFF} · {_MARK} the next turn keeps it up to here"


def owned(pieces: Iterable[Piece], passage: Passage, tokenizer: Tokenizer, *, marked: bool) -> Iterator[str]:
    """The pieces of a passage in the colour of its owner; controls keep their own. ``marked``: a mark before them."""
    line = "\x1b[4m" if passage.sampled else ""
    colour = f"{line}\x1b[{_OWNERS[passage.owner.name.lower()]}m"
    yield _MARK if marked else ""
    for place, piece in enumerate(pieces, passage.start):
        if isinstance(piece, str):
            yield f"{colour}{safe(piece)}{_OFF}"
            continue
        yield "\n" if piece.spelling == "<|start|>" and place else ""
        yield f"{line}{_CONTROL}{safe(piece.spelling)}{_OFF}{_ID}[{tokenizer.control_id(piece)}]{_OFF}"
