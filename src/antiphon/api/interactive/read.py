"""An interactive request → a turn that goes on with a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from antiphon.api.chat.messages import to_messages
from antiphon.api.chat.tools import read_format
from antiphon.conversation import Conversation, Message, Role, Settings
from antiphon.generation import Draft, TurnRequest
from antiphon.tenancy import Tenant
from antiphon.tokens import encode_pieces
from antiphon.wire.errors import refused
from antiphon.wire.sampling import output_limit

from .wire import InteractiveRequest


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
    return TurnRequest(
        conversation=Conversation(
            messages, settings=Settings(current_date=today), response_format=read_format(wire.response_format)
        ),
        max_tokens=output_limit("request_output_len", wire.request_output_len),
        temperature=wire.temperature,
        top_p=wire.top_p,
        top_k=wire.top_k,
        min_p=wire.min_p,
        repetition_penalty=wire.repetition_penalty,
        seed=wire.seed,
        stop=_stops(wire.stop),
        ignore_eos=wire.ignore_eos,
        stop_token_ids=frozenset(wire.stop_token_ids or ()),
        finish=wire.finish,
        tenant=tenant,
    )


def history_tokens(draft: Draft, history: Sequence[Message]) -> int:
    """How many tokens of the prompt are earlier turns'. Their segments are in the memo, for the prompt has them too."""
    if not history:
        return 0
    model, earlier = draft.model, replace(draft.request.conversation, messages=tuple(history))
    pieces = draft.format.render(earlier, reply_as=None)
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
