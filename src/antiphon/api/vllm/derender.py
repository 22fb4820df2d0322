"""POST …/derender: replies of ids as chat completions, or completions, whole or chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from antiphon.api.chat.request import offered, reading_of
from antiphon.api.chat.schema import ChatChoice, ChatChunk, ChatRequest, ChoiceLogprobs, ChunkChoice, CompletionUsage
from antiphon.api.chat.write import answer_message, logprob_entries
from antiphon.api.completions.schema import Completion, CompletionChoice, CompletionRequest
from antiphon.api.completions.write import LogprobWriter
from antiphon.api.native.parse import (
    ENDS,
    STATE_WEIGHT,
    Part,
    StateSigner,
    delta_of,
    draft_of,
    read_part,
    request_digest,
)
from antiphon.api.native.write import check_length, known_ids, pieces_of
from antiphon.conversation import Conversation, Event, TokenLogprob
from antiphon.engines import EngineEnd
from antiphon.errors import Position, RequestError
from antiphon.formats.raw import RawFormat
from antiphon.generation import Draft, Model, TurnRequest
from antiphon.generation.plan import check_stops
from antiphon.generation.reader.elsewhere import ReplyReading, draft_elsewhere
from antiphon.http.context import Context
from antiphon.http.post import Post, PostRoute
from antiphon.tokens import Control
from antiphon.wire.errors import refused
from antiphon.wire.json import decode
from antiphon.wire.projection import VisibleText, whole
from antiphon.wire.sampling import stop_strings

from .schema import (
    DerenderChatRequest,
    DerenderCompletionRequest,
    DerenderedChat,
    DerenderedChunk,
    DerenderedCompletion,
    DerenderedPart,
    SampledChoice,
    SampledLogprob,
    SampledReply,
    StreamState,
)

MOST_STATE = 2**16
"""Characters of a state: vLLM's own has all ids of a reply."""
_PLACEHOLDER = "token_id:"
Body = TypeVar("Body", bound=msgspec.Struct)

# What comes of an engine, checked.


@contextmanager
def _within(path: str) -> Iterator[None]:
    """Errors of a request within a body are at their places there."""
    try:
        yield
    except RequestError as error:
        inner = error.position.path if error.position else None
        error.position = Position(path=f"{path}.{inner}" if inner else path)
        raise


def _nested(raw: msgspec.Raw, kind: type[Body]) -> Body | None:
    """The request within a body, read as its own route reads it; None where there is none. Raises `RequestError`."""
    return None if bytes(raw).strip() == b"null" else decode(bytes(raw), kind)[0]


def _check_reply(reply: SampledReply, path: str, model: Model, most: int, *, empty: bool = False) -> None:
    """Raises `RequestError` for more choices than are possible, or for ids that are none."""
    if len(reply.choices) > most:
        raise refused(f"{path}.choices", f"there are {len(reply.choices)}; at most {most} are possible.")
    for i, choice in enumerate(reply.choices):
        place = f"{path}.choices[{i}].token_ids"
        if not (choice.token_ids or empty):
            raise refused(place, "there are no ids.", code="missing_required_parameter")
        check_length(len(choice.token_ids or ()), place, model)
        known_ids(choice.token_ids or (), place, model.tokenizer)


def _end(choice: SampledChoice) -> EngineEnd:
    """Why sampling ended; by a word that is not known it was cut."""
    return ENDS.get(choice.finish_reason or "stop", EngineEnd.LENGTH_OUTPUT)


def _finish(choice: SampledChoice, read: str) -> str:
    """The word for the end: the engine's own where that is another than how replies end."""
    return read if choice.finish_reason in (None, *ENDS) else choice.finish_reason or read


def _logprobs(choice: SampledChoice, path: str, model: Model) -> list[TokenLogprob] | None:
    """The log probabilities with the tokens' bytes. Raises `RequestError` for a token that the vocabulary lacks."""
    if choice.logprobs is None or choice.logprobs.content is None:
        return None
    check_length(len(choice.logprobs.content), path, model)
    return [_logprob(one, f"{path}.content[{i}]", model) for i, one in enumerate(choice.logprobs.content)]


