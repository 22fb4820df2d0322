"""A conversation as a format writes it, with the places of the texts and of the replies in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, pairwise

from antiphon.conversation import Conversation, DeveloperContent, End, Message, Role, TextPart
from antiphon.errors import AntiphonError
from antiphon.formats.format import is_answer
from antiphon.tokens import Control, Piece

from .bridge import place_of_reply, said
from .passages import SYMBOLS, Change, Owner, Part, Passage, ReplyPlace, Writing, is_thought, plain
from .reply import canonical
from .sequences import common

_OWNERS = {
    Role.SYSTEM: Owner.SYSTEM, Role.DEVELOPER: Owner.SYSTEM, Role.USER: Owner.USER, Role.ASSISTANT: Owner.ASSISTANT,
    Role.TOOL: Owner.TOOL,
}  # fmt: skip
SHORT = 12
"""Characters. A shorter text may be a word of the template as well."""
COMPARED, PLAINEST = 1_000, 7
"""Places of a short text that are compared, and how plainly it can stand for itself at most."""
TRIED = 4
"""Places at which arguments are looked for before and behind a name."""
_END, _RETURN = Control("<|end|>"), Control("<|return|>")
"""A last answer ends with the second where a model is trained on it (HAR-47, A-O46)."""
_JSON = json.JSONDecoder(strict=False)


class Page:
    """One conversation as the format writes it. ``text`` has one character for each control of the ``pieces``."""

    def __init__(self, writing: Writing, conversation: Conversation) -> None:
        self._writing = writing
        self._messages = messages = conversation.messages
        last = len(messages)
        while last and messages[last - 1].role is Role.ASSISTANT:
            last -= 1
        self._kept = writing.kept(conversation, last)
        self._shown = replace(conversation, messages=tuple(messages[i] for i in self._kept))
        self.pieces, codes = writing.pieces(self._shown)
        dropped = sorted({*range(len(messages))} - {*self._kept})
        self.changes = [*(Change(code, -1) for code in codes), *(Change("reasoning_dropped", i) for i in dropped)]
        self._found: list[Passage] = []
        opening = writing.opening(conversation)
        if writing.format.framed and opening:
            if last < len(messages) and self.pieces[-1] == _END and not messages[-1].is_call:
                self.pieces[-1] = _RETURN
            self.text = writing.text(self.pieces)
            self.replies = self._read_frames(opening[0])
        else:
            self.text = writing.text(self.pieces)
            self.replies = self._find_replies(opening)
            self._find_texts()
        for reply in self.replies:
            if reply.stop:
                self._note(reply.end - reply.stop, reply.end, reply.messages[-1], Part.END)
            elif messages[reply.messages[-1]].end is not End.NONE:
                self.changes.append(Change("end_not_shown", reply.messages[-1]))

    def passages(self) -> list[Passage]:
        """The whole text in passages, without a gap."""
        found, passages = iter(sorted(self._found)), list[Passage]()
        one = next(found, None)
        at = 0
        for reply in (*self.replies, None):
            begun, ended = (reply.start, reply.end) if reply else (len(self.text), len(self.text))
            for limit, own in ((begun, None), (ended, reply)):
                while one is not None and one.start < limit:
                    if one.start >= at:
                        passages += _filled(at, one.start, own, one.message)
                        passages.append(Passage(*one[:5], own is not None))
                        at = one.end
                    one = next(found, None)
                passages += _filled(at, limit, own, passages[-1].message if passages else -1)
                at = limit
        return passages

    def _note(self, start: int, end: int, message: int, part: Part = Part.NONE) -> None:
        if end > start:
            self._found.append(Passage(start, end, _OWNERS[self._messages[message].role], message, part))

    # Where the replies stand.

    def _find_replies(self, opening: tuple[str, str] | None) -> list[ReplyPlace]:
        groups = [*self._groups()]
        places = self._behind(*opening) if opening else []
        if len(places) != len(groups):
            return [*self._by_prompts(groups)]
        return [ReplyPlace(*place, group) for place, group in zip(places, groups, strict=True)]

    def _groups(self) -> Iterator[list[int]]:
        """The assistant's messages, those of one reply together, as chat templates have them."""
        group: list[int] = []
        for i in self._kept:
            message = self._messages[i]
            own = message.role is Role.ASSISTANT
            if group and not (own and (message.is_call or not is_answer(self._messages[group[-1]]))):
                yield group
                group = []
            if own:
                group.append(i)
        if group:
            yield group

    def _behind(self, header: str, opened: str) -> list[tuple[int, int, int]]:
        """Start, end and length of the stop of what stands behind each header; none where that is not plain to see."""
        lead = _lead(header)
        places, end = list[tuple[int, int, int]](), 0
        for found in re.finditer(re.escape(header), self.text):
            if found.start() < end:  # A reply may go on behind a header of its own.
                continue
            start = found.end()
            start += next((len(text) for text in (opened, opened.rstrip()) if self.text.startswith(text, start)), 0)
            end, stop = self._end_behind(start, lead)
            if end < start:
                return []
            places.append((start, end, stop))
        return places

    def _end_behind(self, start: int, lead: str) -> tuple[int, int]:
        """The end of a reply, and the length of its stop; -1 where a control stands in it that no reply has."""
        closed: int | None = None
        for mark in self._writing.marks.finditer(self.text, start):
            char = mark.group()
            if char in self._writing.stops:
                return mark.end(), len(char)
            if char not in self._writing.inside:
                return -1, 0
            if char == lead[0] and not self.text.startswith(lead, mark.start()):
                if closed is not None and not self.text[closed + 1 : mark.start()].strip():
                    return closed, 0
                return len(self.text[: mark.start()].rstrip()), 0
            closed = mark.start()
        return len(self.text.rstrip()), 0

    def _by_prompts(self, groups: Sequence[list[int]]) -> Iterator[ReplyPlace]:
        """The replies, each behind the prompt for it."""
        write, messages, done = self._writing, self._shown.messages, 0
        for group in groups:
            first, behind = self._kept.index(group[0]), self._kept.index(group[-1]) + 1
            asked, start = list[Piece](), -1
            with suppress(AntiphonError):
                asked, _ = write.pieces(replace(self._shown, messages=messages[:first]), opens=True)
                start = self._start(asked, messages[:first], done)
            if start < done:
                self.changes.append(Change("reply_not_found", group[0]))
                continue
            reply, _ = said(write.format, self._shown.offered, asked, [*self._reply_from(start)])
            end = start + len(write.text(reply))
            stop = len(write.text(reply[-1:])) if reply and reply[-1] in write.format.stops else 0
            if not stop and behind < len(messages):
                with suppress(AntiphonError):
                    told, _ = write.pieces(replace(self._shown, messages=messages[:behind]))
                    end = common(self.text, write.text(told))
            done = end if stop else max(start, len(self.text[:end].rstrip()))
            stop = stop or next((len(close) for close in write.ends if self.text.endswith(close, start, done)), 0)
            yield ReplyPlace(start, done, stop, group)

    def _start(self, asked: Sequence[Piece], messages: Sequence[Message], least: int) -> int:
        """The place at which the reply to a prompt begins; -1 where the text has nothing of the kind.

        A template may write what comes before otherwise once more follows it: then what opens the reply is looked for
        behind the last text of the prompt.
        """
        if place := place_of_reply(self._writing.format, self._shown.offered, asked, self.pieces):
            return len(self._writing.text(place[0]))
        prompt = self._writing.text(asked)
        last = _texts(messages[-1])[-1:] if messages else []
        at = max((prompt.rfind(form) for text in last for form in (text, text.strip())), default=-1)
        found = self.text.find(prompt[at:].rstrip(), least) if at >= 0 else -1
        return found + len(prompt[at:].rstrip()) if found >= 0 else -1

    def _reply_from(self, start: int) -> Iterator[Piece]:
        """The pieces from there on, up to a control that no reply has."""
        for piece in self.pieces:
            size = 1 if isinstance(piece, Control) else len(piece)
            if start < size and isinstance(piece, Control) and not self._writing.in_replies(piece):
                return
            if start < size:
                yield piece if isinstance(piece, Control) else piece[max(start, 0) :]
            start -= size

    def _read_frames(self, header: str) -> list[ReplyPlace]:
        """The replies of a format in which each message is a frame with a header of its own; notes all texts."""
        lead = _lead(header)
        starts = [found.start() for found in re.finditer(re.escape(lead[0]), self.text)]
        left, replies, goes_on = [*self._kept], list[ReplyPlace](), False
        for start, end in pairwise([*starts, len(self.text)]):
            stop = int(self.text[end - 1] in self._writing.stops)
            limit = end - bool(SYMBOLS.match(self.text, end - 1))
            own = self.text.startswith(lead, start)
            message = self._read_frame(
                start, limit, [i for i in left if own == (self._messages[i].role is Role.ASSISTANT)]
            )
            if message >= 0:
                left.remove(message)
            if not own or message < 0:
                goes_on = False
                continue
            begun = start + len(header if self.text.startswith(header, start) else lead)
            before = replies.pop() if goes_on else ReplyPlace(begun, begun, 0, ())
            replies.append(ReplyPlace(before.start, end if stop else limit, stop, [*before.messages, message]))
            goes_on = not stop
        self.changes += [Change("text_lost", i) for i in left if self._messages[i].text]
        return replies

    def _read_frame(self, start: int, end: int, left: Sequence[int]) -> int:
        """Notes the text of a frame, and whom it calls; the index of its message, -1 where it is of none of those."""
        body = max((mark.end() for mark in SYMBOLS.finditer(self.text, start, end)), default=start)
        for i in left:
            message = self._messages[i]
            at = [self.text.find(text, body, end) for text in _texts(message)]
            if min(at, default=-1) < 0:
                continue
            for text, place in zip(_texts(message), at, strict=True):
                self._note(place, place + len(text), i, _part(message))
            if message.is_call and (named := self.text.find(str(message.recipient), start, body)) >= 0:
                self._note(named, named + len(str(message.recipient)), i, Part.NAME)
            return i
        return -1

    # Where the texts stand.

    def _find_texts(self) -> None:
        """Notes the texts of the messages, between the replies and in them."""
        replied = {i for reply in self.replies for i in reply.messages}
        others = [i for i in self._kept if i not in replied]
        at = 0
        for reply in (*self.replies, None):
            limit, until = (reply.start, reply.messages[0]) if reply else (len(self.text), len(self._messages))
            while others and others[0] < until:
                at = self._find_between(others.pop(0), at, limit)
            if reply:
                self._find_within(reply)
                at = reply.end

    def _find_between(self, i: int, start: int, end: int) -> int:
        """Notes the texts of a message that nobody sampled; where they end."""
        message, part = self._messages[i], _part(self._messages[i])
        for text in _texts(message):
            place = self._place(text, start, end)
            if place is None:
                self.changes.append(Change("text_lost", i))
                continue
            self._note(*place, i, part)
            start = place[1]
        return start

    def _place(self, text: str, start: int, end: int) -> tuple[int, int] | None:
        """The place of a text between the two, as it is or as JSON has it; a short one is no word of the template."""
        for spelled in _spellings(text):
            at = self.text.find(spelled, start, end)
            if at >= 0 and len(spelled) < SHORT:
                at = self._plainest(spelled, at, end)
            if at >= 0:
                return at, at + len(spelled)
        return None

    def _plainest(self, text: str, start: int, end: int) -> int:
        """The first of the places of a text at which it stands most plainly for itself; ``start`` is one of them."""
        place, plainness, tried = start, -1, 0
        while start >= 0 and tried < COMPARED and plainness < PLAINEST:
            if (here := self._stands_alone(start, start + len(text))) > plainness:
                place, plainness = start, here
            start, tried = self.text.find(text, start + 1, end), tried + 1
        return place

    def _stands_alone(self, start: int, end: int) -> int:
        """How plainly a text is a message: it is no part of a word, it ends a line, a control is behind it."""
        before, behind = self.text[start - 1 : start], self.text[end : end + 1]
        parted = not before.isalnum() and not behind.isalnum()
        return 4 * parted + (before == "\n") + (behind == "\n") + 2 * bool(SYMBOLS.match(behind))

    def _find_within(self, reply: ReplyPlace) -> None:
        """Notes thoughts, texts and calls of a reply."""
        at, end = reply.start, reply.end - reply.stop
        thoughts = self._end_of_thoughts(at, end)
        for i in sorted(reply.messages, key=lambda i: (self._messages[i].is_call, i)):
            message = self._messages[i]
            if message.is_call:
                at = self._find_call(i, reply.start, max(at, thoughts), end)
            elif message.text.strip():
                own = is_thought(message)
                place = self._place(plain(message.text), *((at, thoughts) if own else (max(at, thoughts), end)))
                if place is None:
                    self.changes.append(Change("reasoning_dropped" if own else "text_lost", i))
                    continue
                self._note(*place, i, _part(message))
                at = place[1]

    def _end_of_thoughts(self, start: int, end: int) -> int:
        """The end of the reasoning of a reply; its start where there is none."""
        opens, closes = self._writing.thought
        if not opens:
            return start
        close = self.text.find(closes, start, end) if closes else -1
        if close >= 0:
            return close
        return end if self.text.find(opens, start, end) >= 0 else start

    def _find_call(self, i: int, begun: int, start: int, end: int) -> int:
        """Notes the name and the arguments of a call, behind ``start`` if it can be; where it ends."""
        message, name = self._messages[i], str(self._messages[i].recipient).removeprefix("functions.")
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        found = pattern.search(self.text, start, end) or pattern.search(self.text, begun, end)
        if found is None:
            self.changes.append(Change("call_lost", i))
            return start
        if not self._writing.replies.calls:
            self.changes.append(Change("call_as_text", i))
        self._note(*found.span(), i, Part.NAME)
        place = self._arguments(message.text, start, found.end(), end)
        if place is None:
            return found.end()
        self._note(*place, i, Part.ARGUMENTS)
        return max(place[1], found.end())

    def _arguments(self, text: str, start: int, named: int, end: int) -> tuple[int, int] | None:
        """The place of a call's arguments: JSON of their value behind the name or before it; else what tags hold."""
        wanted = canonical(text)
        opens = re.compile(r'[{"]')
        for at in [*_first(opens.finditer(self.text, named, end)), *_first(opens.finditer(self.text, start, named))]:
            with suppress(ValueError, RecursionError):
                value, behind = _JSON.raw_decode(self.text, at)
                if canonical(value if isinstance(value, str) else json.dumps(value)) == wanted:
                    return at, behind
        for form in self._writing.forms:
            close = next((at for mark in form.ends if (at := self.text.find(mark, named, end)) >= 0), end)
            begun = self.text.find(form.begins, named, close)
            if begun >= 0:
                return begun + form.skipped, close
        return None


