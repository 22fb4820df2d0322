"""Derives how a model writes its replies from what its template writes for messages that differ in one thing."""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec.structs import replace

from .atoms import Atoms, closes
from .derive_calls import Surroundings, derive_form
from .description import CallForm, Region, ReplyDescription
from .probe import ANSWER, IDS, NAMES, REASONING, Call, History, Probe, Reply, called

# Derives what stands round the parts of a reply that are no calls: reasoning, the answer, the end.

_ANSWER = Reply(text=ANSWER)


class Regions:
    """Finds the marks of reasoning and answers in a template. ``layout`` stands between regions and says nothing."""

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
        opening = self._answer_opening()
        self.content = Region(open=opening, close=self._answer_close(opening).strip()) if opening.strip() else None
        if written is not None and self.reasoning is not None:
            self.reasoning = self._without_opening(self.reasoning)
        self.end = self._answer_end()

    def of_reply(self, text: str) -> str:
        """The text behind the prompt's anchor."""
        return text.partition(self._anchor)[2] if self._anchor.strip() else text

    def lead(self, text: str) -> str:
        """The text before the first call, without empty reasoning and an empty answer.

        Two marks with nothing between them open no calls: they are layout.
        """
        text = without_marks(text, self._reasoning_marks)
        if self.content is not None:
            text = without_marks(text, (self.content.open, self.content.close))
        for layout in self.layout:
            text = without_marks(text, (layout,))
        rest = self._atoms.without_pair(text)
        if empty := text[len(rest) :].strip():
            self.layout.append(empty)
        return rest.lstrip()

    def tail(self, text: str) -> tuple[str, bool]:
        """The text behind the last call up to the reply's end, and whether that is there."""
        text = self._own(text)
        for layout in (*(layout for layout in self.layout if layout in self._answer_tail), ""):
            before, found, _ = text.partition(layout + self.end) if self.end else ("", "", "")
            if found:
                return before.rstrip(), True
        return text.rstrip(), not self._atoms.tags(text)

    def end_of(self, behind: str) -> str:
        """The tag that ends a reply after calls; empty where it is the answer's end."""
        tags = self._atoms.tags(self._own(behind))
        return "" if not tags or self.end in tags else tags[-1]

    @property
    def _reasoning_marks(self) -> tuple[str, ...]:
        return (self.reasoning.open, self.reasoning.close) if self.reasoning is not None else ()

    def _begun(self, thinking: bool | None) -> str:
        """The reply's beginning in the prompt: the text behind the anchor."""
        prompt = self._probe.prompt(thinking=thinking)
        return prompt.rpartition(self._anchor)[2] if self._anchor.strip() and self._anchor in prompt else ""

    def _written_reasoning(self) -> Region | None:
        for text in self._probe.reasoned():
            opening, found, rest = self.of_reply(text).partition(REASONING)
            if not found:
                continue
            if ANSWER in rest:
                close = rest.partition(ANSWER)[0]
            else:
                close = self._atoms.mirrored(opening, rest) or self._atoms.up_to_tag(rest)
            opening = opening.rpartition(ANSWER)[2]
            if not opening.strip():
                opening = self._begun(None)
            return Region(open=opening, close=close) if opening.strip() or close.strip() else None
        return None

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
        """The close of an answer: an end follows it, and calls do."""
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
        """The text behind an answer; where none is, the beginning of the next message."""
        tail = self._own(self._behind)
        return tail if tail.strip() else self._probe.before_user(_ANSWER).partition(ANSWER)[2]

    def _own(self, text: str) -> str:
        """The text behind a reply, without a prompt that the template adds unbidden."""
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


_CALL = Reply(calls=called())
_SENTINELS = re.compile("|".join((ANSWER, *NAMES, *IDS)))
_WORD = re.compile(r"\w")
_PRINTED = re.compile(r"""["']type["']""")


