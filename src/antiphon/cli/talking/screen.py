"""How an answer looks while it comes: the text on stdout; reasoning, tools and figures on stderr."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import assert_never

from antiphon.cli.terminal import StatusLine, dim, safe, tell
from antiphon.conversation import (
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TurnEnded,
    visible_to_user,
)
from antiphon.generation import RoundEvent
from antiphon.tools import ToolCall, ToolCancelled, ToolEnded, ToolResult, ToolStarted

ARGUMENTS = 400
"""Characters of a call's arguments that its card shows."""
FOLDED, WIDTH = 4, 100
"""Lines of a tool's result that its card shows, and characters of each, or fewer on a narrow terminal."""
AT_ONCE = 0.001
"""Seconds within which nothing can be said of a speed."""
EDGE = "  │ "
ENDS = {
    FinishReason.LENGTH_OUTPUT: "cut at the most tokens that an answer may have: /set max_tokens N",
    FinishReason.LENGTH_CONTEXT: "cut: the context is full",
    FinishReason.CONTENT_FILTER: "cut by the model's server",
}
"""How an answer ended, where its reader should know."""


def print_dim(text: str) -> None:
    """Prints a line about the answer to stderr."""
    print(dim(safe(text)), file=sys.stderr, flush=True)


class Screen:
    """Shows one answer. ``reasoning``: the model's thoughts are shown too, on stderr; else how long they took.

    ``finish`` is called when the answer is over, whatever ended it.
    """

    def __init__(self, *, reasoning: bool = False) -> None:
        self._reasoning = reasoning
        self._terminal = sys.stderr.isatty()
        self._status = StatusLine()
        self._part: Part | None = None
        self._tokens = 0
        self._stopped = False
        self._started = time.perf_counter()
        self._first: float | None = None
        self._status.begin("reading the prompt", after=1.0)

    def show(self, event: RoundEvent, tokens: int) -> None:
        """``tokens``: how many were sampled until then."""
        self._tokens = tokens
        match event:
            case MessageStarted(message):
                self._status.end()
                self._part = self._begun(message)
            case TextDelta(text):
                self._write(text)
            case MessageEnded():
                self._close()
            case ToolStarted(call):
                self._tool_runs(call)
            case ToolEnded(result):
                self._status.end()
                self._tool_ended(result)
            case TurnEnded():
                self._status.end()
                self._ended(event)
            case Incident("tool_rounds_exceeded"):
                self._stopped = True
                self._note("stopped: the model went on calling tools")
            case Incident() | ToolCancelled():
                pass
            case _:
                assert_never(event)

    def finish(self) -> None:
        """Ends what an answer that was stopped, or failed, left open."""
        self._status.end()
        self._close()

    def _begun(self, message: Message) -> Part:
        if visible_to_user(message):
            return Part(partial(tell, end="", flush=True), print)
        if message.is_call:
            return CallCard(message.recipient or "", self._terminal)
        if self._reasoning:
            return Part(lambda text: print(dim(safe(text)), end="", file=sys.stderr, flush=True), lambda: print_dim(""))
        self._status.begin("thinking")
        began, before = time.perf_counter(), self._tokens
        return Part(lambda text: None, lambda: self._thought(time.perf_counter() - began, self._tokens - before))

    def _thought(self, seconds: float, tokens: int) -> None:
        """That the model reasoned, and for how long; what, only its owner may see."""
        self._status.end()
        if self._terminal:
            print_dim(f"thinking {seconds:.1f} s, {tokens} tokens (hidden)")

    def _write(self, text: str) -> None:
        self._first = self._first or time.perf_counter()
        if self._part is not None:
            self._part.write(text)

    def _close(self) -> None:
        if self._part is not None:
            self._part.close()
        self._part = None

    def _tool_runs(self, call: ToolCall) -> None:
        if self._terminal:
            self._status.begin(f"{safe(call.recipient)} runs")
        else:
            print_dim(f"· {one_line(f'{call.recipient} {call.body}')[:160]}")

    def _tool_ended(self, result: ToolResult) -> None:
        outcome = "ok" if result.error is None else f"{result.error.code}: {result.error.message}"
        if not self._terminal:
            print_dim(f"· {one_line(f'{result.call.recipient} {outcome}')[:160]}, {result.seconds:.1f} s")
            return
        print_dim(f"  {one_line(result.call.recipient)}  {one_line(outcome)}  {result.seconds:.1f} s")
        if result.error is None:
            for line in folded(result.text(envelope=False)):
                print_dim(f"{EDGE}{line}")

    def _ended(self, ended: TurnEnded) -> None:
        if ended.reason in ENDS and not self._stopped:
            self._note(ENDS[ended.reason])
        if self._terminal:
            print_dim(self._figures(ended))

    def _note(self, words: str) -> None:
        if self._terminal:
            print_dim(f"({words})")

    def _figures(self, ended: TurnEnded) -> str:
        """The usage line: tokens of prompt and answer, time to the first, and speed."""
        now, usage = time.perf_counter(), ended.usage
        first = self._first or now
        cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
        thought = f" ({usage.reasoning_tokens} thinking)" if usage.reasoning_tokens else ""
        # Of the tokens behind the first, whose time is named beside it; of all where they came at once.
        seconds = now - first
        made = usage.completion_tokens - 1 if seconds > AT_ONCE else usage.completion_tokens
        speed = made / max(seconds if seconds > AT_ONCE else now - self._started, 1e-9)
        return (
            f"prompt {usage.prompt_tokens}{cached}  out {usage.completion_tokens}{thought}  "
            f"first {1000 * (first - self._started):.0f} ms  {speed:.0f} tok/s"
        )


class Part:
    """A message on the screen while it comes."""

    def __init__(self, write: Callable[[str], object], close: Callable[[], object]) -> None:
        self.write, self.close = write, close


class CallCard(Part):
    """A call to a tool as the model writes it: its name, and its arguments live, on one line that is cut."""

    def __init__(self, recipient: str, visible: bool) -> None:
        super().__init__(self._arguments, self._end)
        self._visible, self._left = visible, ARGUMENTS
        self._put(f"● {one_line(recipient)} ")

    def _arguments(self, text: str) -> None:
        if self._left > 0:
            self._put(safe(text.replace("\n", " "))[: self._left] + ("…" if len(text) > self._left else ""))
        self._left -= len(text)

    def _end(self) -> None:
        self._put("\n")

    def _put(self, text: str) -> None:
        if self._visible:
            print(dim(text), end="", file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """The text on one line, without what moves a cursor."""
    return safe(" ".join(text.split()))


def folded(text: str) -> list[str]:
    """The first lines of a text, each cut, and how many more there are."""
    lines = safe(text).splitlines()
    width = max(20, min(WIDTH, shutil.get_terminal_size().columns - len(EDGE)))
    shown = [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines[:FOLDED]]
    more = len(lines) - FOLDED
    return shown + ([f"… {more} more line{'s' if more > 1 else ''}"] if more > 0 else [])


def quiet(event: RoundEvent, tokens: int) -> None:
    """Shows nothing."""
