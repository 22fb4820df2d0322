"""Reads random and mutated transcripts with both readers, Python's and JavaScript's: they agree on what is valid.

    python tests/fuzz/openchatml_readers.py [SECONDS] [SEED]

They agree on every code and place, on frames, projections, calls, and what is shown, also of what is not valid. What is
left out, and counted: texts that declare tools, whose types the second reader does not read, JSON deeper than Python's
goes, and headers with a byte order mark or a lone carriage return inside.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from antiphon.formats.openchatml import Implementation, check
from fuzz.openchatml import corpus, invent
from kit.javascript import second_reader

_UNCHECKED = re.compile(r"# Tools|\[{300}")
_UNLIKE = re.compile(r".\ufeff|\r(?!\n)|[\x85\u2028\u2029]", re.DOTALL)
"""What libyaml takes for breaks and marks in the middle of a text, in a header."""
_IN_XML = "the body is not XML"
VIEWS = ("frames", "projection", "shown", "debug", "resumed", "harmony", "calls")
MILD = [
    "x", " ", "\n", "<", "<|", "é", "<<|end|>", "<|literal|><|end|><|endliteral|>", "{}", "%41", "%", '"', "=", ",",
    " name=a", " intent=debug", " content_type=text", "user", "analysis", "commentary", "2", "json",
    "<|start|>user<|message|>x<|end|>", "<|start|>assistant<|message|>x<|return|>\n",
]  # fmt: skip
"""Words that may leave a transcript valid."""
FLAGS: list[list[str]] = [[], [], ["--fragment"], ["--fragment", "--harmony"]]


@dataclass
class Comparison:
    """How many texts were compared, how many of them were valid, how many were left out, and what differed first."""

    compared: int = 0
    valid: int = 0
    left_out: int = 0
    difference: str | None = None


def compare(other: Implementation, seed: int, *, seconds: float = 0.0, count: int = 0) -> Comparison:
    rng, seeds, found = random.Random(seed), corpus(), Comparison()
    right = [text for text in seeds if check(text.encode("utf-8", "surrogateescape"))["valid"]]
    end = time.monotonic() + seconds
    while found.compared < count or (not count and time.monotonic() < end):
        text = invent(rng, seeds) if rng.random() < 0.5 else vary(rng, right)
        flags = rng.choice(FLAGS)
        report = other(text.encode("utf-8", "surrogateescape"), flags)
        assert isinstance(report, Mapping)
        if _UNCHECKED.search(text) or _UNLIKE.search(text.partition("\n<|start|>")[0]):
            found.left_out += 1
            continue
        ours = check(text.encode("utf-8", "surrogateescape"), flags)
        found.compared += 1
        found.valid += ours["valid"]
        found.difference = _difference(ours, report)
        if found.difference:
            found.difference = f"{flags} {text!r}\n{found.difference}"
            break
    return found


def vary(rng: random.Random, seeds: list[str]) -> str:
    """A transcript of the suite with a word more, or one in another's place."""
    text = rng.choice(seeds)
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(MILD) + text[at + rng.choice([0, 0, 1, 4]) :]


def _difference(ours: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    for key in ("errors", "warnings"):
        if _places(ours[key]) != _places(other[key]):
            return f"{key}\nours: {ours[key] or 'none'}\nthe other: {other[key] or 'none'}"
    for key in ("valid", *VIEWS):
        if ours[key] != other[key]:
            return f"{key}\nours: {ours[key]}\nthe other: {other[key]}"
    return None


def _places(findings: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Codes and places in their order, before those of XML, in which parsers differ on where a fault is."""
    in_xml = [finding["code"] for finding in findings if _IN_XML in finding["message"]]
    others = [finding for finding in findings if _IN_XML not in finding["message"]]
    return [(one["code"], one["line"], one["column"]) for one in others] + [(code, 0, 0) for code in in_xml]


def main(arguments: list[str]) -> int:
    seconds, seed = float(arguments[0]) if arguments else 60.0, int(arguments[1]) if len(arguments) > 1 else 0
    with second_reader() as other:
        found = compare(other, seed, seconds=seconds, count=int(os.environ.get("DRAWS", "0")))
    print(f"{found.compared} texts, {found.valid} of them valid, {found.left_out} left out")
    print(found.difference or "both readers agree")
    return 1 if found.difference else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
