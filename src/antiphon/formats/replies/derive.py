"""Derives how a model writes its replies from what its template writes for messages that differ in one thing."""

from __future__ import annotations

import re

from msgspec.structs import replace

from .atoms import Atoms, closes
from .derive_calls import Surroundings, derive_form
from .derive_regions import Regions
from .description import CallForm, Region, ReplyDescription
from .probe import ANSWER, IDS, NAMES, REASONING, Call, History, Probe, Reply, called

_ANSWER = Reply(text=ANSWER)
_CALL = Reply(calls=called())
_SENTINELS = re.compile("|".join((ANSWER, *NAMES, *IDS)))
_WORD = re.compile(r"\w")
_PRINTED = re.compile(r"""["']type["']""")


def derive(probe: Probe, atoms: Atoms, source: str = "") -> ReplyDescription:
    """What the template says of replies. It is proven by none of this: `prove` does.

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
    """What the prompt and every reply in the history begin with; what opens reasoning is none of it."""
    prompt = probe.prompt()
    samples = [probe.reply(_ANSWER), probe.before_user(_ANSWER), probe.reply(_CALL), *probe.reasoned()]
    written = [text for text in samples if text and atoms.prefix([prompt, text]).strip()]
    if not written:  # blanks may stand before a message
        prompt, *samples = (text.lstrip() for text in (prompt, *samples))
        written = [text for text in samples if text and atoms.prefix([prompt, text])]
    stem = atoms.prefix([prompt, *written])
    if header := _same_header(stem, prompt, written, atoms):
        return header
    texts = (prompt, *written)
    while (tag := _last_tag(stem, atoms)) and any(_belongs(tag, stem, text, atoms) for text in texts):
        stem = stem[: stem.rstrip().rfind(tag)]
    stem = atoms.without_pair(stem)
    if turned := _turned(stem, prompt, probe.reply(_ANSWER).partition(ANSWER)[0], atoms):
        return turned
    return _last_part(stem, prompt, probe.prompt(after=[_CALL]), atoms)


def _same_header(stem: str, prompt: str, written: list[str], atoms: Atoms) -> str:
    """What stands before every reply, where what is before that differs in no more than blanks; else empty."""
    heads = [prompt, *(text.partition(ANSWER)[0] for text in written if ANSWER in text)]
    header = atoms.suffix(heads).lstrip()
    before = {head.removesuffix(header) for head in heads}
    differ = len(before) > 1 and len(set(map(str.strip, before))) == 1
    known = differ and atoms.tags(header) and all(header in text for text in written)
    return header if known and header not in stem else ""


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
        return regions.of_reply(probe.before_result(reply) if ids_late else probe.reply(reply))

    found = derive_form(write, Surroundings(lead=regions.lead, tail=regions.tail), atoms)
    if found is None:
        return None, []
    form, behind = found
    ended = bool(regions.end) and regions.end in behind
    return form, [regions.end_of(behind), "" if ended else _result_end(probe, atoms, behind)]


def _result_end(probe: Probe, atoms: Atoms, behind: str) -> str:
    """What ends a reply with calls where the template writes it before results only."""
    alone, followed = probe.reply(_CALL).rstrip(), probe.before_result(_CALL)
    if not alone or atoms.tags(behind) or not followed.startswith(alone):
        return ""
    return next(iter(atoms.tags(followed[len(alone) :])), "")
