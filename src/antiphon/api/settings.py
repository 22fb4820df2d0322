"""Settings of an application, beside its models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from antiphon.config import BatchesConfig, Limits, ServerConfig
from antiphon.http.context import ServerTools
from antiphon.http.gate.admission import SharedLimits
from antiphon.http.gate.keys import Key
from antiphon.observe import Tracing
from antiphon.store import SessionLimits, Store
from antiphon.wire.dialect import OPENAI, Dialect

from .dialects import DIALECTS
from .wires import Wire

if TYPE_CHECKING:  # few servers let requests name any
    from antiphon.tools.mcp import ClientServers


class AppOptions(TypedDict, total=False):
    """The keyword arguments of `create_app`: the fields of `AppSettings`."""

    limits: Limits | None
    dialect: Dialect
    dialects: Sequence[Dialect]
    wires: Sequence[Wire]
    expose_reasoning: bool
    gather: float
    preload: bool
    keys: Iterable[Key] | None
    public_metrics: bool
    origins: Sequence[str]
    hosts: Sequence[str] | None
    tracing: Tracing | None
    store: Store | None
    session_limits: SessionLimits | None
    batches: BatchesConfig | None
    reasoning_key: bytes | None
    tools: ServerTools | None
    offer_tools: bool
    client_mcp: ClientServers | None
    shares: SharedLimits | None
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """``dialect`` is what the plain routes speak; each of ``dialects`` is spoken at its own places besides.

    ``wires`` are further APIs, with their routes. ``expose_reasoning``: clients see the model's reasoning (resolution
    X-38: only by the owner's word). ``gather``: seconds between two writes of one stream. ``preload``: the default
    model is loaded at once, and ``/health`` is 503 until then. ``keys``: who may come in; None lets everybody.
    ``public_metrics`` opens ``/metrics``; ``origins`` are the web pages that may call from a browser; ``hosts`` the
    names by which a server without keys may be called, besides this machine's (None: by any). ``tracing`` makes
    spans. ``store``: where sessions, responses and conversations are stored (None: in memory); the application closes
    it. ``batches`` bounds files and batches (None: as the configuration does by itself). ``reasoning_key``: 32 bytes
    that encrypt reasoning which clients store; servers that share it read each other's. ``tools`` run on this side,
    in requests that list them, or in all with ``offer_tools``; the caller closes them. ``client_mcp``: requests of
    the Responses API may name MCP servers of their own (None: they may not). ``shares`` is what this process has with
    others of the same server. ``clock`` gives Unix time in seconds; the system's own is not followed into a jump at
    once.
    """

    limits: Limits | None = None
    dialect: Dialect = OPENAI
    dialects: Sequence[Dialect] = DIALECTS
    wires: Sequence[Wire] = ()
    expose_reasoning: bool = False
    gather: float = ServerConfig().gather
    preload: bool = False
    keys: Iterable[Key] | None = None
    public_metrics: bool = False
    origins: Sequence[str] = ()
    hosts: Sequence[str] | None = None
    tracing: Tracing | None = None
    store: Store | None = None
    session_limits: SessionLimits | None = None
    batches: BatchesConfig | None = None
    reasoning_key: bytes | None = None
    tools: ServerTools | None = None
    offer_tools: bool = False
    client_mcp: ClientServers | None = None
    shares: SharedLimits | None = None
    clock: Callable[[], float] = time.time