def _logprob(one: Any, path: str, model: Model) -> TokenLogprob:
    spelled = (one.token or "").removeprefix(_PLACEHOLDER)
    placed = int(spelled) if spelled.isdecimal() and len(spelled) < 12 else -1
    id = one.token_id if isinstance(one.token_id, int) else placed
    known_ids((id,), path, model.tokenizer)
    piece = model.tokenizer.piece(id)
    data = piece.spelling.encode() if isinstance(piece, Control) else piece
    top = one.top_logprobs if isinstance(one, SampledLogprob) else ()
    alternatives = tuple(_logprob(other, f"{path}.top_logprobs[{i}]", model) for i, other in enumerate(top))
    return TokenLogprob(id, data, one.logprob, alternatives)


def _usage(prompt: int, completion: int) -> CompletionUsage:
    return CompletionUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


def _chunk_usage(reply: SampledReply, prompt: int | None) -> CompletionUsage | msgspec.UnsetType:
    given = reply.usage
    if given is None:
        return msgspec.UNSET
    return _usage(given.prompt_tokens if prompt is None else prompt, given.completion_tokens or 0)


def _one_choice(reply: SampledReply | None) -> tuple[SampledReply, SampledChoice | None]:
    """A chunk and its choice, if it has one. Raises `RequestError` for several: a state is of one reply."""
    if reply is None:
        raise refused("generate_chunk", "it must be there.", code="missing_required_parameter")
    if len(reply.choices) > 1:
        raise refused("generate_chunk.choices", f"at most one is possible (got {len(reply.choices)}).")
    return reply, next(iter(reply.choices), None)


def _part_of(
    context: Context,
    post: Post,
    wire: DerenderChatRequest | DerenderCompletionRequest,
    draft: Draft,
    choice: SampledChoice,
) -> Part:
    """The part of a reply that a chunk is, read with the state that the caller holds."""
    same = replace(wire, generate_chunk=None, stream_state=None, prompt_tokens=None)
    digest = request_digest(same, draft.model)
    signer = StateSigner(context.cipher, post.exchange.owner, digest, MOST_STATE, "stream_state")
    state = wire.stream_state or StreamState()

    def read(reply: ReplyReading) -> list[Event]:
        events = reply.read_ids(choice.token_ids or ())
        return events if choice.finish_reason is None else [*events, *reply.end(_end(choice))]

    signed = state.prev_tokens[0] if state.prev_tokens else ""
    if not signed and state.role_sent:
        raise refused("stream_state", "the reply is over.", hint="Begin another one without a state.")
    return read_part(draft, signed, signer, int(post.created_at), read)


def _state(part: Part, length: int = 0) -> StreamState:
    tokens = [part.state] if part.state is not None else []
    return StreamState(prev_tokens=tokens, role_sent=True, logprob_text_offset=length)


