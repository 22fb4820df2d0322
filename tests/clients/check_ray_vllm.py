"""`antiphon.ray` over a real vLLM on the CPU: ``check_ray_vllm.py [RAY [VLLM]]``.

The folders are those of `check_ray.py` (``.ray``) and `check_vllm.py` (``.vllm``), with an environment each, made once.
One vLLM with the default model answers; a cluster of one machine has all in one deployment before it, and then two
tiers. The official client, with its own retries, gets whole answers, streams and Responses, and goes on while a replica
is killed and while all are replaced. A line a check goes to the screen; the exit code tells whether all passed.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import openai

from clients import check_ray
from clients.check_ray import INGRESS, TWO, Checks, Cluster, cluster, load
from kit import vllm_build
from kit.vllm_build import Upstream, convert, vllm

VLLM = Path(sys.argv[2] if len(sys.argv) > 2 else ".vllm").absolute()
CONFIG = """
model = "small"
embedding_model = ""
[server]
without_keys = true
[limits]
turn_timeout = 120.0
[ray]
cpus = 0.5
engine_cpus = 0.5
[models.small]
tokenizer = "{model}"
format = "chatml"
[models.small.engine]
kind = "vllm"
url = "{url}"
served_name = "small"
"""
SHORT, LONG = 8, 96
"""Tokens of an answer. vLLM says some tens a second here, so a long one lasts for seconds."""
AT_ONCE = 3


class Client:
    """The official client. Every chat reply is as long as it may be, as the model is told to ignore its end."""

    def __init__(self, url: str) -> None:
        self._client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
        self.outcomes: Counter[str] = Counter()

    async def whole(self) -> bool:
        answer = await self._client.chat.completions.create(**asked(SHORT))
        assert answer.usage is not None
        return answer.usage.completion_tokens == SHORT and bool(answer.choices[0].message.content)

    async def streamed(self, tokens: int = SHORT) -> bool:
        create: Any = self._client.chat.completions.create
        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = [chunk async for chunk in await create(**asked(tokens), **options)]
        return bool(chunks[-1].usage.completion_tokens == tokens)

    async def responded(self) -> bool:
        answer = await self._client.responses.create(
            model="small", input="Count.", max_output_tokens=16, store=False, temperature=0
        )
        assert answer.usage is not None
        full = {"completed": answer.usage.output_tokens <= 16, "incomplete": answer.usage.output_tokens == 16}
        return full[str(answer.status)] and bool(answer.output_text)

    async def counted(self, work: Any) -> None:
        """Adds to the outcomes what ``work`` comes to."""
        try:
            self.outcomes["whole" if await work else "cut"] += 1
        except openai.APIError as error:
            self.outcomes[str(getattr(error, "code", None) or type(error).__name__)] += 1

    async def ask_on(self) -> None:
        while True:
            for ask in (self.whole, self.streamed, self.responded):
                await self.counted(ask())

    def all_whole(self) -> str:
        assert set(self.outcomes) == {"whole"}, dict(self.outcomes)
        return f"{self.outcomes['whole']} whole answers"


def asked(tokens: int) -> Any:
    more = {"ignore_eos": True}
    messages = [{"role": "user", "content": "Count."}]
    return {"model": "small", "messages": messages, "max_tokens": tokens, "temperature": 0, "extra_body": more}


async def answers(one: Cluster) -> str:
    """Whole, streamed and by Responses, each as many tokens as it was to have."""
    client = Client(one.url)
    for ask in (client.whole, client.streamed, client.responded):
        await client.counted(ask())
    return client.all_whole()


async def scaled(one: Cluster, application: str) -> str:
    """From one replica to two and back, while clients go on."""
    client = Client(one.url)
    async with load(client, AT_ONCE):
        for count in (2, 1):
            await one.deploy(application, ray__replicas=count, ray__engine_replicas=count)
            await one.until(INGRESS, count, seconds=180)
    return f"1 → 2 → 1 replicas, {client.all_whole()}"


async def killed(one: Cluster, application: str, deployment: str, allowed: str) -> str:
    """A replica dies in mid-stream: its streams end as ``allowed``, those of others and new requests are whole."""
    await one.deploy(application, **TWO)
    await one.until(deployment, 2, seconds=180)
    long, after = Client(one.url), Client(one.url)
    streams = [asyncio.ensure_future(long.counted(long.streamed(LONG))) for _ in range(2 * AT_ONCE)]
    await asyncio.sleep(1.5)
    await one.ask("kill", deployment)
    for _ in range(3):
        await after.counted(after.whole())
        await after.counted(after.streamed())
    await asyncio.gather(*streams)
    await one.until(deployment, 2, seconds=180)
    assert set(long.outcomes) == {"whole", allowed}, dict(long.outcomes)
    return f"streams {dict(long.outcomes)}; meanwhile {after.all_whole()}"


async def restarted(one: Cluster, application: str) -> str:
    """A rolling restart: streams that run and requests that come are whole."""
    await one.deploy(application, **TWO)
    long, client = Client(one.url), Client(one.url)
    streams = [asyncio.ensure_future(long.counted(long.streamed(LONG))) for _ in range(2)]
    await asyncio.sleep(0.5)
    async with load(client, AT_ONCE):
        await one.deploy(application, **TWO, server__gather=0.02)
        await asyncio.gather(*streams)
    return f"{long.all_whole()} of {LONG} tokens, {client.all_whole()} meanwhile"


async def check_all(one: Cluster) -> int:
    checks = Checks("")
    tiers = (("app", INGRESS, "APIConnectionError"), ("two_tier", "engine-small", "engine_lost"))
    for application, fragile, end in tiers:
        await one.deploy(application)
        await checks.run(f"{application}: answers", partial(answers, one))
        await checks.run(f"{application}: more replicas and fewer", partial(scaled, one, application))
        await checks.run(f"{application}: a replica is killed", partial(killed, one, application, fragile, end))
        await checks.run(f"{application}: rolling restart", partial(restarted, one, application))
    print(f"{checks.failed} failed")
    return int(checks.failed > 0)


def main() -> int:
    check_ray.install()
    vllm_build.install(VLLM)
    model = convert(VLLM)
    upstream = Upstream(name="ray", formats=("chatml",))
    with vllm(VLLM, upstream, model) as (url, _):
        (check_ray.HOME / "config.toml").write_text(CONFIG.format(model=model, url=url))
        with cluster() as one:
            return asyncio.run(check_all(one))


if __name__ == "__main__":
    sys.exit(main())