def derive(probe: Probe, atoms: Atoms, source: str = "") -> ReplyDescription:
    """Derives a description from the template; nothing of it is proven before `prove`.

    ``source``: the template's own text, in which a closing tag may be named that no rendering shows.
    """
    probe.history = _history_of(probe)
    atoms.learn([probe.reply(Reply(reasoning=REASONING, text=ANSWER, calls=called(2))), probe.prompt()])
    anchor = _anchor_of(probe, atoms)
    regions = Regions(probe, atoms, anchor, source)
    form, after_calls = _calls_of(probe, atoms, regions)
    ends = tuple(dict.fromkeys(end for end in (regions.end, *after_calls) if end))
    found = ReplyDescription(
        anchor=_without_end(anchor, ends, atoms),
        reasoning=regions.reasoning,
        content=regions.content,
        calls=(form,) if form is not None else (),
        layout=tuple(dict.fromkeys(regions.layout)),
        ends=ends,
    )
    return _with_opened(found)


def _with_opened(found: ReplyDescription) -> ReplyDescription:
    """The prompt may open the first part, as it separates two: ``>>>``. Then that opens every part."""
    form = found.calls[0] if found.calls else None
    if (
        form is None
        or form.open
        or form.section is not None
        or not found.anchor.endswith(form.separator.strip() or "\0")
    ):
        return found
    opening = form.separator.strip()
    content = Region(open=opening + found.content.open, close=found.content.close) if found.content else None
    form = replace(form, open=opening, separator="")
    return replace(found, anchor=found.anchor.removesuffix(opening), content=content, calls=(form,))


def _history_of(probe: Probe) -> History:
    """Arguments as an object, unless the template then fails or writes it as Python does; reasoning by its fields."""
    found = History()
    text = probe.reply(_CALL)
    if "zqka" not in text or "{'zqka'" in text:
        probe.history = History(text_arguments=True)
        found = probe.history if "zqka" in probe.reply(_CALL) else found
    probe.history = found
    if any(REASONING in text for text in probe.reasoned()):
        return found
    probe.history = replace(found, blocks=True)
    before, found_text, _ = probe.reply(Reply(reasoning=REASONING, text=ANSWER)).partition(REASONING)
    return probe.history if found_text and not _PRINTED.search(before) else found


def _anchor_of(probe: Probe, atoms: Atoms) -> str:
    """The shared beginning of the prompt and every reply in the history, without an opening of reasoning."""
    prompt = probe.prompt()
    samples = [probe.reply(_ANSWER), probe.before_user(_ANSWER), probe.reply(_CALL), *probe.reasoned()]
    before = atoms.up_to_tag(prompt).strip() if atoms.tags(prompt) else ""  # `/no_think`, say
    samples = [text for text in samples if before in text] or samples
    written = [text for text in samples if text and atoms.prefix([prompt, text]).strip()]
    if not written:  # blanks may stand before a message
        prompt, *samples = (text.lstrip() for text in (prompt, *samples))
        written = [text for text in samples if text and atoms.prefix([prompt, text])]
    stem = atoms.prefix([prompt, *written])
    if header := _same_header(stem, prompt, written, atoms):
        return header
    before = probe.reply(_ANSWER).partition(ANSWER)[0]
    if header := _other_header(len(stem), prompt, before, written, atoms):
        return header
    texts = (prompt, *written)
    while (tag := _last_tag(stem, atoms)) and any(_belongs(tag, stem, text, atoms) for text in texts):
        stem = stem[: stem.rstrip().rfind(tag)]
    stem = atoms.without_pair(stem)
    if turned := _turned(stem, prompt, before, atoms):
        return turned
    anchor = _last_part(stem, prompt, probe.prompt(after=[_CALL]), atoms)
    # Words before its header, by which prompts with and without reasoning differ, are not of it.
    header = anchor[anchor.find(next(iter(atoms.tags(anchor)), anchor)) :]
    prompts = [probe.prompt(thinking=thinking) for thinking in (True, False)]
    return header if any(anchor not in text and header in text for text in prompts) else anchor


