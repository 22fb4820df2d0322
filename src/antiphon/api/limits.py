"""What one server bears. Sizes in bytes, times in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every bound that a request meets before it reaches an engine.

    ``max_concurrent`` requests run at once and ``max_queue`` wait, each at most ``queue_timeout``; more are refused
    with 429. ``keep_alive`` is the silence after which a stream says a comment. ``stream_buffer`` bounds what waits for
    a slow reader; the engine waits with it. ``first_token_timeout`` and ``turn_timeout`` end a turn that takes longer;
    the last three are for keys that have no limits of their own. There, 0 is no limit.
    """

    max_body: int = 8 * 2**20
    body_timeout: float = 60.0
    max_messages: int = 10_000
    max_n: int = 8
    max_prompts: int = 256
    max_inputs: int = 2048
    max_logit_bias: int = 1024
    max_concurrent: int = 64
    max_queue: int = 256
    queue_timeout: float = 60.0
    load_timeout: float = 60.0
    keep_alive: float = 15.0
    stream_buffer: int = 256 * 2**10
    first_token_timeout: float = 0.0
    turn_timeout: float = 0.0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    concurrent_per_key: int = 0
    off_loop_above: int = 32 * 2**10
    """Bodies longer than this are rendered and encoded in a thread."""
