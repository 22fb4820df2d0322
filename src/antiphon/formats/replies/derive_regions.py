"""Derives what stands round the parts of a reply that are no calls: reasoning, the answer, the end."""

from __future__ import annotations

from collections.abc import Collection

from .atoms import Atoms, closes
from .description import Region
from .probe import ANSWER, REASONING, Probe, Reply, called

_ANSWER = Reply(text=ANSWER)


class Regions:
    """What the template says of reasoning and answers. ``layout`` stands between regions and says nothing."""

    def __init__(self, probe: Probe, atoms: Atoms, anchor: str, source: str) -> None:
        self._probe = probe
        self._atoms = atoms
        self._anchor = anchor
        self._source = source
        self._prompt = probe.prompt()
        self.layout: list[str] = []
        self._before, _, self._behind = self.of_reply(probe.reply(_ANSWER)).partition(ANSWER)
        written = self._written_reasoning()
        self.reasoning = written or self._unwritten_reasoning()
        self.content = self._content()
        if written is not None and self.reasoning is not None:
            self.reasoning = self._without_opening(self.reasoning)
        self.end = self._answer_end()

    def of_reply(self, text: str) -> str:
        """What stands behind the prompt's anchor."""
        return text.partition(self._anchor)[2] if self._anchor.strip() else text

    def lead(self, text: str) -> str:
        """The text before the first call, without empty reasoning and an empty answer."""
        text = without_marks(text, self._reasoning_marks)
        if self.content is not None:
            text = without_marks(text, (self.content.open, self.content.close))
        for layout in self.layout:
            text = without_marks(text, (layout,))
        return text.lstrip()

    def tail(self, text: str) -> tuple[str, bool]:
        """The text behind the last call up to the reply's end, and whether that is there."""
        text = self._own(text)
        for layout in (*(layout for layout in self.layout if layout in self._answer_tail), ""):
            before, found, _ = text.partition(layout + self.end) if self.end else ("", "", "")
            if found:
                return before.rstrip(), True
        return text.rstrip(), not self._atoms.tags(text)

    def end_of(self, behind: str) -> str:
        """What ends a reply after calls."""
        tags = self._atoms.tags(self._own(behind))
        return "" if not tags or self.end in tags else tags[-1]

    @property
    def _reasoning_marks(self) -> tuple[str, ...]:
        return (self.reasoning.open, self.reasoning.close) if self.reasoning is not None else ()

    def _begun(self, thinking: bool | None) -> str:
        """What the prompt says of the reply."""
        prompt = self._probe.prompt(thinking=thinking)
        return prompt.rpartition(self._anchor)[2] if self._anchor.strip() and self._anchor in prompt else ""

    def _written_reasoning(self) -> Region | None:
        for text in self._probe.reasoned():
            opening, found, rest = self.of_reply(text).partition(REASONING)
            if not found:
                continue
            close = rest.partition(ANSWER)[0] if ANSWER in rest else self._close_before_calls(opening, rest)
            opening = opening.rpartition(ANSWER)[2]
            if not opening.strip():
                opening = self._begun(None)
            return Region(open=opening, close=close) if opening.strip() or close.strip() else None
        return None

    def _close_before_calls(self, opening: str, rest: str) -> str:
        return self._atoms.mirrored(opening, rest) or self._atoms.up_to_tag(rest)

    def _unwritten_reasoning(self) -> Region | None:
        """Reasoning that the history leaves out: the prompt opens it, or opens and closes it."""
        begun = [self._begun(thinking) for thinking in (None, True, False)]
        for text in (*begun, self._before):
            tags = self._atoms.tags(text)
            if len(tags) == 2 and closes(tags[0], tags[1]):
                opened = (text.lstrip() for text in begun if text.strip() == tags[0])
                return Region(open=next(opened, tags[0]), close=tags[1])
        for text in begun:
            closing = text.strip().replace("<", "</", 1)
            if self._atoms.is_tag(text.strip()) and text.strip() != closing and closing in self._source:
                return Region(open=text.lstrip(), close=closing)
        return None

    def _content(self) -> Region | None:
        """What stands round an answer; None where nothing does."""
        opening = self._answer_opening()
        if not opening.strip():
            return None
        return Region(open=opening, close=self._answer_close(opening).strip())

    def _answer_opening(self) -> str:
        if self.reasoning is None:
            return self._before.lstrip()
        mirrored = self._atoms.mirrored(self.reasoning.open, self.reasoning.close)
        closings = (mirrored, self.reasoning.close, self._atoms.up_to_tag(self.reasoning.close))
        rest = without_marks(self._before, (self.reasoning.open,))
        for close in filter(str.strip, closings):
            if (left := without_marks(rest, (close,))) != rest:
                return left.lstrip()
        return rest.lstrip()

    def _answer_close(self, opening: str) -> str:
        """What closes an answer: what an end follows and calls alike."""
        tail = self._answer_tail
        if mirrored := self._atoms.mirrored(opening, tail):
            return mirrored
        before_calls = self.of_reply(self._probe.reply(Reply(text=ANSWER, calls=called()))).partition(ANSWER)[2]
        if shared := self._atoms.prefix([tail, before_calls]).strip():
            return shared
        tags = self._atoms.tags(tail)
        closes_reasoning = self.reasoning is not None and tags[:1] == self._atoms.tags(self.reasoning.close)[:1]
        return self._atoms.up_to_tag(tail) if len(tags) > 1 or (tags and closes_reasoning) else ""

    @property
    def _answer_tail(self) -> str:
        """What follows an answer; where nothing does, what begins the next message."""
        tail = self._own(self._behind)
        return tail if tail.strip() else self._probe.before_user(_ANSWER).partition(ANSWER)[2]

    def _own(self, text: str) -> str:
        """What follows a reply, without a prompt that the template adds unbidden."""
        text = self._of_message(text)
        prompt = self._prompt.strip()
        if len(prompt) < 4 or not text.strip().endswith(prompt):
            return text
        return text[: text.rindex(prompt)] + self._atoms.up_to_tag(prompt)

    def _of_message(self, text: str) -> str:
        """The text up to where another message of the same kind begins."""
        end = self._atoms.tags(self._behind)[:1]
        header = next((tag for tag in self._atoms.tags(self._anchor) if [tag] != end), "")
        return text.partition(header)[0] or text if self._prompt.count(header) > 1 and header else text

    def _answer_end(self) -> str:
        """The first tag behind an answer that is of no other mark of the reply."""
        closing = self.content.close if self.content is not None else ""
        rest = self._answer_tail.lstrip().removeprefix(closing)
        marks = [*self._reasoning_marks, *((self.content.open, closing) if self.content is not None else ())]
        own = {tag for mark in marks for tag in self._atoms.tags(mark)}
        tags = self._atoms.tags(rest)
        if not tags:
            return next(iter(self._atoms.tags(closing)), "") or self._plain_end(rest)
        free = [tag for tag in tags if tag not in own]
        end = next((tag for tag in free if not self._atoms.is_composite(tag)), (free or tags)[0])
        if layout := rest.partition(end)[0].strip():
            self.layout.append(layout)
        return end

    def _plain_end(self, rest: str) -> str:
        """Signs that no tag has, at the end of every answer."""
        behind = (rest, self._probe.before_user(_ANSWER).partition(ANSWER)[2])
        shared = self._atoms.prefix(behind).strip()
        return shared if len(shared) > 2 and not shared[0].isalnum() and "\n" not in shared else ""

    def _without_opening(self, reasoning: Region) -> Region:
        """The reasoning's close without what opens the answer, and without the header of a message between them."""
        close = reasoning.close
        if self.content is not None and close.endswith(self.content.open):
            close = close[: len(close) - len(self.content.open)]
        mirrored = self._atoms.mirrored(reasoning.open, close)
        header = self._atoms.suffix([self._anchor.rstrip(), close.rstrip()]).strip()
        if header == close.strip():
            header = header[len(self._atoms.up_to_tag(header)) :].strip()
        if self._atoms.tags(header) and not (mirrored and not close[len(mirrored) :].strip()):
            self.layout.append(header)
            close = close.rstrip().removesuffix(header)
        return Region(open=reasoning.open, close=close)


def without_marks(text: str, marks: Collection[str]) -> str:
    """The text without the marks that it begins with, in their order, blanks aside."""
    for mark in filter(str.strip, marks):
        if text.lstrip().startswith(mark.strip()):
            text = text.lstrip()[len(mark.strip()) :]
    return text
