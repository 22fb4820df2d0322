"""The default model behind the API: the whole way from a client's JSON to sampled tokens and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.tokens import gguf_tokenizer
from kit.api import serving, wire_bytes
from kit.waiting import until, until_idle

pytestmark = pytest.mark.asyncio(loop_scope="module")
FRANCE: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(smollm2_path: Path) -> AsyncIterator[LlamaCppEngine]:
    settings = LlamaCppSettings(model=smollm2_path, context=512, slots=4, threads=1, cache_mib=64)
    engine = await LlamaCppEngine.start(settings)
    yield engine
    await engine.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(engine: LlamaCppEngine, smollm2_path: Path) -> AsyncIterator[tuple[Starlette, int]]:
    tokenizer = gguf_tokenizer(read_gguf_metadata(smollm2_path))
    format = template_format("chatml", tokenizer.controls.keys())
    model = Model(name="smollm2", engine=engine, tokenizer=tokenizer, format=format)
    application = create_app(StaticCatalog({"smollm2": model}))
    async with serving(application) as port:
        yield application, port


@pytest_asyncio.fixture(loop_scope="module")
async def client(engine: LlamaCppEngine, served: tuple[Starlette, int]) -> AsyncIterator[openai.AsyncOpenAI]:
    """Of an engine at rest: a slot is given back shortly after the end of the reply that the test before has read."""
    await until_idle(engine)
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{served[1]}/v1", api_key="x", max_retries=0) as client:
        yield client


async def test_greedy_it_knows_the_capital_of_france(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="smollm2", messages=FRANCE, temperature=0, max_tokens=40)
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"


async def test_raw_it_goes_on_with_a_text(client: openai.AsyncOpenAI) -> None:
    prompt = "The capital of France is"
    request: dict[str, Any] = {"model": "smollm2", "prompt": [prompt, "2, 4, 6,"], "temperature": 0, "max_tokens": 8}
    whole = await client.completions.create(**request, logprobs=2)
    assert "Paris" in whole.choices[0].text
    assert " 8" in whole.choices[1].text
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert "".join(logprobs.tokens) == whole.choices[0].text
    texts = ["", ""]
    async for chunk in await client.completions.create(**request, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in whole.choices]
    assert "Paris" in (await client.completions.create(**request, best_of=2)).choices[0].text


async def test_its_layer_renders_samples_and_parses_as_one_chat_does(client: openai.AsyncOpenAI) -> None:
    rendered = await client.post("/render", cast_to=dict[str, Any], body={"messages": FRANCE})
    request: dict[str, Any] = {"model": "smollm2", "temperature": 0, "max_tokens": 40}
    raw = await client.completions.create(prompt=rendered["ids"], **request)
    parsed = await client.post("/parse", cast_to=dict[str, Any], body={"text": raw.choices[0].text})
    answer = await client.chat.completions.create(messages=FRANCE, **request)
    assert parsed["message"]["content"] == answer.choices[0].message.content


async def test_with_a_seed_streamed_and_whole_answers_are_the_same(client: openai.AsyncOpenAI) -> None:
    request: dict[str, Any] = {
        "model": "smollm2", "messages": FRANCE, "seed": 7, "temperature": 0.8, "max_tokens": 24, "n": 2,
        "logprobs": True, "top_logprobs": 2, "stop": ["\n\n"],
    }  # fmt: skip
    # Where one of them finds the prompt in its slots and the other does not, the engine rounds otherwise: once more.
    for _ in range(10):
        whole = await client.chat.completions.create(**request)
        texts, finished, usage = await streamed(client, **request)
        if usage.prompt_tokens_details == whole.usage.prompt_tokens_details:
            break
    assert usage == whole.usage
    assert texts == [choice.message.content for choice in whole.choices]
    assert finished == [choice.finish_reason for choice in whole.choices]
    logprobs = whole.choices[0].logprobs
    assert "".join(entry.token for entry in logprobs.content) == texts[0]


async def streamed(client: openai.AsyncOpenAI, **fields: Any) -> tuple[list[str], list[str], Any]:
    """The texts, the finish reasons and the usage of two choices."""
    texts, finished, usage = ["", ""], [""] * 2, None
    async for chunk in await client.chat.completions.create(
        **fields, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            finished[choice.index] = choice.finish_reason or ""
    return texts, finished, usage


async def test_clients_that_hang_up_leave_no_busy_slot(engine: LlamaCppEngine, served: tuple[Starlette, int]) -> None:
    application, port = served
    fields = {"messages": FRANCE, "stream": True, "ignore_eos": True, "max_tokens": 400}

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(wire_bytes("/v1/chat/completions", fields))
        await reader.readuntil(b'"content":"')
        writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(20)))
    await until(lambda: application.state.context.admission.running == 0)
    await until_idle(engine)
