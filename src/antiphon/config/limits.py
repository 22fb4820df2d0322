"""The table ``[limits]``. Sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Annotated

import msgspec

# Numbers of the configuration that have bounds.

Count = Annotated[int, msgspec.Meta(ge=1)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0)]
"""0 is no limit."""
Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e8)]
LeaseSeconds = Annotated[float, msgspec.Meta(ge=1, le=3600)]
SecondsOrNone = Annotated[float, msgspec.Meta(ge=0, le=1e8)]
"""0 is no limit. Infinity is none that a timer could be set to."""


CONCURRENT = 64
"""Requests that run at once where nothing says more."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one server: all that a request meets before it reaches an engine.

    ``max_concurrent`` requests run at once (0: see `concurrent`) and ``max_queue`` wait, each at most
    ``queue_timeout``; more are refused with 429. ``keep_alive`` is the silence after which a stream says a comment.
    ``stream_buffer`` bounds what waits for a slow reader; the engine waits with it. ``first_token_timeout`` and
    ``turn_timeout`` end a turn that takes longer; the three after them are for keys that have no limits of their own.
    Bodies longer than ``off_loop_above`` are read, rendered and encoded in a thread; together they may take
    ``max_bodies``, and more are refused with 503.

    ``max_scored_tokens`` of a request's prompts may have their log probabilities requested, which takes the embedded
    engine as long as it would take to write them.

    The rest bounds connections: a request's URL, its headers (``max_head`` bytes of them in all), the time until they
    are there and between two requests, how long a client may read nothing of an answer, and how long a
    WebSocket is open.
    """

    max_body: Count = 8 * 2**20
    max_bodies: Count = 64 * 2**20
    body_timeout: Seconds = 60.0
    max_messages: Count = 10_000
    max_n: Count = 8
    max_prompts: Count = 256
    max_inputs: Count = 2048
    max_logit_bias: Count = 1024
    max_scored_tokens: Count = 16_384
    max_concurrent: CountOrNone = 0
    max_queue: Annotated[int, msgspec.Meta(ge=0)] = 256
    queue_timeout: Seconds = 60.0
    load_timeout: Seconds = 60.0
    keep_alive: Seconds = 15.0
    stream_buffer: Count = 256 * 2**10
    first_token_timeout: SecondsOrNone = 0.0
    turn_timeout: SecondsOrNone = 0.0
    requests_per_minute: CountOrNone = 0
    tokens_per_minute: CountOrNone = 0
    concurrent_per_key: CountOrNone = 0
    off_loop_above: Annotated[int, msgspec.Meta(ge=0)] = 32 * 2**10
    max_connections: Count = 2048
    max_url: Count = 8 * 2**10
    max_head: Count = 32 * 2**10
    max_headers: Count = 128
    head_timeout: Seconds = 30.0
    idle_timeout: Seconds = 75.0
    send_timeout: Seconds = 60.0
    socket_lifetime: Seconds = 3600.0

    @property
    def concurrent(self) -> int:
        """How many requests run at once: ``max_concurrent``, or `CONCURRENT` where that is 0.

        In a configuration that is loaded it is not 0 where its models' servers are asked for more than that at once.
        """
        return self.max_concurrent or CONCURRENT
