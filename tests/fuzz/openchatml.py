"""Throws random and mutated transcripts at the OpenChatML readers for a while.

    [DRAWS=20000] python tests/fuzz/openchatml.py [SECONDS] [SEED]

Every input must end in time, be read alike wherever it is cut, and lose no text; what is written of it must read back.
A failure prints the input, so that it can become a case of the suite.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.cli.conformance import load, shipped
from antiphon.conversation import Conversation, Incident, MessageEnded, ParserEvent
from antiphon.errors import ParseError, RenderError
from antiphon.formats.openchatml import (
    Reader,
    TranscriptEnvelope,
    fix,
    iter_read,
    openchatml,
    read,
    repair,
    write,
)
from antiphon.formats.openchatml.spelling import CONTROLS
from antiphon.tokens import Control, Piece

MARK = "Ж"
"""A letter that no case uses: as many as go in must come out."""
LIMIT = 20_000
SLOW = 10.0

WORDS = [
    *(control.spelling for control in CONTROLS), *(f"<{control.spelling}" for control in CONTROLS),
    "<", "<|", "|>", "\n", "\r\n", " ", "\t", "\0", "\ufeff", "\udcff", "é", MARK, "---\n",
    'version: "2.2"\n', "{}", '{"a":', "%41", "%", "=", '"',
    "user", "assistant", "tool", "system", "functions.f", "python", "analysis", "commentary", "final", "json",
    " to=functions.f", " call_id=c1", " name=functions.f", " intent=preamble", " content_type=json",
]  # fmt: skip


@dataclass(frozen=True)
class Failure:
    check: str
    text: str
    problem: str


def corpus() -> list[str]:
    texts = [case.input.decode("utf-8", "surrogateescape") for case in load(shipped())]
    return [text for text in texts if len(text) < 3000]


def invent(rng: random.Random, seeds: list[str]) -> str:
    """A random text, or a transcript of the suite with some changes."""
    if rng.random() < 0.3:
        return "".join(rng.choices(WORDS, k=rng.randrange(60)))
    text = rng.choice(seeds)
    for _ in range(rng.randrange(1, 6)):
        text = mutate(rng, text, seeds)[:LIMIT]
    return text


def mutate(rng: random.Random, text: str, seeds: list[str]) -> str:
    a, b = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    match rng.randrange(6):
        case 0:
            return text[:a] + rng.choice(WORDS) + text[a:]
        case 1:
            return text[:a] + text[min(b, a + 12) :]
        case 2:
            return text[:b] + text[a:b] + text[b:]
        case 3:
            return text[:a] + rng.choice(seeds)[:400] + text[a:]
        case 4:
            return text[:a] + rng.choice(WORDS) * rng.randrange(1, 40) + text[a:]
        case _:
            return text[:a] + rng.choice(WORDS) + text[min(b, a + 4) :]


def check_lenient(text: str, rng: random.Random) -> str | None:
    """Cut anywhere it reads the same, loses nothing, and what is written of it reads the same."""
    whole, findings = repair(text)
    cut = rng.randrange(len(text) + 1)
    if repair([text[:cut], text[cut:]]) != (whole, findings):
        return f"cutting at {cut} reads otherwise"
    if len(text) < 1000 and repair(list(text)) != (whole, findings):
        return "letter by letter it reads otherwise"
    reader = Reader(strict=False)
    output = "".join([*(item.text for item in iter_read(text, reader)), reader.header_text])
    if output.count(MARK) < text.count(MARK):
        return "text is lost"
    return check_fixed(whole)


def check_fixed(whole: Conversation) -> str | None:
    """Fixed, it is written as a transcript that a strict reader takes and that has the same texts, or refused."""
    fixed, _ = fix(whole)
    try:
        written = write(fixed)
    except RenderError as error:
        return None if error.code.startswith("E-") else f"refused without a code: {error!r}"
    envelope = whole.extra["openchatml"]
    rewritten = read(written, fragment=isinstance(envelope, TranscriptEnvelope) and envelope.header is None)
    if [m.text for m in rewritten.messages] != [m.text for m in fixed.messages]:
        return "what is written reads otherwise"
    return None


def check_strict(text: str, rng: random.Random) -> str | None:
    """A transcript is valid, and is then written byte for byte, or has one error with a code and a place."""
    try:
        conversation = read(text)
    except ParseError as error:
        placed = error.position is not None and error.position.line is not None
        return None if error.code.startswith("E-") and placed else f"an error without a place: {error!r}"
    if fix(conversation)[1]:
        return f"it is valid and was changed: {fix(conversation)[1][0]}"
    return None if write(conversation) == text else "it is written otherwise than it was read"


def check_reply(text: str, rng: random.Random) -> str | None:
    """As a model's reply it is read alike wherever it is cut, and no text is lost."""
    format = openchatml(rng.choice([[], CONTROLS]))
    cut = rng.randrange(len(text) + 1)
    own = Control("<|im_end|>")
    found: list[list[ParserEvent]] = []
    ways: list[list[Piece]] = [[text, own], [text[:cut], text[cut:], own]]
    for pieces in ways:
        parser = format.parser()
        found.append([event for piece in pieces for event in parser.feed([piece])] + parser.close())
    messages = [[event.message for event in events if isinstance(event, MessageEnded)] for events in found]
    if messages[0] != messages[1]:
        return f"cutting at {cut} reads otherwise"
    output = "".join([str(m) for m in messages[0]] + [event.text for event in found[0] if isinstance(event, Incident)])
    return "text is lost" if output.count(MARK) < text.count(MARK) else None


CHECKS: dict[str, Callable[[str, random.Random], str | None]] = {
    "lenient": check_lenient,
    "strict": check_strict,
    "reply": check_reply,
}


def failure(text: str, rng: random.Random) -> Failure | None:
    for name, check in CHECKS.items():
        start = time.perf_counter()
        try:
            problem = check(text, rng)
        except Exception as error:  # noqa: BLE001 - a traceback is what we look for
            problem = f"{type(error).__name__}: {error}"
        if problem is None and time.perf_counter() - start > SLOW:
            problem = "it takes too long"
        if problem:
            return Failure(name, text, problem)
    return None


def fuzz(seed: int, *, seconds: float = 0.0, count: int = 0) -> tuple[int, Failure | None]:
    """How many inputs were tried, and the first that failed."""
    rng, seeds = random.Random(seed), corpus()
    end, tried = time.monotonic() + seconds, 0
    while tried < count or (not count and time.monotonic() < end):
        tried += 1
        found = failure(invent(rng, seeds), rng)
        if found:
            return tried, found
    return tried, None


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
    tried, found = fuzz(seed, seconds=seconds, count=int(os.environ.get("DRAWS", "0")))
    print(
        f"{tried} inputs, seed {seed}: "
        + (f"{found.check}: {found.problem}\n{found.text!r}" if found else "no failure")
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
