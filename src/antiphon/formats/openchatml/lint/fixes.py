"""Changes that mend what a rule found. Each takes its finding away for good, or is not offered."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from antiphon.conversation import FUNCTIONS, Channel, End, Message, Role
from antiphon.errors.place import Place
from antiphon.formats.openchatml.document import VERSION, HarmonyProfile
from antiphon.formats.openchatml.finding import Finding, nearest
from antiphon.formats.openchatml.frame import Frame
from antiphon.formats.openchatml.spelling import CALL, END
from antiphon.formats.openchatml.writer import format_header
from antiphon.formats.openchatml.yaml_header import read_header
from antiphon.tokens import Control

from .rule import Edit, Fix, LintedText

HEADER = f'---\nversion: "{VERSION}"\n---\n'

_REWRITABLE = re.compile(
    r"\S+= belongs into|<\|channel\|> stands after|a blank stands between|.* is no role$|the frame has no role$"
    r"|the value is empty|.* follows the constrained type",
    re.DOTALL,
)
"""Problems of a head's form alone: its fields are known, and written anew they are in order."""
_LACKS_NAME = "a tool's reply has no name="


# -- heads ------------------------------------------------------------------------------------------------------------


def head_edit(source: LintedText, frame: Frame | None, message: Message, *, despite: str = "") -> Edit | None:
    """The frame's head in canonical form with the message's fields; None where the head has another problem."""
    if frame is None or not frame.head.author or frame.head.is_unknown:
        return None
    if any(problem.message != despite and not _REWRITABLE.match(problem.message) for problem in frame.head.problems):
        return None
    start, end = source.head_span(frame)
    spelled = source.spell_head(message)
    return None if spelled is None else Edit(start, end, spelled)


def rewrite_head(source: LintedText, at: int) -> Edit | None:
    frame = source.frame_at(at)
    return head_edit(source, frame, frame.head.message()) if frame else None


def replace_word(known: Collection[str], lead: str = "") -> Fix:
    """The word at the place becomes the known one that it is nearest to; ``lead`` is what stands before the word."""
    word = re.compile(re.escape(lead) + r"([^\s<|\"=]+)")

    def fix(source: LintedText, at: int) -> Edit | None:
        found = word.match(source.text, at)
        meant = nearest(found[1], known) if found else None
        return Edit(found.start(1), found.end(1), meant) if found and meant else None

    return fix


def remove_repetition(source: LintedText, at: int) -> Edit | None:
    """An attribute that stands twice with one value is there once."""
    frame = source.frame_at(at)
    if frame is None:
        return None
    start, end = source.head_span(frame)
    word = re.compile(r"[^ \t<]*").match(source.text, at)
    section = source.text[start:at].rpartition("|>")[2]
    if word is None or word.end() > end or word[0] not in section.replace("\t", " ").split(" "):
        return None
    blanks = len(section) - len(section.rstrip(" \t"))
    return Edit(at - blanks, word.end(), "")


def add_call_id(source: LintedText, at: int) -> Edit | None:
    """A call gets an id of its own; a reply that of the one open call of its tool."""
    frame = source.frame_at(at)
    if frame is None:
        return None
    message = frame.head.message()
    ids = source.new_ids if message.is_call else source.reply_ids
    call_id = ids.get(frame.places.start.offset)
    return head_edit(source, frame, replace(message, call_id=call_id)) if call_id else None


def add_name(source: LintedText, at: int) -> Edit | None:
    """A reply gets the name of the tool that its call is addressed to."""
    frame = source.frame_at(at)
    if frame is None or frame.message.call_id is None:
        return None
    name = source.recipients.get(frame.message.call_id)
    return head_edit(source, frame, replace(frame.head.message(), name=name), despite=_LACKS_NAME) if name else None


def add_channel(source: LintedText, at: int) -> Edit | None:
    """A message without a channel gets the one that it is on, or, a call, one that it may be on."""
    frame = source.frame_at(at)
    if frame is None or frame.message.channel is not None:
        return None
    message = frame.head.message()
    return head_edit(source, frame, replace(message, channel=_channel(source, message)))


def _channel(source: LintedText, message: Message) -> str:
    if not message.is_call:
        return Channel.COMMENTARY if message.role is Role.TOOL else Channel.FINAL
    profile = source.header.harmony if source.header and source.header.harmony.enabled else HarmonyProfile()
    is_function = (message.recipient or "").startswith(f"{FUNCTIONS}.")
    allowed = profile.tool_calls_in if is_function else profile.builtins_in
    return Channel.COMMENTARY if Channel.COMMENTARY in allowed else allowed[0]


def constrain(source: LintedText, at: int) -> Edit | None:
    """A call's JSON is marked as JSON."""
    frame = source.frame_at(at)
    if frame is None:
        return None
    return head_edit(source, frame, replace(frame.head.message(), content_type="json", constrained=True))


# -- controls ---------------------------------------------------------------------------------------------------------


def escape_control(source: LintedText, at: int) -> Edit | None:
    """A control in a body is text; but a head on a line of its own begins a message, and the one before has no end."""
    frame = source.frame_at(at)
    if frame is None:
        return None
    lost = source.lost_footers(frame)
    if not lost or at < min(lost):
        return Edit(at, at, "<")
    return _end_before(source, at, CALL if lost[at] else END) if at in lost else None


def _end_before(source: LintedText, at: int, footer: Control) -> Edit | None:
    end = at
    while source.text[end - 1] in "\r\n":
        end -= 1
    return None if source.text[end - 1] == "<" else Edit(end, at, f"{footer}\n")


def replace_footer(source: LintedText, at: int) -> Edit | None:
    """``<|call|>`` for a call, ``<|end|>`` for another message."""
    frame = source.frame_at(at)
    if frame is None or frame.message.end is End.NONE or frame.places.footer.offset != at:
        return None
    return Edit(at, at + len(f"<|{frame.message.end}|>"), (CALL if frame.message.is_call else END).spelling)


# -- the header -------------------------------------------------------------------------------------------------------


def add_header(source: LintedText, at: int) -> Edit | None:
    """A text of frames gets a header."""
    if source.header_text.strip() or not source.frames:
        return None
    return Edit(source.header_start, source.frames_at, HEADER)


def add_version(source: LintedText, at: int) -> Edit | None:
    yaml = source.text[source.header_start : source.yaml_end]
    fence = re.match(r"\s*---[ \t]*\r?\n", yaml)
    begin = fence.end() if fence else 0
    line = f'version: "{VERSION}"\n'
    if isinstance(read_header(yaml[:begin] + line + yaml[begin:], Place()), Finding):
        return None
    return Edit(source.header_start + begin, source.header_start + begin, line)


def rewrite_header(source: LintedText, at: int) -> Edit | None:
    """The header between fences, its version quoted."""
    if source.header is None:
        return None
    return Edit(source.header_start, source.frames_at, format_header(source.header, source.text))
