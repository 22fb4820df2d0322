"""Replies without a turn, read as the chat would read them: at once, or part by part with a state between."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec
from msgspec.structs import replace as replace_fields

from antiphon.api.chat.read import Reading, to_turn
from antiphon.api.chat.schema import (
    ChatChunk,
    ChatMessage,
    ChatRequest,
    ChunkChoice,
    Delta,
    FunctionDelta,
    ToolCallDelta,
)
from antiphon.api.chat.write import answer_message
from antiphon.conversation import Event, Incident, MessageEnded, TurnEnded
from antiphon.conversation.json import message_json
from antiphon.engines import EngineEnd
from antiphon.errors import FormatError, RequestError
from antiphon.generation import Draft, Model, check_conversation, check_numbers, normalized
from antiphon.generation.plan import check_stops, prompt_of
from antiphon.generation.reader.elsewhere import KeptReply, ReplyReading, draft_elsewhere, pack_kept, unpack_kept
from antiphon.structs import ready
from antiphon.tokens import Piece
from antiphon.wire.encrypted import ReasoningCipher
from antiphon.wire.errors import refused
from antiphon.wire.json import encode
from antiphon.wire.projection import (
    ArgumentsText,
    CallStarted,
    Change,
    Finished,
    Projection,
    ThoughtText,
    VisibleText,
    whole,
)

from .schema import FoundIncident, Parsed, ParsedPart, ParseRequest
from .write import check_length, pieces_of

# The state of a reply between two of its parts, which its caller holds.

MOST_STATE = 4096
"""Characters of a state."""
STATE_WEIGHT = 64
"""Bytes of a body that take as long as a character of a state, of which all is read again."""
_SIGNATURE = 16


class ReplyState(msgspec.Struct, frozen=True, array_like=True):
    """The state's content: the ``key`` of the ids of its calls, when it was begun, and what is kept of it, packed."""

    key: str
    created: int
    kept: bytes


_DECODER: msgspec.msgpack.Decoder[ReplyState] = msgspec.msgpack.Decoder(ready(ReplyState))


class StateSigner(msgspec.Struct, frozen=True):
    """Signs states of one ``owner`` for one request, of which ``digest`` tells it from others.

    Servers that share the key of ``cipher`` take each other's. ``most`` are the characters that a state may have,
    ``path`` is where a request has it.
    """

    cipher: ReasoningCipher
    owner: str
    digest: bytes
    most: int = MOST_STATE
    path: str = "state"

    def sign(self, key: str, created: int, kept: KeptReply) -> str:
        """The state. Raises `RequestError` for one that is too long."""
        content = pack_kept(kept)
        if content is not None:
            packed = msgspec.msgpack.encode(ReplyState(key, created, content))
            signed = base64.urlsafe_b64encode(self._signature(packed) + packed).decode()
            if len(signed) <= self.most:
                return signed
        raise refused(
            self.path,
            f"what is not decided yet of the reply is more than a state of {self.most} characters can be.",
            code="state_too_long",
            hint="Nothing is lost: send the whole reply at once, without a state.",
        )

    def read(self, signed: str) -> ReplyState:
        """Raises `RequestError` for what was not signed for this owner and request."""
        try:
            raw = base64.urlsafe_b64decode(signed.encode()) if len(signed) <= self.most else b""
            if not secrets.compare_digest(raw[:_SIGNATURE], self._signature(raw[_SIGNATURE:])):
                raise ValueError
            return _DECODER.decode(raw[_SIGNATURE:])
        except (binascii.Error, msgspec.DecodeError, ValueError):
            raise refused(
                self.path,
                "it is not a state that this server gave for this request, model and key.",
                code="invalid_state",
                hint="Send the same request with each part, and the state as it was given; or begin with an empty one.",
            ) from None

    def _signature(self, packed: bytes) -> bytes:
        return self.cipher.signature(self.digest + packed, self.owner)[:_SIGNATURE]


def request_digest(wire: msgspec.Struct, model: Model) -> bytes:
    """Tells requests apart, of which the fields that change from part to part were left out, and models."""
    return hashlib.sha256(encode(wire) + b"\n" + model.name.encode()).digest()


# The request that a reply answers.


def draft_of(
    wire: ChatRequest, prompt: Sequence[Piece] | None, model: Model, reading: Reading, *, strict: bool = False
) -> Draft:
    """The turn that the reply answers, as the chat would plan it; ``prompt`` None: that of the messages.

    Raises `RequestError`, and `RenderError` for messages that cannot be written.
    """
    turn = normalized(model, to_turn(wire if wire.messages else replace_fields(wire, messages=[_ANY]), reading))
    check_numbers(turn)
    check_stops(model, turn)
    check_conversation(model, turn)
    if not (wire.messages or wire.tools):
        turn = replace(turn, any_call=True)
    if prompt is None:
        prompt = list(prompt_of(model, turn)) if wire.messages else ()
    return draft_elsewhere(model, turn, prompt, strict=strict)


_ANY = ChatMessage(role="user", content="?")
"""The question of a reply of which no message is known."""
ENDS = {"stop": EngineEnd.STOP, "length": EngineEnd.LENGTH_OUTPUT}


def _draft(wire: ParseRequest, model: Model, reading: Reading) -> Draft:
    if (wire.text is None) == (wire.ids is None):
        raise refused("text", "either text or ids must be there.", code="missing_required_parameter")
    check_length(len(wire.ids or ()), "ids", model)
    check_length(len(wire.prompt_ids or ()), "prompt_ids", model)
    check_length(model.tokenizer.fewest(wire.text or ""), "text", model)
    prompt = None if wire.prompt_ids is None else pieces_of(wire.prompt_ids, "prompt_ids", model.tokenizer)
    pieces_of(wire.ids or (), "ids", model.tokenizer)
    return draft_of(wire, prompt, model, reading, strict=bool(wire.strict))


