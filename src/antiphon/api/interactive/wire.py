"""LMDeploy's interactive chat on the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import Literal

import msgspec

from antiphon.api.chat.messages import to_messages
from antiphon.api.chat.read import read_format
from antiphon.api.chat.schema import ChatMessage, ResponseFormatObject
from antiphon.conversation import Conversation, Event, FinishReason, Message, Role, Settings
from antiphon.errors import AntiphonError
from antiphon.generation import Draft, StepEvents, TurnRequest
from antiphon.generation.plan import prompt_of
from antiphon.tenancy import Tenant
from antiphon.tokens import encode_pieces
from antiphon.wire.errors import ErrorDetail, refused
from antiphon.wire.json import encode
from antiphon.wire.names.translate import GenerationFields
from antiphon.wire.projection import Finished, Projection, VisibleText
from antiphon.wire.sampling import output_limit, sampled
from antiphon.wire.writer import JSON, StreamForm


class InteractiveRequest(GenerationFields, kw_only=True):
    """The body of POST /v1/chat/interactive. ``session_id`` -1 or "": a new session.

    Without ``interactive_mode`` the session ends with this turn. ``stop`` true is the first clients' word for
    ``cancel``, and false for no stop strings.
    """

    prompt: str | list[ChatMessage] = ""
    model: str | None = None
    session_id: int | str | None = None
    interactive_mode: bool = False
    stream: bool = False
    cancel: bool = False
    request_output_len: int | None = None
    stop: str | list[str] | bool | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    ignore_eos: bool = False
    stop_token_ids: list[int] | None = None
    finish: Literal["always"] | None = None
    response_format: ResponseFormatObject | None = None


class InteractiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, or one line of a stream, whose texts add up.

    ``tokens`` are written so far; the prompt has ``history_tokens`` of earlier turns and ``input_tokens`` of this one,
    ``cached_tokens`` of which the engine did not evaluate again.
    """

    text: str
    tokens: int
    input_tokens: int
    history_tokens: int
    finish_reason: Literal["stop", "length", "error"] | None = None
    session_id: int | str | None = None
    cached_tokens: int | msgspec.UnsetType = msgspec.UNSET
    error: ErrorDetail | msgspec.UnsetType = msgspec.UNSET


# An interactive request → a turn that goes on with a session.


def ends_session(wire: InteractiveRequest) -> bool:
    """LMDeploy's way to end a session: an empty prompt, no tokens requested, not to be continued."""
    return not wire.prompt and wire.request_output_len == 0 and not wire.interactive_mode


def cancels(wire: InteractiveRequest) -> bool:
    """Whether the session's running request is to be ended; in the first clients' words, too."""
    return wire.cancel or wire.stop is True


def read_interactive(
    wire: InteractiveRequest, history: Sequence[Message], *, today: date, tenant: Tenant
) -> TurnRequest:
    """The next turn. Raises `RequestError` naming the field."""
    messages = (*history, *_new(wire, history))
    turn = TurnRequest(
        conversation=Conversation(
            messages, settings=Settings(current_date=today), response_format=read_format(wire.response_format)
        ),
        max_tokens=output_limit("request_output_len", wire.request_output_len),
        stop=_stops(wire.stop),
        ignore_eos=wire.ignore_eos,
        tenant=tenant,
    )
    return sampled(turn, wire)


def history_tokens(draft: Draft, history: Sequence[Message]) -> int:
    """How many tokens of the prompt are earlier turns'. Their segments are in the memo, for the prompt has them too."""
    if not history:
        return 0
    model, earlier = draft.model, replace(draft.request.conversation, messages=tuple(history))
    pieces = prompt_of(model, replace(draft.request, conversation=earlier), opens_reply=False)
    memo, most = model.memo.of(draft.request.tenant.domain()), len(draft.prompt_ids)
    return min(len(encode_pieces(pieces, model.tokenizer, memo, limit=most)), most)


def _stops(stop: str | list[str] | bool | None) -> tuple[str, ...]:
    match stop:
        case str():
            return (stop,)
        case list():
            return tuple(stop)
        case _:
            return ()


def _new(wire: InteractiveRequest, history: Sequence[Message]) -> tuple[Message, ...]:
    if not wire.prompt:
        raise refused("prompt", "it is empty.", hint="A session ends with request_output_len 0, not interactive.")
    if isinstance(wire.prompt, str):
        return (Message(role=Role.USER, text=wire.prompt),)
    return to_messages(wire.prompt, earlier=history)


# Events of a session's turn → one JSON object, or one a line.

JSON_LINES = "application/x-ndjson; charset=utf-8"
CUT = (FinishReason.LENGTH_OUTPUT, FinishReason.LENGTH_CONTEXT, FinishReason.TIMEOUT)


class InteractiveWriter:
    """One turn: the `Writer` of LMDeploy's interactive chat. ``head`` has what every line says.

    An empty line is a sign of life, an error is the last line; ``describe`` says it as OpenAI does.
    """

    media_type = JSON

    def __init__(self, head: InteractiveAnswer, describe: Callable[[AntiphonError], ErrorDetail]) -> None:
        self.form = StreamForm(self._error, media_type=JSON_LINES, keep_alive=b"\n")
        self._describe = describe
        self._so_far = head
        self._projection = Projection()
        self._texts: list[str] = []

    def change(self, step: StepEvents[Event]) -> bytes:
        return b"".join([encode(part) + b"\n" for part in self._parts(step)])

    def end(self) -> bytes:
        return b""

    def add(self, step: StepEvents[Event]) -> None:
        self._texts += (part.text for part in self._parts(step))

    def whole(self) -> bytes:
        return encode(self._now(text="".join(self._texts)))

    def _parts(self, step: StepEvents[Event]) -> list[InteractiveAnswer]:
        parts: list[InteractiveAnswer] = []
        for event in step.events:
            match self._projection.feed(event):
                case VisibleText(text):
                    parts.append(self._now(text=text, tokens=step.completion_tokens))
                case Finished(reason, usage):
                    parts.append(
                        self._now(
                            text="",
                            tokens=usage.completion_tokens,
                            input_tokens=usage.prompt_tokens - self._so_far.history_tokens,
                            finish_reason="length" if reason in CUT else "stop",
                            cached_tokens=usage.cached_tokens or 0,
                        )
                    )
                case _:
                    pass
        return parts

    def _now(self, **changes: object) -> InteractiveAnswer:
        self._so_far = msgspec.structs.replace(self._so_far, **changes)
        return self._so_far

    def _error(self, error: AntiphonError) -> bytes:
        return encode(self._now(text="", finish_reason="error", error=self._describe(error))) + b"\n"


def nothing(wire: InteractiveRequest) -> InteractiveAnswer:
    """The answer where the model was not run."""
    return InteractiveAnswer(text="", tokens=0, input_tokens=0, history_tokens=0, session_id=wire.session_id)
