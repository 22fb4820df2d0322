"""Messages made such as a transcript can have, and what was changed for that. A valid message stays as it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import count

from antiphon.conversation import FUNCTIONS, Channel, Conversation, End, Intent, Message, Role
from antiphon.tokens import well_formed

from .body import constraint_problem, shape_problem
from .document import Capabilities, DocumentHeader
from .head import INTENTS, ToolNames
from .rules import Rules, is_unmarked_json, is_unmarked_plan
from .spelling import CHANNEL, CONSTRAIN, END, LITERAL, RETURN, is_utf8
from .writer import envelope_of

FIELDS = tuple(field.name for field in fields(Message) if field.compare)
_NEAR = 0.7


@dataclass(frozen=True, slots=True)
class Fix:
    """One field of a message that was changed: ``path`` is ``messages[3].call_id``."""

    path: str
    had: object
    has: object

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.had)} becomes {_shown(self.has)}"


def fix(conversation: Conversation) -> tuple[Conversation, tuple[Fix, ...]]:
    """The conversation as its transcript can say it, and each change. What cannot be fixed `write` refuses."""
    fixer = Fixer(envelope_of(conversation).header)
    messages = tuple(map(fixer.message, conversation.messages))
    return (replace(conversation, messages=messages), tuple(fixer.fixes)) if fixer.fixes else (conversation, ())


class Fixer:
    """Fixes the messages of one transcript, in their order; ``fixes`` is what was changed so far.

    What is on a hidden channel stays hidden, no text is lost, and no message is added or left out.
    """

    def __init__(self, header: DocumentHeader | None) -> None:
        self.fixes: list[Fix] = []
        self._number = 0
        self._rules = Rules(header)
        self._tools = ToolNames().declare(header.builtin_tools if header else ())
        self._allows = header.capabilities if header else Capabilities()
        self._needs_channels = bool(header and header.harmony.enabled and header.harmony.require_channels)
        self._version_1 = header is not None and header.version.startswith("1.")
        self._ids: set[str] = set()
        self._numbers: dict[str | None, Iterator[int]] = {}
        self._open: dict[str | None, deque[tuple[str, str | None]]] = {}
        """Calls without a reply: by the id that they had, their ids and their tools."""

    def message(self, message: Message) -> Message:
        """The message, fixed; the one that came in where nothing was to be done."""
        fixed = self._words(message)
        fixed = _marked(fixed) if self._needs_channels else fixed
        fixed = self._called(fixed) if fixed.is_call else self._other(fixed)
        fixed = self._allowed(self._typed(fixed))
        changes = [Fix(f"messages[{self._number}].{name}", had, has) for name, had, has in differences(message, fixed)]
        self.fixes += changes
        self._number += 1
        return fixed if changes else message

    # -- words of the head --------------------------------------------------------------------------------------------

    def _words(self, message: Message) -> Message:
        message = _without_empty_words(message)
        if message.role is Role.TOOL and message.call_id is None and message.name is not None:
            role = None if self._tools.knows(message.name) else _near(message.name, tuple(Role))
            message = replace(message, role=Role(role), name=None) if role else message
        if message.channel is not None and message.channel not in set(Channel):
            hidden = Channel.ANALYSIS if message.role is Role.ASSISTANT else None
            message = replace(message, channel=_near(message.channel, tuple(Channel)) or hidden)
        if message.intent is not None and message.intent not in INTENTS:
            message = replace(message, intent=_near(message.intent, INTENTS))
        if self._tools.addresses(message.recipient):
            return message
        bare = message.is_call and "." not in (message.recipient or "")
        to = f"{FUNCTIONS}.{message.recipient}" if bare else message.recipient if message.is_call else None
        return replace(message, recipient=to)

    # -- calls, replies and ends --------------------------------------------------------------------------------------

    def _called(self, call: Message) -> Message:
        """A call has an id of its own, a channel for calls, and ``<|call|>``; one that was cut may be no whole call."""
        id = call.call_id if call.call_id is not None and call.call_id not in self._ids else self._free_id(call.call_id)
        self._ids.add(id)
        self._open.setdefault(call.call_id, deque()).append((id, call.recipient))
        channels = self._rules.call_channels(call)
        channel = call.channel if call.effective_channel in channels or not channels else channels[0]
        whole = call.end is not End.NONE or (call.constrained and self._typed(call) is call)
        return replace(call, call_id=id, channel=channel, end=End.CALL if whole else End.NONE)

    def _typed(self, message: Message) -> Message:
        """A body that is not what it promises promises nothing; a function's arguments that are no JSON are text."""
        if message.constrained and (
            message.content_type is None or constraint_problem(message) or shape_problem(message)
        ):
            message = replace(message, constrained=False, content_type=None)
        if self._rules.harmony or not shape_problem(message):
            return message
        return replace(message, constrained=False, content_type="text")

    def _free_id(self, taken: str | None) -> str:
        numbers = self._numbers.setdefault(taken, count(0 if taken is None else 2))
        names = (f"{'call' if taken is None else taken}_{n}" for n in numbers)
        return next(name for name in names if name not in self._ids)

    def _other(self, message: Message) -> Message:
        if message.role is Role.TOOL:
            message = self._reply(message)
        footer = End.END if message.end in (End.CALL, End.NONE) else message.end
        return replace(message, end=footer)

    def _reply(self, reply: Message) -> Message:
        """A reply names its tool and its call; replies to calls of one id answer them in their order."""
        had = reply.call_id
        if had is None:
            had = next((had for had, (call, *_) in self._open.items() if reply.name in (None, call[1])), None)
        calls = self._open.get(had)
        if calls:
            id, tool = calls.popleft()
            reply = replace(reply, call_id=id, name=reply.name or tool)
            if not calls:
                del self._open[had]
        return reply if reply.name is None else replace(reply, name=self._tools.qualify(reply.name))

    # -- what the header excludes -------------------------------------------------------------------------------------

    def _allowed(self, message: Message) -> Message:
        if self._version_1:
            return self._as_version_1(message)
        if self._needs_channels and message.channel is None and message.role in (Role.ASSISTANT, Role.TOOL):
            message = replace(message, channel=Channel.COMMENTARY if message.role is Role.TOOL else Channel.FINAL)
        allows, tokens = self._allows, self._allows.tokens
        if allows == Capabilities():
            return message
        channels = allows.channels
        excluded = not self._has(CHANNEL) or (channels is not None and message.channel not in channels)
        if message.channel is not None and excluded and not self._needs_channels and not message.is_call:
            message = _on_no_channel(message)
        if message.constrained and not self._has(CONSTRAIN):
            message = replace(message, constrained=False)
        if tokens is not None and message.end in (End.END, End.RETURN) and f"<|{message.end}|>" not in tokens:
            other = END if message.end is End.RETURN else RETURN
            message = replace(message, end=End(other.spelling[2:-2])) if self._has(other) else message
        return message if self._has(LITERAL) else _without_literals(message)

    def _has(self, control: object) -> bool:
        return self._allows.tokens is None or str(control) in self._allows.tokens

    @staticmethod
    def _as_version_1(message: Message) -> Message:
        """A-O37: version 1 has roles and texts. What has more than these, or is hidden, stays for `write` to refuse."""
        if message.is_call or message.role in (Role.TOOL, Role.DEVELOPER):
            return message
        message = _on_no_channel(message)
        message = replace(message, recipient=None, call_id=None, intent=None, constrained=False, end=End.END)
        return _without_literals(message)


