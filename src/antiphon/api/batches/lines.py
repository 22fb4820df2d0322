"""The lines of a batch's input file: what each requests, what is wrong with it, and which beginnings are shared."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from antiphon.structs import ready

from .schema import LineFault

MOST_FAULTS = 100
"""Faults that a refused batch reports; what comes after them is not looked at."""
CUSTOM_ID = 512
"""Characters of a line's name at most."""
_BLOCK = 128
"""Bytes of a prompt that count as one step of a shared beginning."""
_PROMPT = ("tools", "functions", "instructions", "system", "messages", "prompt", "input")
"""The fields of a body that its prompt is made of, in the order in which a prompt has them."""
_FIELD = re.compile(r" - at `\$\.(\w+)|field `(\w+)`")
"""The field that msgspec complains of."""
MISTYPED = {
    "custom_id": "invalid_custom_id",
    "method": "invalid_method",
    "url": "invalid_url",
    "": "invalid_json_line",
}
"""The code of a field of another type, or that is not there; at "" that of all others."""

Value = TypeVar("Value")


class InputLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line. ``body`` is what the endpoint gets, byte for byte."""

    custom_id: str
    method: Literal["POST"]
    url: str
    body: msgspec.Raw


class Line(msgspec.Struct, frozen=True):
    """A line's place in its file: ``number`` counts from 1, ``start`` and ``end`` are offsets in bytes.

    ``model`` is the name that it requests, None the default's. ``places`` are the answers that it asks for at once.
    ``prompt`` sorts lines so that those whose prompts begin alike are neighbours.
    """

    number: int
    start: int
    end: int
    custom_id: str
    url: str
    model: str | None
    places: int
    prompt: bytes


class FaultyLineError(Exception):
    """A line that cannot be run."""

    def __init__(self, fault: LineFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class LineReader:
    """Reads a file of lines piece by piece. ``urls`` are those that a line may have; ``most`` the lines of a file.

    ``longest`` is the bytes of one line. After `close`, ``lines`` has all of them in the order of the file, and
    ``faults`` what is wrong with the file, a few at least where anything is.
    """

    urls: Collection[str]
    most: int
    longest: int
    lines: list[Line] = field(default_factory=list)
    faults: list[LineFault] = field(default_factory=list)
    _number: int = 0
    _start: int = 0
    _rest: bytes = b""
    _ids: set[str] = field(default_factory=set)
    _hopeless: bool = False

    @property
    def over(self) -> bool:
        """Whether no more needs to be read: the file is refused whatever comes."""
        return self._hopeless or len(self.faults) >= MOST_FAULTS

    def feed(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._add(line, ending=1)
        if len(self._rest) > self.longest:
            self._add(self._rest, ending=0)
            self._rest, self._hopeless = b"", True

    def close(self) -> None:
        if self._rest and not self.over:
            self._add(self._rest, ending=0)
        self._rest = b""
        if not self._number:
            self.faults.append(LineFault(code="empty_file", message="The file has no lines."))

    def _add(self, line: bytes, *, ending: int) -> None:
        self._number += 1
        start, self._start = self._start, self._start + len(line) + ending
        if self.over:
            return
        try:
            self.lines.append(self._read(line, start))
        except FaultyLineError as error:
            self.faults.append(error.fault)

    def _read(self, line: bytes, start: int) -> Line:
        if self._number > self.most:
            self._hopeless = True
            raise self._fault("too_many_lines", f"The file has more than {self.most} lines.")
        if len(line) > self.longest:
            raise self._fault("line_too_long", f"The line has more than {self.longest} bytes.")
        if not line.strip():
            raise self._fault("invalid_json_line", "The line is blank.")
        request = self._request(line)
        body = self._fields(request)
        self._ids.add(request.custom_id)
        return Line(
            number=self._number,
            start=start,
            end=start + len(line),
            custom_id=request.custom_id,
            url=request.url,
            model=_value(body.get("model"), str),
            places=_places(body),
            prompt=prompt_key(body),
        )

    def _request(self, line: bytes) -> InputLine:
        try:
            request = msgspec.json.decode(line, type=ready(InputLine))
        except msgspec.ValidationError as error:
            found = _FIELD.search(str(error))
            name = (found[1] or found[2]) if found else ""
            code = MISTYPED[name if name in MISTYPED else ""]
            raise self._fault(code, f"{str(error)[:200]}.", name or None) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._fault("invalid_json_line", f"The line is no JSON object: {str(error)[:200]}.") from None
        if not 0 < len(request.custom_id) <= CUSTOM_ID:
            raise self._fault("invalid_custom_id", f"It has 1 to {CUSTOM_ID} characters.", "custom_id")
        if request.custom_id in self._ids:
            message = f"Another line has the custom_id {request.custom_id[:80]!r}."
            raise self._fault("duplicate_custom_id", message, "custom_id")
        if request.url not in self.urls:
            known = " or ".join(sorted(self.urls))
            raise self._fault("invalid_url", f"The url is {request.url[:80]!r}; it must be {known}.", "url")
        return request

    def _fields(self, request: InputLine) -> dict[str, msgspec.Raw]:
        try:
            body = msgspec.json.decode(request.body, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            raise self._fault("invalid_body", "The body must be a JSON object.", "body") from None
        for name in ("stream", "background"):
            if _value(body.get(name), bool):
                raise self._fault("invalid_body", f"{name} is not possible in a batch.", f"body.{name}")
        return body

    def _fault(self, code: str, message: str, param: str | None = None) -> FaultyLineError:
        return FaultyLineError(LineFault(code=code, message=message, line=self._number, param=param))


def body_of(line: bytes) -> bytes:
    """The body of a line that was read before."""
    return bytes(msgspec.json.decode(line, type=ready(InputLine)).body)


def prompt_key(body: dict[str, msgspec.Raw]) -> bytes:
    """Bytes that two bodies share as far as their prompts begin alike, 8 for each `_BLOCK` bytes of the prompt."""
    text = b"\0".join(bytes(body[name]) for name in _PROMPT if name in body)
    blocks = (text[start : start + _BLOCK] for start in range(0, len(text), _BLOCK))
    return b"".join(hashlib.blake2b(block, digest_size=8).digest() for block in blocks)


def _value(raw: msgspec.Raw | None, kind: type[Value]) -> Value | None:
    """A field, if it is of that kind; one that is not is refused by the endpoint."""
    try:
        return None if raw is None else msgspec.json.decode(raw, type=ready(kind))
    except (msgspec.DecodeError, RecursionError):
        return None


def _places(body: dict[str, msgspec.Raw]) -> int:
    """How many answers are made at once: ``n`` for each prompt."""
    prompts: list[Any] | None = _value(body.get("prompt"), list)
    many = len(prompts) if prompts and not isinstance(prompts[0], int) else 1
    return max(1, (_value(body.get("n"), int) or 1) * many)


# In which order lines are run, and next to which: what prompts share is evaluated once, not once for each of them.


class Lanes:
    """Lines, divided between ``count`` lanes that run one line after the other, each in a slot of the engine.

    ``by_prompt``: lines whose prompts begin alike are neighbours in one lane, so that its slot has that beginning
    already; else lines are dealt out in their order. A lane that is through takes over half of what the longest has.
    """

    def __init__(self, lines: Iterable[Line], count: int, *, by_prompt: bool) -> None:
        ordered = sorted(lines, key=lambda line: (line.prompt, line.number)) if by_prompt else list(lines)
        share = -(-len(ordered) // count)
        parts = (ordered[i * share : (i + 1) * share] if by_prompt else ordered[i::count] for i in range(count))
        self._lanes = [deque(part) for part in parts]

    def lines(self, lane: int) -> Iterator[Line]:
        """Yields the lines to run in a lane, each line once. Ends when no lane has any more."""
        own = self._lanes[lane]
        while True:
            if not own:
                longest = max(self._lanes, key=len)
                own.extendleft(longest.pop() for _ in range(-(-len(longest) // 2)))
            if not own:
                return
            yield own.popleft()
