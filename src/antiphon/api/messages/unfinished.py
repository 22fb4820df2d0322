"""Messages as chat has them, for the memory of unfinished turns: a client was shown the same of a turn there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from antiphon.api.chat.messages import Recalled
from antiphon.api.chat.schema import ChatMessage, FunctionCall, ToolCall
from antiphon.api.chat.unfinished import TurnMemory
from antiphon.conversation import Message
from antiphon.wire.projection import PARAGRAPH

from .blocks import without_billing
from .call_ids import from_client
from .messages import system_text
from .schema import InputBlock, MessageParam, MessageTokensRequest


class ChatView(msgspec.Struct, frozen=True):
    """The chat that a request's messages are, and for each of its messages the numbers of the request's."""

    messages: list[ChatMessage]
    places: list[tuple[int, ...]]

    def places_of(self, found: Recalled) -> Recalled:
        """What was found for the chat's messages, for the request's: a turn stands in the first of those that it is.

        The others have nothing left to say.
        """
        placed: dict[int, Sequence[Message]] = {}
        for number, turn in found.items():
            first, *others = self.places[number]
            placed |= {first: turn} | dict.fromkeys(others, ())
        return placed


class MessageMemory(msgspec.Struct, frozen=True):
    """The unfinished turns of one conversation."""

    turns: TurnMemory
    chat: ChatView

    async def recall(self) -> Recalled:
        """What the model wrote for messages of the request, as `TurnMemory.recall` finds it."""
        return self.chat.places_of(await self.turns.recall(self.chat.messages))

    async def keep(self, turn: Sequence[Message]) -> None:
        """Stores the turn that answers the request, if calls of it wait for results."""
        await self.turns.keep(self.chat.messages, turn)


def as_chat(wire: MessageTokensRequest) -> ChatView:
    """The chat. An assistant's messages beside each other are one, as this API has it.

    Raises `RequestError` for a ``system`` that cannot be read; what else is malformed is for its reader to refuse.
    """
    view = ChatView([ChatMessage(role="system", content=system_text(wire.system))], [()])
    numbered = enumerate(wire.messages)
    for role, group in groupby(numbered, lambda one: one[1].role):
        together = list(group)
        if role == "assistant":
            view.messages.append(_assistant([message for _, message in together]))
            view.places.append(tuple(number for number, _ in together))
            continue
        for number, message in together:
            for one in _others(message):
                view.messages.append(one)
                view.places.append((number,))
    return view


def _assistant(messages: Sequence[MessageParam]) -> ChatMessage:
    blocks = [block for message in messages for block in _blocks(message)]
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    thoughts = [block.thinking for block in blocks if block.type == "thinking" and block.thinking]
    calls = [
        ToolCall(id=from_client(block.id or ""), function=FunctionCall(name=block.name or "", arguments=block.input))
        for block in blocks
        if block.type == "tool_use"
    ]
    return ChatMessage(
        role="assistant", content=PARAGRAPH.join(texts), reasoning=PARAGRAPH.join(thoughts), tool_calls=calls or None
    )


def _others(message: MessageParam) -> Iterator[ChatMessage]:
    """The results first, then the text, as the prompt has them."""
    blocks = _blocks(message)
    for block in blocks:
        if block.type == "tool_result":
            content = block.content if isinstance(block.content, str) else _text(_inside(block))
            yield ChatMessage(role="tool", content=content, tool_call_id=from_client(block.tool_use_id or ""))
    if text := _text(blocks):
        system = message.role == "system"
        yield ChatMessage(role="system" if system else "user", content=without_billing(text) if system else text)


def _blocks(message: MessageParam) -> Sequence[InputBlock]:
    if isinstance(message.content, str):
        return [InputBlock(type="text", text=message.content)]
    return message.content


def _inside(block: InputBlock) -> Sequence[InputBlock]:
    return block.content if isinstance(block.content, list) else []


def _text(blocks: Sequence[InputBlock]) -> str:
    return "".join(block.text or "" for block in blocks if block.type == "text")
