"""Plans a request before it runs: prompt ids, sampling, stops, limits; checked once, before admission."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING

from antiphon.conversation import Incident, Role
from antiphon.conversation.calls import plainly_named
from antiphon.engines import EngineInfo, PlacedImage, Sampling
from antiphon.errors import ContextError, Position, RequestError, UnsupportedError
from antiphon.formats import Format, Parser
from antiphon.formats.format import MendedPrompt, incidents_of
from antiphon.formats.other_calls.offered import Offered
from antiphon.formats.other_calls.parser import OtherCalls, Sure
from antiphon.grammar import check_schema
from antiphon.tokens import Memo, Piece, SampledText, encode_pieces, may_fit

from .bridge import bridged, can_keep, goes_on
from .images import PARTS, placed
from .model import Model, stop_ids
from .normalize import longest, normalized
from .precedence import Layer, Resolved, Source, honoured, resolve, with_defaults
from .prefix import PrefixReport, prefix_report
from .request import BIAS, MAX_STOP_LENGTH, RANGES, Overflow, Range, TurnRequest

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.compiler import CompiledGrammar

MAX_STOPS = 1024
COUNTED = 2**14
"""Characters of a prompt at most whose tokens are counted though they are too many."""
_NAMES = Incident("history_names", 0)
_LEFT_OUT = Incident("history_left_out", 0)
_NO_WORD = re.compile(r"[\s\x00-\x1f\x7f]")
_PARAMETER = {"logprobs": "top_logprobs"}
"""Names of our fields whose parameter has another name in a request."""
_DECIDED = {*Resolved.__struct_fields__, "seed"}
_PASSED = {one.name for one in fields(Sampling)} & {one.name for one in fields(TurnRequest)} - _DECIDED
"""Settings that the engine is given as they are requested, or in its own default where they are not."""


@dataclass(frozen=True, slots=True)
class Draft:
    """All decisions before the grammar of the reply is compiled. It cannot be run: `constrain` makes it a `Plan`."""

    model: Model
    request: TurnRequest
    prompt: tuple[Piece, ...]
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    prefix: PrefixReport | None = field(default=None, kw_only=True)
    """Its share of an earlier prompt, where the request has ``explain_prefix``."""
    incidents: tuple[Incident, ...] = field(default=(), kw_only=True)
    """The repairs of its history, which the format could not write as it was."""
    images: tuple[PlacedImage, ...] = field(default=(), kw_only=True)
    """As they came; those of a `Plan` are as every engine reads them."""
    strict: bool = field(default=False, kw_only=True)
    """Each repair of its reply is a `ParseError` instead."""

    @property
    def remembered(self) -> bool:
        """Whether the turn may be remembered, for a later one to keep its ids or to be compared with it."""
        request = self.request
        return request.return_token_ids or request.explain_prefix or can_keep(self.model, request)

    @property
    def format(self) -> Format:
        """The format of the prompt and of the reply."""
        return format_of(self.model, self.request)

    def parser(self, sure: Sure | None = None) -> Parser:
        """A reader for one choice, which begins where the prompt's tail says; ``sure`` judges calls in other forms."""
        conversation, request = self.request.conversation, self.request
        parser = self.format.parser(
            reply_as=Role.ASSISTANT,
            prompt=self.prompt,
            strict=self.strict,
            tools=conversation.offered,
            response_format=conversation.response_format,
            calls=None if request.reads_miscalls or self.format.framed else request.calls,  # `InferredChannels` knows
        )
        tools = self.model.called_in_any_form(self.request)
        return OtherCalls(parser, Offered(tools), sure) if tools and not self.strict else parser


@dataclass(frozen=True, slots=True)
class Plan(Draft):
    """Everything that is decided before the first token; `constrain` makes it, and it alone can be run.

    ``constraint`` None: the reply is free, because nothing was requested that a grammar must promise.
    """

    constraint: CompiledGrammar | None
    ending: tuple[int, ...] | None = None
    """The shortest whole reply, where one is to be whole at its limit."""
    held: CompiledGrammar | None = None
    """A narrower grammar for the engine: calls in other forms that are read as text are not begun, or go on whole."""

    def __post_init__(self) -> None:
        request = self.request
        if self.constraint is None and request.requires_grammar and not request.best_effort:
            raise ValueError("this request requires a grammar: let constrain() make the plan")

    @property
    def grammar(self) -> str | None:
        """The grammar to which the engine constrains the reply, in llguidance's Lark."""
        engines = self.held or self.constraint
        return None if engines is None else engines.lark


