"""The transcripts of the compliance suite, for tests that ask more of them than the suite does."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from antiphon.conversation import Conversation
from antiphon.errors import ParseError
from antiphon.formats.openchatml import read

SUITE = Path(__file__).parents[1] / "spec" / "openchatml"


@dataclass(frozen=True, slots=True)
class Sample:
    """A case's transcript; ``fragment`` and ``harmony`` as the case's flags say."""

    id: str
    transcript: bytes
    fragment: bool
    harmony: bool

    def read(self) -> Conversation:
        """By the strict reader. Raises `ParseError`."""
        return read(self.transcript, fragment=self.fragment, harmony=self.harmony)

    @property
    def text(self) -> str:
        return self.transcript.decode("utf-8", "surrogateescape")

    @property
    def is_valid(self) -> bool:
        try:
            self.read()
        except ParseError:
            return False
        return True


def samples() -> list[Sample]:
    """All of them, in the order of their files."""
    found: list[Sample] = []
    for file in sorted(SUITE.glob("*.json")):
        for case in json.loads(file.read_text("utf-8")):
            text, flags = case.get("transcript"), case.get("flags", ())
            transcript = base64.b64decode(case["base64"]) if text is None else text.encode()
            found.append(Sample(case["id"], transcript, "--fragment" in flags, "--harmony" in flags))
    return found


SAMPLES = samples()
VALID = [sample for sample in SAMPLES if sample.is_valid]
