"""The prompt of a growing conversation: a new message costs its own length, not the length of the history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import UnsupportedError
from antiphon.formats.format import HistoryPolicy, is_answer
from antiphon.tokens import SegmentMemo, Tokenizer, encode_pieces

from .arrange import Arranger, is_reasoning, opening, split
from .format import Harmony, is_open, offers_functions, reply_opening


class RunningPrompt:
    """The ids of a conversation's prompt while messages are added to it.

    ``ids`` is one list, which the next call changes: copy it if you need it longer. The policies guide, keep_all and
    drop_all only change the last turn; the reference's may bring back old reasoning at any time, so it is refused.
    """

    def __init__(
        self,
        harmony: Harmony,
        tokenizer: Tokenizer,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
        memo: SegmentMemo | None = None,
    ) -> None:
        if history is HistoryPolicy.REFERENCE or harmony.literal:
            raise UnsupportedError(
                "a running prompt supports neither the reference's history policy nor spelled controls"
            )
        self._harmony = harmony
        self._tokenizer = tokenizer
        self._reply_as = reply_as
        self._history = history
        self._memo = memo if memo is not None else SegmentMemo()
        self._tail = 0
        self.conversation = conversation
        self.ids: list[int] = []
        self._begin(conversation)

    def follow(self, conversation: Conversation) -> list[int]:
        """The ids of this conversation's prompt. Only what is new is rendered, if it continues the one before."""
        if continues(conversation, self.conversation):
            return self.append(*conversation.messages[len(self.conversation.messages) :])
        self._begin(conversation)
        return self.ids

    def append(self, *messages: Message) -> list[int]:
        """The ids of the prompt with these messages added."""
        if not messages:
            return self.ids
        extended = self.conversation.add(*messages)
        # A message may go into the opening, close one that was open, or turn on the note about calls at the start.
        if self._whole or is_open(messages[-1]) or (not self._functions and offers_functions(messages)):
            self._begin(extended)
            return self.ids
        self.conversation = extended
        del self.ids[self._tail :]
        for message in messages:
            self._write(self._arranged(message))
        self._write_tail()
        return self.ids

    def _begin(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._arranger = Arranger(names=self._harmony.names)
        self._tail = 0
        self._turn: list[tuple[Message, int]] = []
        self.ids.clear()
        head, body = ((), conversation.messages) if conversation.verbatim else split(conversation.messages)
        begun = () if conversation.verbatim else tuple(opening(conversation, head))
        self._functions = offers_functions((*begun, *body))
        self._whole = not body or is_open(body[-1])
        if self._whole:
            pieces = self._harmony.render(conversation, reply_as=self._reply_as, history=self._history)
            self.ids += encode_pieces(pieces, self._tokenizer, self._memo)
            return
        self._write(begun)
        for message in body:
            self._write(self._arranged(message))
        self._write_tail()

    def _arranged(self, message: Message) -> Iterable[Message]:
        return (message,) if self.conversation.verbatim else self._arranger.add(message)

    def _write(self, messages: Iterable[Message]) -> None:
        """Write messages that no longer change. An answer takes the reasoning before it with it (HAR-68)."""
        for message in messages:
            if is_reasoning(message) and self._history is HistoryPolicy.DROP_ALL:
                continue
            if is_answer(message) and self._history is HistoryPolicy.GUIDE:
                self._drop_reasoning()
            if self._history is HistoryPolicy.GUIDE:
                self._turn.append((message, len(self.ids)))
            self.ids += self._encoded(message)

    def _drop_reasoning(self) -> None:
        turn, self._turn = self._turn, []
        first = next((i for i, (message, _) in enumerate(turn) if is_reasoning(message)), None)
        if first is None:
            return
        del self.ids[turn[first][1] :]
        for message, _ in turn[first:]:
            if not is_reasoning(message):
                self.ids += self._encoded(message)

    def _encoded(self, message: Message) -> list[int]:
        pieces = self._harmony.messages.frame(message, functions_offered=self._functions)
        return encode_pieces(pieces, self._tokenizer, self._memo)

    def _write_tail(self) -> None:
        """Write what the next message may change: calls without results, and the start of the reply."""
        self._tail = len(self.ids)
        for message in self._arranger.pending():
            self.ids += self._encoded(message)
        if self._reply_as is not None:
            self.ids += encode_pieces(reply_opening(self._reply_as), self._tokenizer, self._memo)


def continues(conversation: Conversation, earlier: Conversation) -> bool:
    """Whether it is the earlier one with messages added, whose headers are written as they were."""
    messages = conversation.messages[: len(earlier.messages)]
    same = messages == earlier.messages and replace(conversation, messages=messages) == earlier
    return same and all(
        message.header == known.header for message, known in zip(messages, earlier.messages, strict=True)
    )
