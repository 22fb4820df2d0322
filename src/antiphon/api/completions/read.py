"""A completion request → the turns of its prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from antiphon.api.chat.read import Reading, read_format
from antiphon.config import Limits
from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError, VisibilityError
from antiphon.formats.harmony import Harmony
from antiphon.formats.raw import FillInMiddle, InfillFormat, RawFormat
from antiphon.generation import Model, Overflow, TurnRequest
from antiphon.tokens import Control, SampledText, decode
from antiphon.wire.dialect import Dialect
from antiphon.wire.errors import refused
from antiphon.wire.sampling import check_stream_options, logit_bias, overflow, sampled, stop_strings

from .schema import CompletionRequest, FimRequest, InfillRequest, Prompt

MAX_LOGPROBS = 5
SHORTER = 'Send a shorter prompt, or say error_behavior "truncate".'


class RequestedCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was read: a turn for each prompt. Each prompt's choices begin with its text in ``echoes``."""

    turns: tuple[TurnRequest, ...]
    echoes: tuple[str, ...]
    suffix: str
    n: int
    logprobs: bool
    prompt_logprobs: int | None = None

    @property
    def made(self) -> int:
        """Choices that are made of each prompt, of which the best ``n`` are returned."""
        return self.turns[0].n


def read_middle(
    wire: FimRequest | InfillRequest, model: Model, reading: Reading, *, reveals: bool = False
) -> TurnRequest:
    """The turn of a middle by other servers' routes. Raises `RequestError` naming the field of `CompletionRequest`."""
    given = {name: value for name in wire.__struct_fields__ if (value := getattr(wire, name)) is not None}
    known = {name: value for name, value in given.items() if name in CompletionRequest.__struct_fields__}
    if isinstance(wire, FimRequest):
        (turn,) = read_completion(CompletionRequest(**known), model, reading, reveals=reveals).turns
        return replace(turn, reword=partial(_reworded, "prompt", hint="Send a shorter prompt."))
    known |= {"prompt": wire.input_prefix + (wire.prompt or ""), "suffix": wire.input_suffix}
    (turn,) = read_completion(CompletionRequest(**known), model, reading, reveals=reveals, fills=True).turns
    files = wire.input_extra or []
    if len(files) > reading.limits.max_messages:
        raise refused("input_extra", f"there are {len(files)} files; at most {reading.limits.max_messages} are read.")
    others = [Message(role=Role.USER, name=file.filename, text=file.text) for file in files]
    conversation = replace(turn.conversation, messages=(*others, *turn.conversation.messages))
    reword = partial(_reworded, "prompt", hint="Send a shorter prefix or suffix.")
    return replace(turn, conversation=conversation, overflow=Overflow.DROP_OLDEST, reword=reword)


def read_completion(
    wire: CompletionRequest, model: Model, reading: Reading, *, reveals: bool = False, fills: bool | None = None
) -> RequestedCompletion:
    """The request's turns. ``reveals``: this client may see reasoning. ``fills``: it is answered by a middle; None:
    where it has a suffix. Raises `RequestError` naming the field.
    """
    fills = bool(wire.suffix) if fills is None else fills
    infill = model.infill if fills and not reading.dialect.completions.appends_suffix else None
    _check_possible(wire, reading, infill, fills=fills)
    n, made = _choices(wire, model, reading)
    paths, prompts = _prompts(wire.prompt, reading.limits)
    by_ids = any(not isinstance(prompt, str) for prompt in prompts)
    raw = _raw_format(model, wire, reading.dialect, by_ids=by_ids)
    if infill is not None:
        if raw is None:
            raise refused("suffix", "only a raw prompt can stand before it.", hint="Leave use_raw_prompt out.")
        raw = InfillFormat(infill, wire.suffix or "", raw)
    if raw is not None and isinstance(model.format, Harmony) and not reveals:
        raise VisibilityError(
            f"A raw completion of {model.name!r} would show its reasoning, which this server hides.",
            hint="The server's owner, or a key with the scope debug, can allow it.",
        )
    if (raw is None or infill is not None) and wire.echo and wire.logprobs is not None:
        hint = "Say use_raw_prompt true." if infill is None else "Leave suffix or logprobs out."
        raise refused("echo", "only the tokens of a raw prompt are those of its text.", hint=hint)
    turn = _turn(wire, reading, raw, made=made)
    most = None if turn.overflow is Overflow.EMPTY_ANSWER else model.context
    texts = [
        _text(prompt, path, model, most, may_be_empty=infill is not None)
        for path, prompt in zip(paths, prompts, strict=True)
    ]
    return RequestedCompletion(
        turns=tuple(
            _with_prompt(turn, text, path, echoes=wire.prompt_logprobs is None)
            for path, text in zip(paths, texts, strict=True)
        ),
        echoes=tuple(texts) if wire.echo else ("",) * len(texts),
        suffix="" if infill else wire.suffix or "",
        n=n,
        logprobs=wire.logprobs is not None,
        prompt_logprobs=wire.prompt_logprobs,
    )


