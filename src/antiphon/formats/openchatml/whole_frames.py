"""Frames that stand whole in a text, read at one stroke: most of them do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .between import BLANK, Between
from .finding import Place
from .frame import FOOTERS, MAX_HEAD, Found, Places, frame_of
from .heads import Heads
from .spelling import is_utf8

_WHOLE = re.compile(
    rf"([{BLANK}]*+)<\|start\|>([^<]*+(?:<\|(?:channel|constrain)\|>[^<]*+){{0,8}}+)<\|message\|>"
    r"([^<]*+(?:<(?!\|)[^<]*+){0,64}+)(?<!<)<\|(end|call|return)\|>"
)
"""Blanks, and a frame whose body has neither escapes nor controls; and few ``<``, since each costs memory here."""

_ENDS = {end.value: end for end in FOOTERS.values()}


@dataclass(frozen=True, slots=True)
class WholeFrames:
    """Reads as `FrameReader` does between frames, whose parts these are, and in a quarter of the time."""

    heads: Heads
    place: Place
    between: Between
    keep: bool

    def read(self, text: str, start: int, found: list[Found]) -> int:
        """Adds the frames from ``start`` on; where the first begins that is not whole, or needs a closer look."""
        if not self.between.is_clean:
            return start
        place, between, keep = self.place, self.between, self.keep
        while whole := _WHOLE.match(text, start):
            blanks, head_text, body, end = whole.groups()
            if len(head_text) > MAX_HEAD or not is_utf8(body):
                break
            head = self.heads.spelled(head_text)
            place.pass_over(blanks)
            opened = place.copy()
            if head.problems:
                found += head.findings(head_text, opened)
            place.pass_over(text[whole.end(1) : whole.start(3)])
            body_at = place.copy()
            place.pass_over(body)
            places = Places(opened, body_at, place.copy())
            place.pass_in_line(text[whole.end(3) : whole.end()])
            between.add_blanks(blanks)
            before, wanted = between.take_blanks(), keep or head.needs_body
            text_kept = body if wanted else ""
            frame = frame_of(head, text_kept, _ENDS[end], places, head_text=head_text, before=before)
            frame.bodiless = not wanted
            found.append(frame)
            start = whole.end()
        return start