def plan_turn(model: Model, request: TurnRequest, *, most: int | None = None) -> Draft:
    """The prompt and the sampling for ``request``. Raises `RequestError` (with the parameter's name) or `RenderError`.

    ``most``: tokens that the prompt may have, where something else than the context limits it.
    """
    try:
        request, plan = normalized(model, request), partial(_planned, model, most=most)
        return _longest(request, plan) if request.overflow is Overflow.DROP_OLDEST else plan(request)
    except RequestError as error:
        request.reword(error)
        raise


def plan_shorter(draft: Draft, images: Sequence[int]) -> Draft:
    """Plans the turn with what fits of its history, whose ``images`` have so many tokens more than their marks."""
    return _longest(draft.request, partial(_planned, draft.model, most=None, images=images))


def _longest(request: TurnRequest, plan: Callable[[TurnRequest], Draft]) -> Draft:
    draft = longest(request, plan)
    left_out = len(request.conversation.messages) - len(draft.request.conversation.messages)
    return replace(draft, incidents=(*draft.incidents, _LEFT_OUT)) if left_out else draft


def format_of(model: Model, request: TurnRequest) -> Format:
    """The model's format, or none for a raw prompt."""
    return request.raw or model.format


def _planned(model: Model, request: TurnRequest, *, most: int | None, images: Sequence[int] = ()) -> Draft:
    check_conversation(model, request)
    context = model.context
    room_for = context - 1 if most is None else min(most, context - 1)
    cut = request.overflow is Overflow.EMPTY_ANSWER
    if not cut and not may_fit([tool.description for tool in request.conversation.tools], model.tokenizer, room_for):
        raise _too_long(model, None, room_for, "tools", most)
    prompt = tuple(written := prompt_of(model, request))
    prompt_ids = _prompt_ids(model, request, prompt, room_for)
    if prompt_ids is None:
        count = len(encode_pieces(prompt, model.tokenizer)) if _is_short(prompt) else None
        raise _too_long(model, count, room_for, _place_too_long(model, request, room_for), most)
    seen: tuple[PlacedImage, ...] = ()
    if any(map(PARTS, request.conversation.messages)):
        seen = placed(request, prompt_ids, [*map(model.tokenizer.control_id, model.image_mark)])
    tokens = len(prompt_ids) + sum(images[len(images) - len(seen) :])  # The oldest images are left out first.
    if images and tokens > room_for:
        raise _too_long(model, tokens, room_for, "messages", most)
    sampling = sampling_for(model, request, room=context - tokens if tokens <= room_for else 0)
    prefix = _prefix(model, request, prompt_ids) if request.explain_prefix else None
    return Draft(
        model, request, prompt, prompt_ids, sampling,
        prefix=prefix, incidents=incidents_of(written), images=seen,
    )  # fmt: skip


def _too_long(model: Model, count: int | None, room: int, path: str, most: int | None) -> ContextError:
    """``count`` None: more than ``room``, how many was not counted."""
    limit = f"holds {model.context}, which must hold the answer too"
    error = ContextError(
        f"the prompt has {count or f'more than {room}'} tokens, and the context of {model.name!r} "
        + (limit if most is None else f"leaves {most} beside the answer"),
        position=Position(path=path),
        hint=f"Send fewer or {'shorter' if path == 'messages' else 'smaller'} {path}.",
    )
    error.tokens, error.limit = count or room + 1, room
    return error


def prompt_of(model: Model, request: TurnRequest, *, opens_reply: bool = True) -> Iterator[Piece]:
    """The pieces of the request's prompt; a `MendedPrompt` where its history cannot be written as it is."""
    format, reply_as = format_of(model, request), Role.ASSISTANT if opens_reply else None
    given, history = request.conversation, request.history
    if not format.framed or (heads := plainly_named(given.messages)) == given.messages:
        return format.render(given, reply_as=reply_as, history=history)
    prompt = format.render(replace(given, messages=heads), reply_as=reply_as, history=history)
    return MendedPrompt(prompt, (*incidents_of(prompt), _NAMES))


def _prefix(model: Model, request: TurnRequest, ids: tuple[int, ...]) -> PrefixReport:
    """Reports what the prompt keeps of an earlier one."""

    def encode(other: TurnRequest, opens_reply: bool) -> Sequence[int]:
        return _encoded(model, other, tuple(prompt_of(model, other, opens_reply=opens_reply)), model.context) or ()

    return prefix_report(model.sequences, request, ids, encode, model)


def _place_too_long(model: Model, request: TurnRequest, room: int) -> str:
    """The field to blame: the tools, if the prompt fits without them. Raises for one that is beyond its own limits."""
    conversation = request.conversation
    for i, tool in enumerate(conversation.tools):
        check_schema(tool.parameters, f"tools[{i}].function.parameters")
    bare = replace(request, conversation=replace(conversation, tools=()))
    return "tools" if conversation.tools and ids_within(model, tuple(prompt_of(model, bare)), room) else "messages"


