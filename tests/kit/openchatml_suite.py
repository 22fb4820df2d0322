"""The transcripts of the compliance suite, for tests that ask more of them than the suite does."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.cli.conformance import load, shipped
from antiphon.conversation import Conversation
from antiphon.errors import ParseError
from antiphon.formats.openchatml import read


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
    return [
        Sample(case.id, case.input, "--fragment" in case.flags, "--harmony" in case.flags) for case in load(shipped())
    ]


SAMPLES = samples()
VALID = [sample for sample in SAMPLES if sample.is_valid]
