"""Messages of a request → frames of a conversation, the operator's texts in their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import msgspec

from antiphon.api.chat.messages import NOTHING, Recalled
from antiphon.api.chat.schema import ChatMessage, FunctionCall, ToolCall
from antiphon.api.chat.unfinished import TurnMemory
from antiphon.conversation import End, Message, Part, Role, TextPart
from antiphon.wire.errors import refused
from antiphon.wire.projection import PARAGRAPH, arguments_as_written

from .blocks import BILLING, BlockReader, blocks_of, without_billing
from .call_ids import from_client
from .schema import InputBlock, MessageParam, MessageTokensRequest, TextInput

BETWEEN_TEXTS = "\n\n"
"""Between texts of the operator that stand in one frame."""
_USERS = ("user", "ctx", "msg")
"""The last two are what Claude Code calls some of what it adds."""


def read_messages(
    system: str | list[TextInput] | None,
    messages: Sequence[MessageParam],
    reader: BlockReader,
    *,
    in_place: bool,
    recalled: Recalled = NOTHING,
) -> tuple[Message, ...]:
    """The frames. An assistant's text at the end is left open, for the model to go on with.

    ``in_place``: the prompt can have the operator's texts between messages; else each is folded into the text before
    it, so that what comes before it stays as it was. ``recalled``: what the model wrote for some of the messages; it
    stands in their place. Raises `RequestError` at the message that cannot be read.
    """
    if not messages:
        raise refused("messages", "there must be at least one message.")
    frames = list(_frames(messages, reader, recalled))
    leading = next((i for i, frame in enumerate(frames) if frame.role is not Role.DEVELOPER), len(frames))
    texts = [text for text in (system_text(system), *(frame.text for frame in frames[:leading])) if text]
    rest = frames[leading:] if in_place else folded(frames[leading:])
    if not rest:
        raise refused("messages", "there must be a message of the user's or the assistant's.")
    opening = [Message(role=Role.SYSTEM, text=BETWEEN_TEXTS.join(texts))] if texts else []
    end = rest[-1]
    if end.role is Role.ASSISTANT and not end.is_call:
        rest = [*rest[:-1], replace(end, end=End.NONE)]
    return (*opening, *rest)


def system_text(system: str | list[TextInput] | None) -> str:
    """The text of ``system``, its blocks put together as they are; without what changes with each request."""
    if system is None or isinstance(system, str):
        return without_billing(system or "")
    return "".join(_system_block(block, f"system[{i}]") for i, block in enumerate(system))


def _system_block(block: TextInput, path: str) -> str:
    if block.type != "text":
        raise refused(path, f"a block of type {block.type[:64]!r} is no text.", code="unsupported_content")
    if block.text is None:
        raise refused(f"{path}.text", "a text block needs it.", code="missing_required_parameter")
    return "" if block.text.startswith(BILLING) else block.text


def _frames(messages: Sequence[MessageParam], reader: BlockReader, recalled: Recalled) -> Iterator[Message]:
    """All frames; a text of the operator's that parts a call from its result comes behind the result."""
    waiting: list[Message] = []
    for i, message in enumerate(messages):
        path = f"messages[{i}]"
        if message.role == "system":
            if text := reader.system(message, path):
                waiting.append(Message(role=Role.DEVELOPER, text=text))
        elif message.role == "assistant":
            yield from waiting
            waiting.clear()
            yield from reader.recalled(recalled[i]) if i in recalled else reader.assistant(message, path)
        elif message.role in _USERS:
            yield from _after_results(list(reader.user(message, path)), waiting)
        else:
            raise refused(f"{path}.role", f"{message.role[:64]!r} is no role.", hint="Known: user, assistant, system.")
        if not reader.waiting:
            yield from waiting
            waiting.clear()
    yield from waiting


def _after_results(frames: Sequence[Message], waiting: list[Message]) -> Iterator[Message]:
    """Results, then what waited for them, then the text."""
    results = [frame for frame in frames if frame.role is Role.TOOL]
    yield from results
    if len(results) < len(frames):
        yield from waiting
        waiting.clear()
        yield from frames[len(results) :]


def folded(frames: Sequence[Message]) -> list[Message]:
    """The frames with each text of the operator's in the user's text or the result before it, else in the next."""
    made: list[Message] = []
    for frame in frames:
        before = made[-1] if made else None
        if (
            frame.role is Role.DEVELOPER
            and before is not None
            and before.role in (Role.USER, Role.TOOL, Role.DEVELOPER)
        ):
            made[-1] = _joined(before, frame)
        elif before is not None and before.role is Role.DEVELOPER and frame.role is Role.USER:
            made[-1] = _joined(replace(before, role=Role.USER), frame)
        else:
            made.append(frame)
    return [replace(frame, role=Role.USER) if frame.role is Role.DEVELOPER else frame for frame in made]


def _joined(first: Message, second: Message) -> Message:
    parts = (*_parts(first), TextPart(BETWEEN_TEXTS), *_parts(second)) if first.parts or second.parts else ()
    return replace(first, text=first.text + BETWEEN_TEXTS + second.text, parts=parts)


def _parts(frame: Message) -> Sequence[Part]:
    return frame.parts or (TextPart(frame.text),)


# Messages as chat has them, for the memory of unfinished turns: a client was shown the same of a turn there.


class ChatView(msgspec.Struct, frozen=True):
    """The chat that a request's messages are, and for each of its messages the numbers of the request's."""

    messages: list[ChatMessage]
    places: list[tuple[int, ...]]

    def places_of(self, found: Recalled) -> Recalled:
        """Moves turns found for the chat's messages to the request's: each to the first of those that it is.

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
        """Returns the turns that the model wrote for messages of the request, as `TurnMemory.recall` finds them."""
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
    blocks = [block for message in messages for block in blocks_of(message)]
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    thoughts = [block.thinking for block in blocks if block.type == "thinking" and block.thinking]
    calls = [
        ToolCall(
            id=from_client(block.id or ""), function=FunctionCall(block.name or "", arguments_as_written(block.input))
        )
        for block in blocks
        if block.type == "tool_use"
    ]
    return ChatMessage(
        role="assistant", content=PARAGRAPH.join(texts), reasoning=PARAGRAPH.join(thoughts), tool_calls=calls or None
    )


def _others(message: MessageParam) -> Iterator[ChatMessage]:
    """The results first, then the text, as the prompt has them."""
    blocks = blocks_of(message)
    for block in blocks:
        if block.type == "tool_result":
            content = block.content if isinstance(block.content, str) else _text(_inside(block))
            yield ChatMessage(role="tool", content=content, tool_call_id=from_client(block.tool_use_id or ""))
    if text := _text(blocks):
        system = message.role == "system"
        yield ChatMessage(role="system" if system else "user", content=without_billing(text) if system else text)


def _inside(block: InputBlock) -> Sequence[InputBlock]:
    return block.content if isinstance(block.content, list) else []


def _text(blocks: Sequence[InputBlock]) -> str:
    return "".join(block.text or "" for block in blocks if block.type == "text")