def ids_within(model: Model, pieces: Sequence[Piece], limit: int, memo: Memo | None = None) -> tuple[int, ...] | None:
    """The ids of the pieces; None where they are more than ``limit``. A text that cannot fit is not encoded at all."""
    if not may_fit(pieces, model.tokenizer, limit):
        return None
    ids = encode_pieces(pieces, model.tokenizer, memo, limit=limit)
    return tuple(ids) if len(ids) <= limit else None


def count_of(model: Model, pieces: Sequence[Piece], limit: int) -> str:
    """How many ids pieces have that have more than ``limit``, for people: exactly where that is soon counted."""
    return str(len(encode_pieces(pieces, model.tokenizer))) if _is_short(pieces) else f"more than {limit}"


def _is_short(pieces: Sequence[Piece]) -> bool:
    return sum(len(piece) for piece in pieces if isinstance(piece, str)) <= COUNTED


def _prompt_ids(model: Model, request: TurnRequest, prompt: tuple[Piece, ...], limit: int) -> tuple[int, ...] | None:
    """The same for a prompt. One that gets an empty answer has ids all the same, which are counted and never run.

    They are its own where they are soon counted, else ``limit`` + 1 of no meaning.
    """
    cut = request.overflow is Overflow.EMPTY_ANSWER
    if cut and _is_short(prompt):
        return tuple(encode_pieces(prompt, model.tokenizer, model.memo.of(request.tenant.domain())))
    ids = _encoded(model, request, prompt, limit)
    return (0,) * (limit + 1) if ids is None and cut else ids


def _encoded(model: Model, request: TurnRequest, prompt: tuple[Piece, ...], limit: int) -> tuple[int, ...] | None:
    """The ids of a prompt, which goes on with those of the turns that are remembered. None: more than ``limit``."""
    memo, bridges = model.memo.of(request.tenant.domain()), request.prefix_policy == "bridge"
    ids = ids_within(model, prompt if bridges else [_plain(piece) for piece in prompt], limit, memo)
    for former in model.sequences.continued(request) if request.raw is None and bridges else ():
        if ids is not None and goes_on(model, former, ids):
            break
        if found := bridged(model, former, request, prompt):
            kept, rest = found
            more = ids_within(model, rest, limit - len(kept), memo)
            return None if more is None else (*kept, *more)
    return ids


def _plain(piece: Piece) -> Piece:
    """The piece without the ids that were sampled for it."""
    return str(piece) if isinstance(piece, SampledText) else piece


def check_conversation(model: Model, request: TurnRequest) -> None:
    """That the format can say what it is given. Raises `RequestError`.

    Arguments of a template that has no use for them would change nothing: they are refused.
    """
    format, arguments = format_of(model, request), request.conversation.settings.template_kwargs
    known = format.arguments
    for key in sorted(arguments.keys() - known):
        raise RequestError(
            f"{key[:64]!r} is no argument of the template of {model.name!r}",
            code="bad_template_kwargs",
            position=Position(path="chat_template_kwargs"),
            hint=f"It takes {', '.join(sorted(known)) or 'none'}.",
        )
    # Where messages have heads of words, a name of several words could say whom a message is to.
    for message in plainly_named(request.conversation.messages) if format.framed else ():
        for word in (message.name, message.recipient):
            if word and _NO_WORD.search(word):
                raise _refused("messages", f"{word[:64]!r} is no name: it holds blanks or control characters")


def sampling_for(model: Model, request: TurnRequest, *, room: int) -> Sampling:
    """The settings that count, each in its range (resolutions X-03, X-10 … X-13, X-19, X-53)."""
    check_request(model, request)
    stated, documented = Layer(Source.REQUEST, request.stated), Layer(Source.DIALECT, request.documented)
    chosen = resolve(with_defaults((stated, *model.layers, documented, Layer(Source.DEFAULT, request.fallback))))
    length = chosen.max_tokens or None if request.max_tokens is None else request.max_tokens
    limits = [room, length, request.most_tokens, model.max_output_tokens]
    passed = {name: value for name in _PASSED if (value := getattr(request, name)) is not None}
    own_ends = frozenset[int]() if request.ignore_eos else stop_ids(format_of(model, request), model.tokenizer)
    asked = Sampling(
        **passed,
        max_tokens=min(limit for limit in limits if limit is not None),
        temperature=chosen.temperature,
        top_p=chosen.top_p,
        top_k=max(0, chosen.top_k),
        min_p=chosen.min_p,
        seed=None if request.seed is None else request.seed % 2**64,
        repetition_penalty=chosen.repetition_penalty,
        stop_ids=request.stop_token_ids | own_ends,
        confidence=request.logprobs is None and bool(model.called_in_any_form(request)),
    )
    return honoured(model.engine.info, asked, request.stated)


