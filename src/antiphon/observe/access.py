"""One line a request: who, what, how long, how many tokens. Never content of a client or a model."""

from __future__ import annotations

import msgspec


class AccessLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Times in milliseconds from the request on. ``id`` is the client's own where it sent a sane one.

    ``route`` is a pattern ("other" where there is none), ``key`` a name, ``model`` one of the catalog, ``error`` a
    code: nothing here is text of the client's choice. ``gone``: it hung up before its answer was whole.
    """

    id: str
    method: str
    route: str
    status: int
    total_ms: float
    key: str = ""
    model: str | None = None
    error: str | None = None
    stream: bool = False
    gone: bool = False
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    queue_ms: float | None = None
    ttft_ms: float | None = None

    def __str__(self) -> str:
        """The line for people."""
        words = [f"{self.method} {self.route} {self.status}{' stream' if self.stream else ''}"]
        words += [word for word in (self.error, self.model, self.key and f"key {self.key}") if word]
        if self.prompt_tokens is not None:
            words.append(f"{self.prompt_tokens}+{self.completion_tokens or 0} tok")
        for name, ms in (("queue", self.queue_ms), ("ttft", self.ttft_ms), ("total", self.total_ms)):
            if ms is not None:
                words.append(f"{name} {ms:.0f}ms")
        return "  ".join([*words, self.id])