def _marked(message: Message) -> Message:
    """HIP-1.4, HIP-1.6: JSON arguments say that they are JSON; commentary to nobody says that it is not for display."""
    if is_unmarked_json(message):
        return replace(message, constrained=True, content_type="json")
    return replace(message, intent=Intent.STATUS) if is_unmarked_plan(message) else message


def _without_empty_words(message: Message) -> Message:
    if "" not in (message.name, message.recipient, message.channel, message.content_type, message.call_id,
                  message.intent):  # fmt: skip
        return message
    return replace(
        message, name=message.name or None, recipient=message.recipient or None, channel=message.channel or None,
        content_type=message.content_type or None, call_id=message.call_id or None, intent=message.intent or None,
    )  # fmt: skip


def _on_no_channel(message: Message) -> Message:
    """§5: without a channel a message is final, so what is hidden has to name its channel."""
    if message.effective_channel != Channel.FINAL and message.role is Role.ASSISTANT and not message.is_preamble:
        return message
    return replace(message, channel=None, intent=None if message.intent == Intent.PREAMBLE else message.intent)


def _without_literals(message: Message) -> Message:
    """Without literal blocks a text cannot end with ``<``, and every byte of it is UTF-8."""
    if message.text[-1:] != "<" and is_utf8(message.text):
        return message
    text = well_formed(message.text)
    return replace(message, text=f"{text} " if text.endswith("<") else text)


def differences(before: Message, after: Message) -> Iterator[tuple[str, object, object]]:
    """The fields in which two messages differ, with both values."""
    if before is after:
        return
    for name in FIELDS:
        had, has = getattr(before, name), getattr(after, name)
        if had != has:
            yield name, had, has


def _near(word: str, words: tuple[str, ...]) -> str | None:
    return next(iter(get_close_matches(word, [str(known) for known in words], 1, _NEAR)), None)


def _shown(value: object) -> str:
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
