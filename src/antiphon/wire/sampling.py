"""Fields that requests for text share: stops, biases, whether to stream."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

import msgspec

from antiphon.config import Limits
from antiphon.errors import Position, UnsupportedError
from antiphon.generation import RANGES, Overflow, TurnRequest

from .dialect import Dialect
from .errors import refused
from .names.translate import GenerationFields


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class SamplingFields(GenerationFields, kw_only=True):
    """How tokens are chosen, and where the answer stops; null is the model's own choice.

    ``finish``: a constrained answer is whole at its limit.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    finish: Literal["always"] | None = None


_SAMPLED = [name for name in SamplingFields.__struct_fields__ if name not in ("stop", "stop_token_ids")]


def check_stream_options(options: StreamOptions | None, *, stream: bool) -> None:
    if options is not None and not stream:
        raise refused("stream_options", "only a streamed answer has stream options.", hint="Set stream to true.")


def sampled(turn: TurnRequest, wire: msgspec.Struct) -> TurnRequest:
    """The turn with what ``wire`` has of `SamplingFields` but stop strings, and of how it ends; ranges are checked by
    the plan.

    ``min_tokens`` as large as ``max_tokens`` requests just that many: no end but the limit.
    """
    given: dict[str, Any] = {name: getattr(wire, name, None) for name in _SAMPLED}
    stop_ids: list[int] | None = getattr(wire, "stop_token_ids", None)
    least: int | None = getattr(wire, "min_tokens", None)
    fixed = least is not None and turn.max_tokens is not None and 0 < least >= turn.max_tokens
    include_stop = bool(getattr(wire, "include_stop_str_in_output", None))
    if include_stop and stop_ids:
        hint = "What stop_token_ids ends is no text: leave one of them out."
        position = Position(path="include_stop_str_in_output")
        raise UnsupportedError("include_stop_str_in_output cannot be honoured.", position=position, hint=hint)
    return replace(
        turn,
        **given,
        stop_token_ids=frozenset(stop_ids or ()),
        ignore_eos=turn.ignore_eos or fixed,
        min_tokens=None if fixed else least,
        include_stop=include_stop,
    )


def overflow(error_behavior: str | None) -> Overflow:
    """Chooses the fate of a prompt that is too long: an empty answer where the request says ``truncate``."""
    return Overflow.EMPTY_ANSWER if error_behavior == "truncate" else Overflow.REFUSE


def output_limit(name: str, tokens: int | None) -> int | None:
    """As many as were requested under ``name``, which a plan would not know. Raises `RequestError`."""
    allowed = RANGES["max_tokens"]
    if tokens is not None and tokens not in allowed:
        raise refused(name, f"is {tokens}; it must be in {allowed}.")
    return tokens


def logit_bias(biases: dict[str, float] | None, limits: Limits) -> dict[int, float]:
    """The biases by id. Their range is checked by the plan."""
    biases = biases or {}
    if len(biases) > limits.max_logit_bias:
        raise refused("logit_bias", f"there are {len(biases)} biases; at most {limits.max_logit_bias} are possible.")
    for key in biases:
        if not re.fullmatch(r"[0-9]{1,10}", key):
            raise refused("logit_bias", f"{key[:32]!r} is not a token id.")
    return {int(key): bias for key, bias in biases.items()}


def stop_strings(stop: str | list[str] | None, dialect: Dialect) -> tuple[str, ...]:
    """One stop string or several, as many as the dialect allows."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if dialect.max_stops is not None and len(stops) > dialect.max_stops:
        raise refused("stop", f"there are {len(stops)} stop strings; at most {dialect.max_stops} are possible.")
    return stops
