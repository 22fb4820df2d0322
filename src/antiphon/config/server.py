"""The tables of the configuration that are a server's own. Sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0)]
"""0 is no limit."""
Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e8)]
SecondsOrNone = Annotated[float, msgspec.Meta(ge=0, le=1e8)]
"""0 is no limit. Infinity is none that a timer could be set to."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``drain``, in seconds, is what running requests get when the server stops.

    ``keys`` is a file of `antiphon keys`; where it exists, every request needs one of its keys. ``without_keys`` lets
    a server listen beyond this machine though it has none. ``public_metrics`` shows ``/metrics`` to all, and
    ``expose_reasoning`` what models think; ``debug``: answers name the request's unknown fields. ``tls_cert`` and
    ``tls_key`` are PEM files. ``origins``: the web pages, between commas, that may call it from a browser.
    ``wires``: further APIs, between commas, by the names that installed packages give them.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8080
    drain: SecondsOrNone = 30.0
    keys: str = ""
    without_keys: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    origins: str = ""
    public_metrics: bool = False
    expose_reasoning: bool = False
    debug: bool = False
    wires: str = ""


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``access``: a line a request. ``file`` "" is standard error; one that was moved away is opened anew."""

    form: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    access: bool = True
    file: str = ""


class TracesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``endpoint`` is the OTLP/HTTP address of an OpenTelemetry collector; empty: no spans are made."""

    endpoint: str = ""
    service: str = "antiphon"


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one server bears: every bound that a request meets before it reaches an engine.

    ``max_concurrent`` requests run at once and ``max_queue`` wait, each at most ``queue_timeout``; more are refused
    with 429. ``keep_alive`` is the silence after which a stream says a comment. ``stream_buffer`` bounds what waits for
    a slow reader; the engine waits with it. ``first_token_timeout`` and ``turn_timeout`` end a turn that takes longer;
    the three after them are for keys that have no limits of their own. Bodies longer than ``off_loop_above`` are
    rendered and encoded in a thread.

    The rest bounds connections: a request's URL, its headers (``max_head`` bytes of them in all), the time until they
    are there and between two requests, and how long a client may read nothing of an answer.
    """

    max_body: Count = 8 * 2**20
    body_timeout: Seconds = 60.0
    max_messages: Count = 10_000
    max_n: Count = 8
    max_prompts: Count = 256
    max_inputs: Count = 2048
    max_logit_bias: Count = 1024
    max_concurrent: Count = 64
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
