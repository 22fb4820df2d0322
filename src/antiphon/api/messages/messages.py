"""Messages of a request → frames of a conversation, the operator's texts in their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from antiphon.conversation import PARAGRAPH, End, Message, Part, Role, TextPart
from antiphon.wire.errors import refused

from .blocks import BILLING, BlockReader, without_billing
from .schema import MessageParam, TextInput

_USERS = ("user", "ctx", "msg")
"""The last two are what Claude Code calls some of what it adds."""


def read_messages(
    system: str | list[TextInput] | None,
    messages: Sequence[MessageParam],
    reader: BlockReader,
    *,
    in_place: bool,
) -> tuple[Message, ...]:
    """The frames. An assistant's text at the end is left open, for the model to go on with.

    ``in_place``: the prompt can have the operator's texts between messages; else each is folded into the text before
    it, so that what comes before it stays as it was. Raises `RequestError` at the message that cannot be read.
    """
    if not messages:
        raise refused("messages", "there must be at least one message.")
    frames = list(_frames(messages, reader))
    leading = next((i for i, frame in enumerate(frames) if frame.role is not Role.DEVELOPER), len(frames))
    texts = [text for text in (system_text(system), *(frame.text for frame in frames[:leading])) if text]
    rest = frames[leading:] if in_place else folded(frames[leading:])
    if not rest:
        raise refused("messages", "there must be a message of the user's or the assistant's.")
    opening = [Message(role=Role.SYSTEM, text=PARAGRAPH.join(texts))] if texts else []
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


def _frames(messages: Sequence[MessageParam], reader: BlockReader) -> Iterator[Message]:
    """All frames; a text of the operator's that parts a call from its result comes behind the result.

    An assistant's messages beside each other are one, as this API has it.
    """
    waiting: list[Message] = []
    for i, message in enumerate(messages):
        path = f"messages[{i}]"
        if message.role == "system":
            if text := reader.system(message, path):
                waiting.append(Message(role=Role.DEVELOPER, text=text))
        elif message.role == "assistant":
            yield from waiting
            waiting.clear()
            yield from reader.assistant(message, path, goes_on=i > 0 and messages[i - 1].role == "assistant")
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
    parts = (*_parts(first), TextPart(PARAGRAPH), *_parts(second)) if first.parts or second.parts else ()
    return replace(first, text=first.text + PARAGRAPH + second.text, parts=parts)


def _parts(frame: Message) -> Sequence[Part]:
    return frame.parts or (TextPart(frame.text),)
