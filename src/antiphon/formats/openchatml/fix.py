"""Messages made such as a transcript can have, and what was changed for that. A valid message stays as it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from antiphon.conversation import Channel, Conversation, End, Message, Role, visible_to_user

from .document import DocumentHeader
from .finding import Severity
from .judges import RuleState
from .mends import without_literals
from .rules import RULES, Mend
from .writer import envelope_of

FIELDS = tuple(field.name for field in fields(Message) if field.compare)
_MENDS: tuple[Mend, ...] = tuple(
    mend
    for rule in RULES.values()
    if rule.level is Severity.ERROR
    for mend in ((rule.resort,) if rule.needs else (rule.mend, rule.resort))
    if mend is not None
)
"""The mends of the rules that `write` asks for; one that a header asks for looks at it first."""
_ROUNDS = 5
"""Rounds of mending: each mend is behind those that it waits for, but for a few."""


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

    What was hidden stays hidden, no text is changed, and no message is added or left out. ``texts``: where the header
    excludes literal blocks, a text that takes one is written nearly as it is.
    """

    def __init__(self, header: DocumentHeader | None, *, texts: bool = False) -> None:
        self._texts = texts
        self.fixes: list[Fix] = []
        self._number = 0
        self._state = RuleState(header)
        self._renamed: dict[str | None, deque[str | None]] = {}
        """The ids of calls that wait, by the ids that they had."""

    def message(self, message: Message) -> Message:
        """The message, fixed; the one that came in where nothing was to be done."""
        fixed = self._answering(message) if message.role is Role.TOOL else message
        for _ in range(_ROUNDS):
            before = fixed
            for mend in _MENDS:
                fixed = mend(fixed, self._state) or fixed
            if fixed is before or fixed == before:
                break
        if visible_to_user(fixed) and not visible_to_user(message):
            fixed = _hidden(fixed)
        if self._texts:
            fixed = without_literals(fixed, self._state)
        if fixed.is_call:
            self._renamed.setdefault(message.call_id, deque()).append(fixed.call_id)
        self._state.calls.follow(fixed)
        changes = [Fix(f"messages[{self._number}].{name}", had, has) for name, had, has in differences(message, fixed)]
        self.fixes += changes
        self._number += 1
        return fixed if changes else message

    def _answering(self, reply: Message) -> Message:
        """Replies to calls that had one id answer them in their order."""
        waiting = self._renamed.get(reply.call_id) if reply.call_id is not None else None
        if not waiting:
            return reply
        call_id = waiting.popleft()
        return reply if call_id == reply.call_id else replace(reply, call_id=call_id)


def _hidden(message: Message) -> Message:
    """A message that nobody was shown is on a channel that nobody is shown; `write` refuses it where there is none."""
    end = End.END if message.end is End.RETURN else message.end
    return replace(message, channel=Channel.ANALYSIS, intent=None, end=end)


def differences(before: Message, after: Message) -> Iterator[tuple[str, object, object]]:
    """The fields in which two messages differ, with both values."""
    if before is after:
        return
    for name in FIELDS:
        had, has = getattr(before, name), getattr(after, name)
        if had != has:
            yield name, had, has


def _shown(value: object) -> str:
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