class DerenderChat(PostRoute):
    """POST /v1/chat/completions/derender."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(DerenderChatRequest)
        model = await post.model(wire.model)
        with _within("chat_request"):
            chat = _nested(wire.chat_request, ChatRequest) or ChatRequest(messages=[])
            reading = reading_of(post, chat.stream, offered(self._context, chat, model))
        check_length(len(wire.prompt_token_ids or ()), "prompt_token_ids", model)
        prompt = None
        if wire.prompt_token_ids is not None:
            prompt = pieces_of(wire.prompt_token_ids, "prompt_token_ids", model.tokenizer)
        with _within("chat_request"):
            draft = await post.off_loop(lambda: draft_of(chat, prompt, model, reading))
        made = self._chunk if wire.stream else self._whole
        again = STATE_WEIGHT * sum(map(len, wire.stream_state.prev_tokens if wire.stream_state else ()))
        await post.send_json(await post.off_loop(lambda: made(post, wire, chat, draft), more=again))

    def _whole(self, post: Post, wire: DerenderChatRequest, chat: ChatRequest, draft: Draft) -> DerenderedChat:
        reply, path = wire.generate_response, "generate_response"
        if reply is None:
            raise refused(path, "it must be there.", code="missing_required_parameter")
        _check_reply(reply, path, draft.model, self._context.limits.max_n)
        choices = [self._choice(one, i, draft, ids=bool(chat.return_token_ids)) for i, one in enumerate(reply.choices)]
        count = sum(len(one.token_ids or ()) for one in reply.choices)
        return DerenderedChat(
            id=reply.request_id or f"chatcmpl-{post.exchange.id}",
            created=int(post.created_at),
            model=draft.model.name,
            choices=choices,
            usage=_usage(wire.prompt_tokens or 0, count),
            prompt_logprobs=reply.prompt_logprobs,
            kv_transfer_params=reply.kv_transfer_params,
            metrics=reply.metrics,
        )

    def _choice(self, choice: SampledChoice, number: int, draft: Draft, *, ids: bool) -> ChatChoice:
        events = ReplyReading(draft).read_whole(choice.token_ids or (), _end(choice))
        answer = whole(events, expose_reasoning=True)
        assert answer.finished is not None, "a choice without its end"
        place = f"generate_response.choices[{number}].logprobs"
        logprobs = _logprobs(choice, place, draft.model)
        return ChatChoice(
            index=choice.index,
            message=answer_message(answer),
            logprobs=None if logprobs is None else ChoiceLogprobs(logprob_entries(logprobs)),
            finish_reason=_finish(choice, self._context.dialect.word(answer.finished.reason)),
            token_ids=choice.token_ids or [] if ids else msgspec.UNSET,
        )

    def _chunk(self, post: Post, wire: DerenderChatRequest, chat: ChatRequest, draft: Draft) -> DerenderedChunk:
        (reply, choice), state = _one_choice(wire.generate_chunk), wire.stream_state or StreamState()
        model = draft.model
        chunk = ChatChunk(
            id=reply.request_id or f"chatcmpl-{post.exchange.id}",
            created=int(post.created_at),
            model=model.name,
            choices=[],
            usage=_chunk_usage(reply, wire.prompt_tokens),
        )
        if choice is None:
            return DerenderedChunk(chunk, state)
        _check_reply(reply, "generate_chunk", model, 1, empty=True)
        part = _part_of(self._context, post, wire, draft, choice)
        logprobs = _logprobs(choice, "generate_chunk.choices[0].logprobs", model)
        ended = None if part.over is None else self._context.dialect.word(part.over.reason)
        made = ChunkChoice(
            index=choice.index,
            delta=delta_of(part.changes, begins=part.begins),
            logprobs=None if logprobs is None else ChoiceLogprobs(logprob_entries(logprobs)),
            finish_reason=None if ended is None else _finish(choice, ended),
            token_ids=choice.token_ids or [] if chat.return_token_ids else msgspec.UNSET,
        )
        return DerenderedChunk(replace(chunk, choices=[made]), _state(part))


class DerenderCompletions(PostRoute):
    """POST /v1/completions/derender."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(DerenderCompletionRequest)
        model = await post.model(wire.model)
        with _within("completion_request"):
            request = _nested(wire.completion_request, CompletionRequest) or CompletionRequest(prompt="?")
            stops = stop_strings(request.stop, self._context.dialect)
            draft = raw_draft(model, stops, spelled=request.skip_special_tokens is False)
        made = self._chunk if wire.stream else self._whole
        await post.send_json(await post.off_loop(lambda: made(post, wire, request, draft)))

    def _whole(
        self, post: Post, wire: DerenderCompletionRequest, request: CompletionRequest, draft: Draft
    ) -> DerenderedCompletion:
        replies, limits = wire.generate_responses, self._context.limits
        if not replies:
            raise refused("generate_responses", "there must be one.", code="missing_required_parameter")
        if len(replies) > limits.max_prompts:
            raise refused("generate_responses", f"there are {len(replies)}; at most {limits.max_prompts} are possible.")
        for name in ("prompt_tokens", "prompt_token_ids"):
            given = getattr(wire, name)
            if given is not None and not (isinstance(given, list) and len(given) == len(replies)):
                raise refused(name, f"there must be one for each of the {len(replies)} replies.")
        prompts = wire.prompt_tokens if isinstance(wire.prompt_tokens, list) else [0] * len(replies)
        choices: list[CompletionChoice] = []
        for i, reply in enumerate(replies):
            _check_reply(reply, f"generate_responses[{i}]", draft.model, limits.max_n)
            for j, choice in enumerate(reply.choices):
                place = f"generate_responses[{i}].choices[{j}].logprobs"
                events = ReplyReading(draft).read_whole(choice.token_ids or (), _end(choice))
                text = "".join(whole(events).text)
                made = self._choice(choice, text, place, draft.model, request, 0, over=True)
                choices.append(replace(made, index=len(choices), prompt_index=i, sample_index=j))
        first, count = replies[0], sum(len(one.token_ids or ()) for reply in replies for one in reply.choices)
        transfers = [reply.kv_transfer_params for reply in replies]
        return DerenderedCompletion(
            id=first.request_id or f"cmpl-{post.exchange.id}",
            created=int(post.created_at),
            model=draft.model.name,
            choices=choices,
            usage=_usage(sum(prompts), count),
            kv_transfer_params=transfers[0] if transfers.count(transfers[0]) == len(transfers) else None,
            metrics=first.metrics if len(replies) == 1 else None,
        )

    def _chunk(
        self, post: Post, wire: DerenderCompletionRequest, request: CompletionRequest, draft: Draft
    ) -> DerenderedPart:
        (reply, choice), state = _one_choice(wire.generate_chunk), wire.stream_state or StreamState()
        model = draft.model
        prompt = wire.prompt_tokens if isinstance(wire.prompt_tokens, int) else None
        chunk = Completion(
            id=reply.request_id or f"cmpl-{post.exchange.id}",
            created=int(post.created_at),
            model=model.name,
            choices=[],
            usage=_chunk_usage(reply, prompt),
        )
        if choice is None:
            return DerenderedPart(chunk, state)
        _check_reply(reply, "generate_chunk", model, 1, empty=True)
        part = _part_of(self._context, post, wire, draft, choice)
        text = "".join(change.text for change in part.changes if isinstance(change, VisibleText))
        place, before = "generate_chunk.choices[0].logprobs", max(0, state.logprob_text_offset)
        made = self._choice(choice, text, place, model, request, before, over=part.over is not None)
        return DerenderedPart(replace(chunk, choices=[made]), _state(part, before + len(text)))

    def _choice(
        self,
        choice: SampledChoice,
        text: str,
        path: str,
        model: Model,
        request: CompletionRequest,
        before: int,
        *,
        over: bool,
    ) -> CompletionChoice:
        logprobs, written = _logprobs(choice, path, model), None
        if logprobs is not None:
            most = max((len(one.top) for one in logprobs), default=0)
            written = LogprobWriter(most).write(logprobs)
            written = replace(written, text_offset=[at + before for at in written.text_offset])
        return CompletionChoice(
            index=choice.index,
            text=text,
            logprobs=written,
            finish_reason=choice.finish_reason or "stop" if over else None,
            prompt_index=0,
            sample_index=choice.index,
            token_ids=choice.token_ids or [] if request.return_token_ids else msgspec.UNSET,
        )


def raw_draft(model: Model, stops: Sequence[str], *, spelled: bool) -> Draft:
    """The turn of a raw completion."""
    ends = [stop for stop in model.format.stops if isinstance(stop, Control)]
    raw = RawFormat(model.tokenizer.controls, stops=ends, spelled=spelled)
    turn = TurnRequest(conversation=Conversation(), raw=raw, stop=tuple(stops))
    check_stops(model, turn)
    return draft_elsewhere(model, turn, ())
