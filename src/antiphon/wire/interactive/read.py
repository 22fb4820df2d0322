"""An interactive request → a turn that goes on with a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from antiphon.conversation import Conversation, Message, Role, Settings
from antiphon.errors import Position, UnsupportedError
from antiphon.generation import Draft, TurnRequest
from antiphon.tenancy import Tenant
from antiphon.tokens import encode_pieces
from antiphon.wire.chat.messages import to_messages
from antiphon.wire.errors import refused
from antiphon.wire.form_fields import check_forms
from antiphon.wire.sampling import output_limit

from .schema import InteractiveRequest


def ends_session(wire: InteractiveRequest) -> bool:
    """LMDeploy's way to end a session: an empty prompt, no tokens requested, not to be continued."""
    return not wire.prompt and wire.request_output_len == 0 and not wire.interactive_mode


def check_possible(wire: InteractiveRequest) -> None:
    """Raises `UnsupportedError` for what cannot be honoured, by its name."""
    check_forms(wire, "Use chat completions, with response_format.")
    impossible = {
        "response_format": (wire.response_format is not None, "Use chat completions."),
        "image_url": (wire.image_url, "The models here read text."),
        "adapter_name": (wire.adapter_name, "Name another model."),
        "min_new_tokens": (wire.min_new_tokens, "Set ignore_eos and request_output_len."),
        "skip_special_tokens": (not wire.skip_special_tokens, "Control tokens are structure here, never text."),
        "spaces_between_special_tokens": (not wire.spaces_between_special_tokens, None),
    }
    for name, (given, hint) in impossible.items():
        if given:
            raise UnsupportedError(f"{name} cannot be honoured.", position=Position(path=name), hint=hint)


def read_interactive(
    wire: InteractiveRequest, history: Sequence[Message], *, today: date, tenant: Tenant
) -> TurnRequest:
    """The next turn. Raises `RequestError` naming the field."""
    messages = (*history, *_new(wire, history))
    return TurnRequest(
        conversation=Conversation(messages, settings=Settings(current_date=today)),
        max_tokens=output_limit("request_output_len", wire.request_output_len),
        temperature=wire.temperature,
        top_p=wire.top_p,
        top_k=wire.top_k,
        min_p=wire.min_p,
        repetition_penalty=wire.repetition_penalty,
        seed=wire.seed,
        stop=(wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ()),
        ignore_eos=wire.ignore_eos,
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


def _new(wire: InteractiveRequest, history: Sequence[Message]) -> tuple[Message, ...]:
    if not wire.prompt:
        raise refused("prompt", "it is empty.", hint="A session ends with request_output_len 0, not interactive.")
    if isinstance(wire.prompt, str):
        return (Message(role=Role.USER, text=wire.prompt),)
    return to_messages(wire.prompt, earlier=history)
