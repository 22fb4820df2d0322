"""The requests of each step, so many at once."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.errors import EngineError, NotFoundError

from .client import BenchClient, Reply

WORDS = "time year people way day thing world life hand part place case week point number group".split()
"""Common words, of which each is a token in most vocabularies."""
Progress = Callable[[int, int], None]
"""Called with how many requests there are at once, and how many of this step are answered."""
AROUND = 8
"""Tokens of a prompt that are not its words: roles and controls."""


@dataclass(frozen=True, slots=True)
class Load:
    """What each request is: about ``prompt_tokens`` of a prompt that no other begins with, and a limit of the answer.

    ``full`` also makes the limit the least number of tokens, for servers that know ``min_tokens``.
    """

    model: str
    prompt_tokens: int
    output_tokens: int
    full: bool = False

    def bodies(self, seed: str) -> Iterator[Mapping[str, Any]]:
        """Bodies without end. The number at a prompt's head keeps servers from having read it already."""
        for number in itertools.count():
            words = itertools.islice(itertools.cycle(WORDS), max(1, self.prompt_tokens - AROUND))
            text = f"{seed}{number} {' '.join(words)}"
            least = {"min_tokens": self.output_tokens} if self.full else {}
            yield {
                "model": self.model,
                "messages": [{"role": "user", "content": text}],
                "max_tokens": self.output_tokens,
                **least,
                "stream": True,
                "stream_options": {"include_usage": True},
            }


async def warm_up(client: BenchClient, load: Load) -> Reply:
    """One answer that is not measured. Raises `EngineError` in words where there can be none."""
    reply = await client.chat(next(load.bodies("warm-up ")))
    match reply.error:
        case None:
            return reply
        case "unreachable":
            raise EngineError(f"nothing answers at {client.url}", code="server_unreachable", hint=reply.message)
        case "401" | "403":
            hint = "--key-variable NAME names the variable that holds a key."
            raise EngineError(f"the server refuses the key: {reply.message}", hint=hint)
        case "404":
            raise NotFoundError(f"the server answers 404: {reply.message}", hint="--model NAME, --url http://HOST:PORT")
        case kind:
            raise EngineError(f"the first request failed ({kind}): {reply.message}")


async def step(
    client: BenchClient, load: Load, concurrency: int, requests: int, progress: Progress
) -> tuple[list[Reply], float]:
    """All replies of a step, and the seconds that they took together."""
    bodies = itertools.islice(load.bodies(f"{concurrency}/"), requests)
    replies: list[Reply] = []
    progress(concurrency, 0)

    async def send() -> None:
        for body in bodies:
            replies.append(await client.chat(body))
            progress(concurrency, len(replies))

    begin = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(min(concurrency, requests))))
    return replies, time.perf_counter() - begin


async def ladder(
    client: BenchClient, load: Load, concurrencies: Sequence[int], requests: int, progress: Progress
) -> AsyncGenerator[tuple[int, list[Reply], float], None]:
    """Each step once it is over: its concurrency, replies and seconds."""
    for concurrency in concurrencies:
        replies, seconds = await step(client, load, concurrency, requests, progress)
        yield concurrency, replies, seconds