def check_request(model: Model, request: TurnRequest) -> None:
    """Every setting in its range, and possible on this engine; the error names the parameter."""
    info = model.engine.info
    if info.embeddings or info.ranks:
        does = "makes embeddings" if info.embeddings else "ranks documents"
        raise UnsupportedError(f"{model.name!r} {does} and writes no text", position=Position(path="model"))
    check_numbers(request)
    _within("n", request.n, Range(1, info.slots))
    _within("top_logprobs", request.logprobs, Range(0, info.logprobs))
    _check_scored(info, request)
    check_stops(model, request)
    _refuse_unconstrained(model, request)
    if request.finish is not None:
        _check_finish(model, request)
    for id, bias in request.logit_bias.items():
        _check_id("logit_bias", id, model)
        _within(f"logit_bias.{id}", bias, BIAS)


def check_numbers(request: TurnRequest) -> None:
    """Every number in its range. Raises `RequestError`."""
    for name, allowed in RANGES.items():
        _within(_PARAMETER.get(name, name), getattr(request, name), allowed)


def _refuse_unconstrained(model: Model, request: TurnRequest) -> None:
    """Refuses what only a grammar can promise where none can be enforced: a wish in the prompt is not a promise."""
    if model.reply_compiler is None and request.requires_grammar and not request.best_effort:
        path = "response_format" if request.formatted else "tool_choice" if request.chosen else "tools"
        raise UnsupportedError(
            f"{path} cannot be enforced by the engine {model.engine.info.name!r}",
            position=Position(path=path),
            hint="Choose a model on another engine.",
        )


def _check_scored(info: EngineInfo, request: TurnRequest) -> None:
    """Refuses requests for the prompt's own ids on an engine that does not read them, or of no single prompt."""
    if request.prompt_logprobs is not None and not info.scores:
        raise UnsupportedError(
            f"the engine {info.name!r} does not report log probabilities of a prompt",
            position=Position(path="prompt_logprobs"),
            hint="Leave it out, or choose a model on another engine.",
        )
    _within("prompt_logprobs", request.prompt_logprobs, Range(0, info.logprobs))
    if request.return_token_ids and "return_token_ids" not in info.honours:
        raise info.refusal("return_token_ids")
    for name in request.of_ids:
        if request.overflow is Overflow.EMPTY_ANSWER:
            raise UnsupportedError(
                f"{name} cannot be honoured for a prompt that may be too long",
                position=Position(path=name),
                hint='Leave error_behavior "truncate" out.',
            )


def _check_finish(model: Model, request: TurnRequest) -> None:
    """That a reply which is to be whole at its limit can be followed by its grammar."""
    position = Position(path="finish")
    if model.reply_compiler is None:
        what = f"the engine {model.engine.info.name!r}, which takes no grammar"
        raise UnsupportedError(f"finish cannot be honoured by {what}", position=position)
    if request.logprobs is not None:
        hint = "The model did not sample the ending, so it has no log probabilities."
        raise UnsupportedError("finish cannot be honoured together with logprobs", position=position, hint=hint)


def check_stops(model: Model, request: TurnRequest) -> None:
    """That what ends the reply besides its format is of a possible number and length. Raises `RequestError`."""
    stops, ids = request.stop, request.stop_token_ids
    if len(stops) > MAX_STOPS:
        raise _refused("stop", f"stop has {len(stops)} strings; at most {MAX_STOPS} are possible")
    for i, stop in enumerate(stops):
        if not stop:
            raise _refused(f"stop[{i}]", "a stop string is empty")
        if len(stop) > MAX_STOP_LENGTH:
            raise _refused(
                f"stop[{i}]", f"a stop string has {len(stop)} characters; at most {MAX_STOP_LENGTH} are possible"
            )
    if len(ids) > MAX_STOPS:
        raise _refused("stop_token_ids", f"stop_token_ids has {len(ids)} ids; at most {MAX_STOPS} are possible")
    for id in sorted(ids):
        _check_id("stop_token_ids", id, model)


def _check_id(path: str, id: int, model: Model) -> None:
    if not 0 <= id < model.tokenizer.size:
        raise _refused(path, f"the vocabulary has no token {id}; its ids are 0 … {model.tokenizer.size - 1}")


def _within(name: str, value: float | None, allowed: Range) -> None:
    if value is not None and value not in allowed:
        raise _refused(name, f"{name} is {value}; it must be in {allowed}")


def _refused(path: str, message: str) -> RequestError:
    return RequestError(message, code="invalid_value", position=Position(path=path))
