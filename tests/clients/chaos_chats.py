"""Chat completions that can be resumed, while servers are killed: what a client is told, and whether it holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

DONE = "[DONE]"


@dataclass(slots=True)
class Chat:
    """What a client was told of one chat: the data of its events, in the order in which they came."""

    text: str
    events: list[Any] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    broke: int = 0
    """How often its connection broke in the middle."""

    @property
    def id(self) -> str:
        id: str = self.events[0]["id"]
        return id

    @property
    def over(self) -> bool:
        return bool(self.events) and self.events[-1] == DONE

    @property
    def said(self) -> str:
        chunks = [event["choices"][0]["delta"].get("content") or "" for event in self.events if event != DONE]
        return "".join(chunks)

    async def complete(self, client: aiohttp.ClientSession, url: Callable[[], str], most: int) -> None:
        """Reads the chat to its end, wherever it is to be had; ``url`` gives any server's."""
        body = {"messages": [{"role": "user", "content": self.text}], "stream": True, "max_tokens": most}
        while not self.over:
            before = len(self.events)
            with suppress(aiohttp.ClientError, TimeoutError, ConnectionError):
                if self.events:
                    request = client.get(f"{url()}/v1/streams/{self.id}", params={"starting_after": str(before - 1)})
                else:
                    headers = {"x-antiphon-resumable": "true"}
                    request = client.post(f"{url()}/v1/chat/completions", json=body, headers=headers)
                async with request as answer:
                    if answer.status == 200:
                        await self.read(answer)
                    elif answer.status != 503:
                        self.faults.append(f"{self.text}: {answer.status} {(await answer.text())[:300]}")
                        return
            self.broke += len(self.events) > before and not self.over

    async def read(self, answer: aiohttp.ClientResponse) -> None:
        """Reads on until the connection ends; an event without an id says that it does, and no more of the chat."""
        number = -1
        async for line in answer.content:
            if line.startswith(b"id: "):
                number = int(line.removeprefix(b"id: "))
            if not line.startswith(b"data: "):
                continue
            if number < 0:
                return
            if number != len(self.events):
                self.faults.append(f"{self.text}: event {number} came as number {len(self.events)}")
            data = line.removeprefix(b"data: ").strip()
            self.events.append(DONE if data == DONE.encode() else json.loads(data))
            number = -1

    async def judge(self, client: aiohttp.ClientSession, url: str, alone: str) -> list[str]:
        """What is not as it should be; ``alone`` is a server that nobody kills."""
        body = {"messages": [{"role": "user", "content": self.text}]}
        async with client.post(f"{alone}/v1/chat/completions", json=body) as answer:
            undisturbed = (await answer.json())["choices"][0]["message"]["content"]
        if self.said != undisturbed:
            self.faults.append(f"{self.text}: it says {self.said!r} and not {undisturbed!r}")
        again = Chat(self.text)
        async with client.get(f"{url}/v1/streams/{self.id}") as answer:
            await again.read(answer)
        if again.events != self.events:
            self.faults.append(f"{self.text}: another server sends other events")
        return self.faults
