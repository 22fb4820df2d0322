"""A batch without a server: lines of a file to lines of another, by the routes of an application in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from antiphon.errors import NotFoundError, Position, RequestError
from antiphon.http.context import Context
from antiphon.http.gate.keys import ANYBODY
from antiphon.structs import ready

from .call import Answer, Endpoints, LineCaller
from .lines import Lanes, Line, LineReader, body_of

_PIECE = 2**20
_FRAME = 4096
"""Bytes of a line beside its body at most."""
_FORM = 'A line is {"custom_id": …, "method": "POST", "url": "/v1/chat/completions", "body": {…}}.'
_MOST_NAMED = 20
"""Further lines that cannot be run, as an error names them."""
_PAUSES = (0.0, 1.0, 5.0, 30.0)
"""Seconds before a line is tried again for which there was no room, or whose engine was lost."""


@dataclass(slots=True)
class Tally:
    """Lines: all of them, those that an earlier run answered, and of the others those that went well or not.

    The tokens are those of this run's lines.
    """

    total: int = 0
    earlier: int = 0
    completed: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    @property
    def evaluated(self) -> int:
        """Tokens of prompts that no cache had."""
        return self.prompt_tokens - self.cached_tokens


class Answered(msgspec.Struct, frozen=True):
    """The answer that an earlier run wrote of a line, as far as it matters; a request has no ``response``."""

    custom_id: str
    response: msgspec.Raw


class _Files(msgspec.Struct, frozen=True):
    source: BinaryIO
    written: BinaryIO

    def body(self, line: Line) -> bytes:
        self.source.seek(line.start)
        return body_of(self.source.read(line.end - line.start))


@dataclass(slots=True)
class OfflineBatch:
    """The lines of ``source``, any number of them; ``by_prompt``: those whose prompts begin alike are run together."""

    context: Context
    endpoints: Endpoints
    source: Path
    by_prompt: bool = True
    tally: Tally = field(default_factory=Tally)
    _slots: dict[str | None, int] = field(default_factory=dict)
    """By the name that lines request, how many answers its model makes at once."""

    async def run(self, out: Path) -> Tally:
        """Appends a line to ``out`` as each is answered, in any order. A line that is there already is not run again.

        Raises `RequestError` for a file that is no batch, before anything is run, and what loading a model raises.
        """
        lines = await asyncio.to_thread(self._lines)
        known = await asyncio.to_thread(answered_in, out)
        left = [line for line in lines if line.custom_id not in known]
        self.tally.total, self.tally.earlier = len(lines), len(lines) - len(left)
        await self._find_models(left)
        caller = LineCaller(self.context, self.endpoints)
        with self.source.open("rb") as source, out.open("ab", buffering=0) as written:
            async with asyncio.TaskGroup() as group:
                for name, slots in self._slots.items():
                    own = [line for line in left if self._requested(line) == name]
                    count = min(slots, len(own))
                    lanes = Lanes(own, count, by_prompt=self.by_prompt)
                    for lane in range(count):
                        files = _Files(source, written)
                        group.create_task(self._run_lane(lanes.lines(lane), caller, files, f"{name}/{lane}"))
            await asyncio.to_thread(os.fsync, written.fileno())
        return self.tally

    def _lines(self) -> list[Line]:
        reader = LineReader(self.endpoints.keys(), 1 << 62, self.context.limits.max_body + _FRAME)
        with self.source.open("rb") as file:
            while not reader.over and (piece := file.read(_PIECE)):
                reader.feed(piece)
        reader.close()
        if reader.faults:
            fault, *others = reader.faults
            position = Position(path=fault.param, line=fault.line)
            lines = ", ".join(str(other.line) for other in others[:_MOST_NAMED])
            more = ", …" if len(others) > _MOST_NAMED else ""
            hint = f"{_FORM} Others that cannot be run: {lines}{more}." if others else _FORM
            raise RequestError(fault.message, code="bad_batch", position=position, hint=hint)
        return reader.lines

    def _requested(self, line: Line) -> str | None:
        """The name of the model that a line requests; None: it names none, and no model is meant for its kind."""
        source = self.context.source
        usual = source.embedding if line.url.endswith("/embeddings") else source.default
        return usual if line.model is None else line.model

    async def _find_models(self, lines: Sequence[Line]) -> None:
        """Loads the models that the lines request, one after the other."""
        for line in lines:
            name = self._requested(line)
            if name in self._slots:
                continue
            try:
                model = await self.context.model(name)
            except NotFoundError as error:
                error.position = Position(path="body.model", line=line.number)
                raise
            self._slots[name] = max(1, model.engine.info.slots)

    async def _run_lane(self, lines: Iterator[Line], caller: LineCaller, files: _Files, lane: str) -> None:
        for line in lines:
            body = files.body(line)
            answer = await caller.call(line.url, body, ANYBODY, lane=lane)
            for pause in _PAUSES:
                if not answer.passing:
                    break
                await asyncio.sleep(pause)
                answer = await caller.call(line.url, body, ANYBODY, lane=lane)
            files.written.write(answer.line(line.custom_id))
            self._count(answer)

    def _count(self, answer: Answer) -> None:
        usage, tally = answer.usage, self.tally
        tally.completed += answer.ok
        tally.failed += not answer.ok
        tally.prompt_tokens += usage.input_tokens
        tally.cached_tokens += usage.input_tokens_details.cached_tokens
        tally.completion_tokens += usage.output_tokens


def answered_in(out: Path) -> set[str]:
    """The lines that ``out`` has, by their ``custom_id``; half a line at its end, of a run that was killed, is cut off.

    Raises `RequestError` for a file of another kind, which is left as it is.
    """
    if not out.exists():
        return set()
    known: set[str] = set()
    whole = 0
    with out.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            known.add(_custom_id(line, out))
            whole += len(line)
    os.truncate(out, whole)
    return known


def _custom_id(line: bytes, out: Path) -> str:
    try:
        return msgspec.json.decode(line, type=ready(Answered)).custom_id
    except (msgspec.DecodeError, RecursionError):
        message = f"{out} has a line that is no answer of a batch."
        raise RequestError(message, code="bad_batch", hint="Name another file.") from None