def _check_possible(wire: CompletionRequest, reading: Reading, infill: FillInMiddle | None, *, fills: bool) -> None:
    """Refuses by name the fields that cannot be honoured: ignoring one would answer another question."""
    check_stream_options(wire.stream_options, stream=reading.stream)
    if wire.logprobs is not None and not 0 <= wire.logprobs <= MAX_LOGPROBS:
        raise refused("logprobs", f"{wire.logprobs}; from 0 to {MAX_LOGPROBS} are possible.")
    impossible = {
        "suffix": (
            fills and infill is None and not reading.dialect.completions.appends_suffix,
            "This model does not fill in the middle of a text. Put what stands before and after into the prompt.",
        ),
        "prompt_logprobs": (reading.stream and wire.prompt_logprobs is not None, "They come with a whole answer."),
        "skip_special_tokens": (
            infill is not None and wire.skip_special_tokens is False,
            "The marks of a middle are not spelled out.",
        ),
        "explain_prefix": (wire.explain_prefix, "Use chat completions: a text has no messages."),
    }
    for name, (given, hint) in impossible.items():
        if given:
            raise UnsupportedError(f"{name} cannot be honoured.", position=Position(path=name), hint=hint)


def _choices(wire: CompletionRequest, model: Model, reading: Reading) -> tuple[int, int]:
    """How many choices of a prompt are returned, and how many are made."""
    n = 1 if wire.n is None else wire.n
    made = n if wire.best_of is None else wire.best_of
    most = min(reading.limits.max_n, model.engine.info.slots)
    for name, count in (("n", n), ("best_of", made)):
        if not 1 <= count <= most:
            raise refused(name, f"{count} choices; from 1 to {most} are possible.")
    if made < n:
        raise refused("best_of", f"the best {n} of {made} cannot be returned.")
    if made > n and reading.stream:
        raise refused("best_of", "what streams is sent before it is known to be the best.")
    return n, made


def _prompts(prompt: Prompt, limits: Limits) -> tuple[list[str], list[str | list[int]]]:
    """Every prompt, and its path in the request."""
    if isinstance(prompt, str):
        return ["prompt"], [prompt]
    if set(map(type, prompt)) == {int}:
        ids = [item for item in prompt if isinstance(item, int)]
        return ["prompt"], [ids]
    several = [item for item in prompt if not isinstance(item, int)]
    if len(several) < len(prompt):
        raise refused("prompt", "ids stand beside texts; send one list of ids, or a list of prompts.")
    if not 1 <= len(several) <= limits.max_prompts:
        raise refused("prompt", f"there are {len(several)} prompts; from 1 to {limits.max_prompts} are possible.")
    return [f"prompt[{i}]" for i in range(len(several))], several