def _read(wire: ParseRequest, reply: ReplyReading) -> list[Event]:
    return reply.read_text(wire.text) if wire.text is not None else reply.read_ids(wire.ids or ())


def parse(wire: ParseRequest, model: Model, reading: Reading) -> Parsed:
    """A reply as messages. Raises `ParseError` only for ``strict``, and `ContextError` for what no context holds."""
    reply = ReplyReading(_draft(wire, model, reading))
    end = ENDS[wire.finish_reason or "stop"]
    events = reply.read_whole(wire.ids, end) if wire.ids is not None else [*_read(wire, reply), *reply.end(end)]
    ended = reply.over
    assert ended is not None, "a reply without its end"
    return Parsed(
        model=model.name,
        format=model.format.name,
        message=answer_message(whole(events, expose_reasoning=True)),
        messages=[message_json(event.message) for event in events if isinstance(event, MessageEnded)],
        incidents=_incidents(events),
        ended=ended.matched,
        finish_reason=reading.dialect.word(ended.reason),
    )


def _incidents(events: Iterable[Event]) -> list[FoundIncident]:
    return [FoundIncident(e.code, e.position, e.text) for e in events if isinstance(e, Incident)]


# One part of a reply.


class Part(msgspec.Struct, frozen=True):
    """More of a reply: what it changes for a client of a chat's stream, and the events of which that is."""

    changes: tuple[Change, ...]
    events: tuple[Event, ...]
    begins: bool
    key: str
    created: int
    over: TurnEnded | None
    state: str | None


def read_part(
    draft: Draft,
    state: str,
    signer: StateSigner,
    created: int,
    read: Callable[[ReplyReading], list[Event]],
) -> Part:
    """One part of the reply to ``draft``, behind those of the state; ``read`` reads it, and the end where it is there.

    Raises `RequestError` for a state of another request, and where the next one would be too long.
    """
    begun = signer.read(state) if state else ReplyState(secrets.token_hex(16), created, b"")
    draft = replace(draft, request=replace(draft.request, call_key=begun.key))
    try:
        kept = unpack_kept(begun.kept) if begun.kept else KeptReply()
        reply, projection = ReplyReading(draft, kept), Projection(expose_reasoning=True)
        for event in reply.replayed:
            projection.feed(event)
        if reply.over is not None:
            raise refused(signer.path, "the reply is over.")
        events = read(reply)
    except FormatError as error:
        raise RequestError(error.message, code="invalid_value") from error
    changes = tuple(change for event in events if (change := projection.feed(event)) is not None)
    after = None
    if reply.over is None:
        after = signer.sign(begun.key, begun.created, reply.keep())
    return Part(changes, tuple(events), not state, begun.key, begun.created, reply.over, after)


def chunk_of(part: Part, reading: Reading, *, id: str, model: str) -> ChatChunk:
    """The part as one event of a chat's stream."""
    finished = next((change.reason for change in part.changes if isinstance(change, Finished)), None)
    choice = ChunkChoice(
        index=0,
        delta=delta_of(part.changes, begins=part.begins),
        finish_reason=None if finished is None else reading.dialect.word(finished),
    )
    return ChatChunk(id=id, created=part.created, model=model, choices=[choice])


def delta_of(changes: Sequence[Change], *, begins: bool) -> Delta:
    """All changes as one delta; the first of a reply has the role."""
    text = "".join(change.text for change in changes if isinstance(change, VisibleText))
    thought = "".join(change.text for change in changes if isinstance(change, ThoughtText)) or msgspec.UNSET
    calls: dict[int, ToolCallDelta] = {}
    written: dict[int, FunctionDelta] = {}
    for change in changes:
        match change:
            case CallStarted(index, id, name):
                written[index] = FunctionDelta(name=name, arguments="")
                calls[index] = ToolCallDelta(index=index, id=id, type="function", function=written[index])
            case ArgumentsText(index, more):
                so_far = written.get(index) or FunctionDelta(arguments="")
                written[index] = replace_fields(so_far, arguments=so_far.arguments + more)
                calls[index] = replace_fields(calls.get(index) or ToolCallDelta(index=index), function=written[index])
            case VisibleText() | ThoughtText() | Finished():
                pass
    return Delta(
        role="assistant" if begins else msgspec.UNSET,
        content=text if text or begins else msgspec.UNSET,
        reasoning=thought,
        reasoning_content=thought,
        tool_calls=list(calls.values()) or msgspec.UNSET,
    )


def parse_part(wire: ParseRequest, model: Model, reading: Reading, signer: StateSigner, created: int) -> ParsedPart:
    """One part of a reply. Raises what `parse` does, and what `read_part` does."""

    def read(reply: ReplyReading) -> list[Event]:
        events = _read(wire, reply)
        return events if wire.finish_reason is None else [*events, *reply.end(ENDS[wire.finish_reason])]

    part = read_part(_draft(wire, model, reading), wire.state or "", signer, created, read)
    return ParsedPart(
        model=model.name,
        format=model.format.name,
        chunk=chunk_of(part, reading, id=f"chatcmpl-{part.key[:24]}", model=model.name),
        incidents=_incidents(part.events),
        ended=None if part.over is None else part.over.matched,
        state=part.state,
    )


def same_in_parts(wire: ParseRequest) -> ParseRequest:
    """The request without what is another in each part."""
    return replace_fields(wire, text=None, ids=None, state=None, finish_reason=None)