def _same_header(stem: str, prompt: str, written: list[str], atoms: Atoms) -> str:
    """The header of every reply, where the texts before it differ in no more than blanks; else empty."""
    heads = [prompt, *(text.partition(ANSWER)[0] for text in written if ANSWER in text)]
    header = atoms.suffix(heads).lstrip()
    before = {head.removesuffix(header) for head in heads}
    differ = len(before) > 1 and len(set(map(str.strip, before))) == 1
    known = differ and atoms.tags(header) and all(header in text for text in written)
    return header if known and header not in stem else ""


def _other_header(start: int, prompt: str, before: str, written: list[str], atoms: Atoms) -> str:
    """The header of a reply, where the history alone has a tag before it; else empty."""
    opened = _last_tag(prompt, atoms)
    if any(closes(opened, tag) and tag != opened for text in written for tag in atoms.tags(text)):
        prompt = prompt.rstrip().removesuffix(opened)
    header, own = prompt[start:].strip(), before[start:].strip()
    more = own.endswith(header) and own != header and all(header in text for text in written)
    return header if more and atoms.tags(header) else ""


def _turned(stem: str, prompt: str, before: str, atoms: Atoms) -> str:
    """The header of a reply, where the prompt has a message before it that the history leaves out; else empty."""
    header = atoms.suffix([prompt, before]).lstrip()
    own = before[len(stem) :]
    left_out = len(prompt) - len(stem) - len(own)
    written = own.strip() and left_out > 0 and prompt.endswith(own) and len(header) > len(own)
    return header if written and atoms.tags(header) else ""


def _last_part(stem: str, prompt: str, after_result: str, atoms: Atoms) -> str:
    """The end of the stem, as it stands behind results of calls too."""
    core = stem.rstrip()
    tail = prompt[len(core) :].rstrip()
    after_result = after_result.rstrip()
    if tail and after_result.endswith(tail):
        after_result = after_result[: len(after_result) - len(tail)]
    shared = atoms.suffix([core, after_result.rstrip()]).lstrip()
    return (shared or core.lstrip()) + stem[len(core) :]


def _last_tag(stem: str, atoms: Atoms) -> str:
    parts = atoms.parts(stem.rstrip())
    return parts[-1] if parts and atoms.is_tag(parts[-1]) else ""


def _belongs(tag: str, stem: str, text: str, atoms: Atoms) -> bool:
    """The tag is of the reply: what closes it is written there, or a mark of several parts goes on behind it."""
    reply = _SENTINELS.split(text[len(stem) :])[0]
    begins_mark = stem.endswith(tag) and atoms.tags(reply) and _WORD.match(reply)
    return bool(begins_mark) or any(closes(tag, part) and part != tag for part in atoms.tags(reply))


def _without_end(anchor: str, ends: tuple[str, ...], atoms: Atoms) -> str:
    """The anchor without the end of the message before it."""
    for end in ends:
        rest = anchor.rpartition(end)[2].lstrip()
        anchor = rest or anchor
    before, found, rest = anchor.partition("\n")
    return rest.lstrip() if found and atoms.is_tag(before) and atoms.tags(rest) else anchor


def _calls_of(probe: Probe, atoms: Atoms, regions: Regions) -> tuple[CallForm | None, list[str]]:
    """The form of calls, and what ends a reply after them."""
    ids_late = IDS[0] not in probe.reply(_CALL) and IDS[0] in probe.before_result(_CALL)

    def write(calls: tuple[Call, ...]) -> str:
        reply = Reply(calls=calls)
        text = probe.before_result(reply) if ids_late else probe.reply(reply)
        return regions.of_reply(text) or text  # calls alone may be written without the header of a reply

    found = derive_form(write, Surroundings(lead=regions.lead, tail=regions.tail), atoms)
    if found is None:
        return None, []
    form, behind = found
    ended = bool(regions.end) and regions.end in behind
    return form, [regions.end_of(behind), "" if ended else _result_end(probe, atoms, behind)]


def _result_end(probe: Probe, atoms: Atoms, behind: str) -> str:
    """The end of a reply with calls that the template writes before results only; else empty."""
    alone, followed = probe.reply(_CALL).rstrip(), probe.before_result(_CALL)
    if not alone or atoms.tags(behind) or not followed.startswith(alone):
        return ""
    return next(iter(atoms.tags(followed[len(alone) :])), "")