def _raw_format(model: Model, wire: CompletionRequest, dialect: Dialect, *, by_ids: bool) -> RawFormat | None:
    """The format of a raw prompt; None: the model's own (resolution X-29: never Harmony's raw, unless forced)."""
    needs_format = isinstance(model.format, Harmony)
    raw = wire.use_raw_prompt
    if raw is None:
        raw = by_ids or (dialect.completions.raw and not needs_format)
    if by_ids and not raw:
        raise refused("use_raw_prompt", "ids are a raw prompt and cannot be put into a format.", hint="Send text.")
    if not raw:
        if wire.skip_special_tokens is False:
            raise refused("skip_special_tokens", "only a raw completion has its control tokens spelled out.")
        return None
    if needs_format and raw != "force":
        raise UnsupportedError(
            f"{model.name!r} was trained on nothing but its own format and answers a raw prompt badly.",
            position=Position(path="prompt" if wire.use_raw_prompt is None else "use_raw_prompt"),
            hint='Use chat completions, or say use_raw_prompt "force" for a prompt that is in the format already.',
        )
    stops = [stop for stop in model.format.stops if isinstance(stop, Control)]
    begin = () if by_ids or model.begin is None else (model.begin,)
    spelled = wire.skip_special_tokens is False
    return RawFormat(model.tokenizer.controls, begin=begin, stops=stops, spelled=spelled)


def _text(prompt: str | Sequence[int], path: str, model: Model, most: int | None, *, may_be_empty: bool = False) -> str:
    """The prompt as text, which brings its ids along where the client sent ids; of these at most ``most``."""
    if prompt == "" and may_be_empty:
        return ""
    if not prompt:
        raise refused(path, "the prompt is empty.")
    if isinstance(prompt, str):
        return prompt
    if most is not None and len(prompt) > most:
        error = ContextError(f"the prompt has {len(prompt)} tokens, and the context of {model.name!r} holds {most}")
        _reworded(path, error)
        raise error
    unknown = next((id for id in prompt if not 0 <= id < model.tokenizer.size), None)
    if unknown is not None:
        raise refused(path, f"the vocabulary has no token {unknown}; its ids are 0 … {model.tokenizer.size - 1}.")
    return SampledText(decode(model.tokenizer, prompt), tuple(prompt), model.tokenizer.name)


def _turn(wire: CompletionRequest, reading: Reading, raw: RawFormat | None, *, made: int) -> TurnRequest:
    """The turn of every prompt, but for its conversation. ``best_of`` needs to know how likely each choice was."""
    ranked = 0 if made > (wire.n or 1) else None
    turn = TurnRequest(
        conversation=Conversation(response_format=read_format(wire.response_format)),
        n=made,
        max_tokens=wire.max_tokens,
        most_tokens=reading.dialect.max_output,
        documented=reading.dialect.defaults,
        fallback=reading.dialect.fallback,
        logit_bias=logit_bias(wire.logit_bias, reading.limits),
        logprobs=ranked if wire.logprobs is None else wire.logprobs,
        prompt_logprobs=_of_prompt(wire),
        return_token_ids=bool(wire.return_token_ids),
        stop=stop_strings(wire.stop, reading.dialect),
        ignore_eos=bool(wire.ignore_eos),
        tenant=reading.tenant.asking(affinity=wire.prompt_cache_key, salt=wire.cache_salt),
        overflow=overflow(wire.error_behavior),
        raw=raw,
    )
    return sampled(turn, wire)


def _of_prompt(wire: CompletionRequest) -> int | None:
    """How many alternatives are requested of each token of the prompt, under either name."""
    echoed = wire.logprobs if wire.echo else None
    requested = [count for count in (echoed, wire.prompt_logprobs) if count is not None]
    return min(requested) if min(requested, default=0) < 0 else max(requested, default=None)


def _with_prompt(turn: TurnRequest, text: str, path: str, *, echoes: bool) -> TurnRequest:
    conversation = replace(turn.conversation, messages=(Message(role=Role.USER, text=text),))
    return replace(turn, conversation=conversation, reword=partial(_reworded, path, echoes=echoes))


def _reworded(path: str, error: RequestError, *, echoes: bool = False, hint: str = SHORTER) -> None:
    """A prompt that is too long has the name of its place in the request, and the way out that is its ``hint``.

    ``echoes``: its log probabilities are requested by ``echo`` alone.
    """
    if echoes and error.position is not None and error.position.path == "prompt_logprobs":
        error.position = Position(path="echo")
    if isinstance(error, ContextError):
        error.position = Position(path=path)
        error.hint = hint
