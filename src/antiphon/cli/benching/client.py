"""One streamed chat completion of any OpenAI-compatible server, and when each part of it came."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import aiohttp
import msgspec

from antiphon.engines.http import event_values

TEXTS = ("content", "reasoning_content", "reasoning", "tool_calls")
"""Fields of a delta that hold what a model wrote."""
MOST_SHOWN = 200
"""Characters of a server's words that are shown."""


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Choice(msgspec.Struct, frozen=True):
    delta: dict[str, Any] = {}


class Chunk(msgspec.Struct, frozen=True):
    """An event of the stream; ``error`` where the server ends it with one."""

    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    error: Any = None

    @property
    def has_text(self) -> bool:
        return any(choice.delta.get(name) for choice in self.choices for name in TEXTS)


class ModelCard(msgspec.Struct, frozen=True):
    id: str


class ModelList(msgspec.Struct, frozen=True):
    data: tuple[ModelCard, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a request: the time of each part with text, or the ``error``, under a short name of its kind.

    Times are seconds of `time.perf_counter`. ``usage`` None: the server did not count tokens.
    """

    sent: float
    times: tuple[float, ...] = ()
    usage: Usage | None = None
    error: str | None = None
    message: str = ""

    @property
    def tokens(self) -> int:
        """Tokens by the server's count; without one each part counts as one."""
        return self.usage.completion_tokens if self.usage and self.usage.completion_tokens else len(self.times)

    @property
    def first(self) -> float:
        """Seconds to the first part."""
        return self.times[0] - self.sent

    @property
    def gaps(self) -> list[float]:
        """Seconds a token between parts: a part of several tokens took as long as all of them."""
        if len(self.times) < 2:
            return []
        per_part = max(1.0, (self.tokens - 1) / (len(self.times) - 1))
        return [(after - before) / per_part for before, after in zip(self.times, self.times[1:], strict=False)]


@dataclass(slots=True)
class BenchClient:
    """Sends chat completions to one server; ``timeout`` is in seconds, for a whole request."""

    url: str
    key: str = ""
    timeout: float = 300.0
    _session: aiohttp.ClientSession = field(init=False)

    async def __aenter__(self) -> BenchClient:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=self.timeout)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def models(self) -> list[str]:
        """The names of the server's models; none where it does not say."""
        async with self._session.get(f"{self.url}/v1/models") as answer:
            if answer.status != 200:
                return []
            try:
                return [card.id for card in msgspec.json.decode(await answer.read(), type=ModelList).data]
            except msgspec.MsgspecError:
                return []

    async def chat(self, body: Mapping[str, Any]) -> Reply:
        """One request; what goes wrong is in the reply."""
        sent = time.perf_counter()
        try:
            return await self._streamed(body, sent)
        except TimeoutError:
            return Reply(sent, error="timeout", message=f"no whole answer in {self.timeout:g} s")
        except (aiohttp.ClientConnectorError, ConnectionRefusedError) as error:
            return Reply(sent, error="unreachable", message=str(error))
        except (aiohttp.ClientError, OSError) as error:
            return Reply(sent, error="connection lost", message=str(error) or type(error).__name__)
        except msgspec.MsgspecError as error:
            return Reply(sent, error="no event stream", message=str(error))

    async def _streamed(self, body: Mapping[str, Any], sent: float) -> Reply:
        times, usage = [], None
        content = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"}
        async with self._session.post(f"{self.url}/v1/chat/completions", data=content, headers=headers) as answer:
            if answer.status != 200:
                return Reply(sent, error=str(answer.status), message=words_of(await answer.read(), answer.headers))
            async with aclosing(event_values(answer.content.iter_any())) as events:
                async for value in events:
                    chunk = msgspec.json.decode(value, type=Chunk)
                    if chunk.error is not None:
                        return Reply(sent, error="broken off", message=str(chunk.error)[:MOST_SHOWN])
                    if chunk.has_text:
                        times.append(time.perf_counter())
                    usage = chunk.usage or usage
        return (
            Reply(sent, tuple(times), usage) if times else Reply(sent, error="empty", message="an answer without text")
        )


def words_of(body: bytes, headers: Mapping[str, str]) -> str:
    """The message of an error's body, and when to try again."""
    try:
        found = msgspec.json.decode(body)
        found = found.get("error", found)
        words = found["message"] if isinstance(found, dict) else str(found)
    except (msgspec.MsgspecError, AttributeError, KeyError):
        words = body.decode("utf-8", "replace")
    later = f" (Retry-After: {headers['Retry-After']})" if "Retry-After" in headers else ""
    return f"{words[:MOST_SHOWN]}{later}"