def _filled(start: int, end: int, reply: ReplyPlace | None, message: int) -> Iterator[Passage]:
    """The passage between two texts: the template's, or in a reply the markup that the model wrote."""
    if end <= start:
        return
    if reply is None:
        yield Passage(start, end, Owner.TEMPLATE, -1)
        return
    of = message if message in reply.messages else reply.messages[0]
    yield Passage(start, end, Owner.ASSISTANT, of, Part.MARKUP, True)


def _lead(header: str) -> str:
    """The header's first control, and the role behind it."""
    return header[0] + SYMBOLS.split(header[1:])[0]


def _part(message: Message) -> Part:
    if message.role is not Role.ASSISTANT:
        return Part.NONE
    if message.is_call:
        return Part.ARGUMENTS
    return Part.REASONING if is_thought(message) else Part.CONTENT


def _texts(message: Message) -> list[str]:
    """The texts of a message."""
    parts = [part.text for part in message.parts if isinstance(part, TextPart)]
    parts += [part.instructions or "" for part in message.parts if isinstance(part, DeveloperContent)]
    return [plain(text) for text in (parts if message.parts else [message.text]) if text.strip()]


def _spellings(text: str) -> Iterator[str]:
    yield from (text, text.strip())
    yield from (json.dumps(text, ensure_ascii=ascii)[1:-1] for ascii in (False, True))


def _first(found: Iterable[re.Match[str]]) -> list[int]:
    return [match.start() for match in islice(found, TRIED)]
