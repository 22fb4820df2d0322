"""`antiphon serve` in front of a real vLLM, used by the official client: ``check_vllm.py [FOLDER [NAME …]]``.

vLLM gets an environment of its own in the folder (``.vllm``): made once, some gigabytes. It runs on the CPU with the
default model, which is made a Hugging Face folder there: its HTTP server, the same with the route of ids, and its gRPC
server, one after the other; before them with a small model that sees, whose answers are those of vLLM's own chats, and
which gets the images of every wire.
Then, in each format with the first and one with the others: an answer whole and streamed, a forced tool call whole and
streamed, and a strict JSON Schema; a prompt that is found in the cache, where the server says so; a client that hangs
up; and vLLM's end. A line a check goes to the screen; the exit code tells whether all passed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import grpc
import jsonschema_rs
import openai
from smg_grpc_proto.generated.vllm_engine_pb2 import GetLoadsRequest
from smg_grpc_proto.generated.vllm_engine_pb2_grpc import VllmEngineStub

from antiphon.tokens.hf import hf_tokenizer
from kit.picture_engines import check_wire, served
from kit.picture_engines import vllm as seeing_vllm
from kit.picture_wires import WIRES
from kit.pictures import data_url, picture
from kit.vllm_build import GRPC, Upstream, convert, install, seeing, vllm

HOME = Path(sys.argv[1] if len(sys.argv) > 1 else ".vllm").absolute()
FORMATS = ("chatml", "openchatml", "harmony")
"""The last two spell their controls out, as this model's vocabulary has none of them."""
ROUTES = ("/v1/completions", "/inference/v1/generate")
TRIES = 4
"""Seeds at most, until one reply ends before its limit: a small model likes to ramble first."""

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "visits": {"type": "integer", "maximum": 999}},
    "required": ["city", "visits"],
    "additionalProperties": False,
}
ASK: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
TOOLS: list[Any] = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER, "strict": True}}]
FORCED: Any = {"type": "function", "function": {"name": "weather"}}
SCHEMA: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE, "strict": True}}


SCALE_OUT = "--enable-scale-out --enable-prompt-tokens-details"
UPSTREAMS = (
    Upstream(name="completions", formats=FORMATS, path="/v1/completions", tells_cached=False),
    Upstream(name="ids", formats=FORMATS[:1], options=SCALE_OUT, path="/inference/v1/generate"),
    Upstream(name="grpc", formats=FORMATS[:1], module=GRPC, kind="grpc", ready="gRPC health service initialized"),
)


def image_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@contextmanager
def antiphon(upstream: Upstream, address: str, model: Path) -> Iterator[str]:
    """The URL of `antiphon serve`, with one model a format, all of them in that vLLM."""
    lines = [f'model = "{upstream.formats[0]}"\nembedding_model = ""\n']
    own = 'served_name = "small"' if upstream.kind == "vllm" else "share_cache = true"
    for name in upstream.formats:
        format = f'format = "{name}"' if name in FORMATS else ""
        lines += [f'[models.{name}]\ntokenizer = "{model}"\n{format}']
        # Thoughts before a constrained answer end soon, so that a small model on a slow machine comes to the point.
        lines += [f'thinking_budget = 80\n[models.{name}.engine]\nkind = "{upstream.kind}"\nurl = "{address}"\n{own}\n']
    (HOME / "config.toml").write_text("\n".join(lines))
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    log = (HOME / "antiphon.log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-c", "from antiphon.cli import main; main()", "serve", "--port", "0"],
        stdout=subprocess.PIPE, stderr=log, text=True, env={**plain, "ANTIPHON_HOME": str(HOME)},
    )  # fmt: skip
    try:
        assert server.stdout is not None
        printed = [next(server.stdout) for _ in range(5)]
        yield shlex.split("".join(printed[3:]).replace("\\\n", ""))[1].removesuffix("/v1/chat/completions")
    finally:
        server.terminate()
        server.wait(60)
        log.close()


class Checks:
    """Runs checks and prints a line of each."""

    def __init__(self) -> None:
        self.failed = 0

    def run(self, name: str, check: Callable[[], str]) -> None:
        began = time.perf_counter()
        try:
            result, state = check(), "ok"
        except Exception as error:  # noqa: BLE001 - whatever it is, the other checks go on
            result, state = f"{type(error).__name__}: {error}", "FAILED"
            self.failed += 1
        print(f"{state:<7} {name:<44} {time.perf_counter() - began:6.1f} s  {result[:110]}", flush=True)


class ClientChecks:
    """One format's checks, by the official client."""

    def __init__(self, client: openai.OpenAI, model: str) -> None:
        self._create: Any = client.chat.completions.create
        self._model = model

    def whole(self) -> str:
        choice = self._create(model=self._model, messages=ASK, max_tokens=24, temperature=0).choices[0]
        assert choice.finish_reason in ("stop", "length")
        assert choice.message.content
        return repr(choice.message.content)

    def streamed(self) -> str:
        chunks = list(self._create(
            model=self._model, messages=ASK, max_tokens=24, temperature=0, stream=True,
            stream_options={"include_usage": True},
        ))  # fmt: skip
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text
        assert chunks[-1].usage.completion_tokens > 0
        return repr(text)

    def called(self) -> str:
        def ask(seed: int) -> tuple[str, str]:
            answer = self._create(model=self._model, messages=ASK, tools=TOOLS, tool_choice=FORCED, **rambling(seed))
            (choice,) = answer.choices
            calls = choice.message.tool_calls or []
            return choice.finish_reason, calls[0].function.arguments if calls else ""

        return until_ended(ask, WEATHER)

    def called_streamed(self) -> str:
        def ask(seed: int) -> tuple[str, str]:
            answer = self._create(
                model=self._model, messages=ASK, tools=TOOLS, tool_choice=FORCED, stream=True, **rambling(seed)
            )
            choices = [chunk.choices[0] for chunk in answer if chunk.choices]
            deltas = [call.function for choice in choices for call in choice.delta.tool_calls or ()]
            return choices[-1].finish_reason, "".join(delta.arguments or "" for delta in deltas)

        return until_ended(ask, WEATHER)

    def answered(self) -> str:
        def ask(seed: int) -> tuple[str, str]:
            answer = self._create(model=self._model, messages=ASK, response_format=SCHEMA, **rambling(seed))
            return answer.choices[0].finish_reason, answer.choices[0].message.content or ""

        return until_ended(ask, PLACE)


def rambling(seed: int) -> dict[str, Any]:
    return {"temperature": 0.8, "seed": seed, "max_tokens": 240}


def until_ended(ask: Callable[[int], tuple[str, str]], schema: dict[str, Any]) -> str:
    """The first value whose reply ended by itself, which must be of the schema; those that were cut must say so."""
    for seed in range(1, TRIES + 1):
        reason, value = ask(seed)
        if reason != "length":
            jsonschema_rs.validate(schema, json.loads(value))
            return value
    raise AssertionError(f"{TRIES} replies were all cut by their limit")


def found_again(client: openai.OpenAI) -> str:
    """A prompt that was sent before costs less, and its usage says so."""
    asked: list[Any] = [{"role": "user", "content": "What is the weather in Paris, and why is it so? " * 20}]
    for _ in range(2):
        usage = client.chat.completions.create(model=FORMATS[0], messages=asked, max_tokens=1).usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    cached = usage.prompt_tokens_details.cached_tokens or 0
    assert cached > 100, usage
    return f"{cached} of {usage.prompt_tokens} tokens"


def by_its_route(address: str, path: str) -> str:
    """Every reply came by the route that it should."""
    with urlopen(f"{address}/metrics", timeout=20) as reply:
        lines = [line for line in reply.read().decode().splitlines() if line.startswith("http_requests_total{")]
    lines = [line for line in lines if '"2xx"' in line]  # Whether there is the other route was asked, too.
    counts = {path: sum(float(line.split()[-1]) for line in lines if f'"{path}"' in line) for path in ROUTES}
    assert counts.pop(path) > 0
    assert not any(counts.values()), counts
    return path


def hung_up(client: openai.OpenAI, address: str) -> str:
    """A client that goes away takes its work from vLLM."""
    stream = client.chat.completions.create(
        model=FORMATS[0], messages=ASK, max_tokens=1500, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    assert running(address) == 1
    stream.close()
    since = time.monotonic()
    while running(address):
        assert time.monotonic() - since < 20, "it works on"
        threading.Event().wait(0.1)
    return f"idle {time.monotonic() - since:.1f} s later"


def running(address: str) -> int:
    """How many requests vLLM works on."""
    if address.startswith("grpc"):
        with grpc.insecure_channel(address.removeprefix("grpc://")) as channel:
            loads = VllmEngineStub(channel).GetLoads(GetLoadsRequest(), timeout=20).loads
        return sum(load.num_running_reqs for load in loads)
    with urlopen(f"{address}/metrics", timeout=20) as reply:
        lines = reply.read().decode().splitlines()
    return round(sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running")))


def gone(client: openai.OpenAI, base: str, server: subprocess.Popen[str]) -> str:
    """Without vLLM its models are a 503, and the server lives."""
    server.terminate()
    server.wait(60)
    try:
        client.chat.completions.create(model=FORMATS[0], messages=ASK)
    except openai.InternalServerError as error:
        refusal = error
    else:
        raise AssertionError("there was an answer")
    assert refusal.status_code == 503
    with urlopen(f"{base}/livez", timeout=20) as alive:
        assert alive.status == 200
    return f"503 {refusal.message}"


def check(checks: Checks, upstream: Upstream, model: Path) -> None:
    with vllm(HOME, upstream, model) as (address, server), antiphon(upstream, address, model) as base:
        client = openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0, timeout=300)
        for name in upstream.formats:
            by_client, label = ClientChecks(client, name), f"{upstream.name}, {name}"
            checks.run(f"{label}: an answer", by_client.whole)
            checks.run(f"{label}: streamed", by_client.streamed)
            checks.run(f"{label}: a forced call", by_client.called)
            checks.run(f"{label}: a forced call, streamed", by_client.called_streamed)
            checks.run(f"{label}: a strict schema", by_client.answered)
        if upstream.tells_cached:
            checks.run(f"{upstream.name}: found in the cache", lambda: found_again(client))
        if upstream.path:
            checks.run(f"{upstream.name}: the route", lambda: by_its_route(address, upstream.path))
        checks.run(f"{upstream.name}: a client hangs up", lambda: hung_up(client, address))
        checks.run(f"{upstream.name}: vLLM ends", lambda: gone(client, base, server))


EYES = Upstream(name="eyes", formats=("eyes",), options=SCALE_OUT, path="/inference/v1/generate")
RED, BLUE = (data_url(picture(size=(64, 48), color=color)) for color in ((255, 0, 0), (0, 0, 255)))
LOOKS: dict[str, list[Any]] = {
    "no image": [{"type": "text", "text": "What?"}],
    "one": [{"type": "text", "text": "Look: "}, image_part(RED), {"type": "text", "text": " What?"}],
    "two": [image_part(RED), {"type": "text", "text": "or"}, image_part(BLUE), {"type": "text", "text": "?"}],
    "the same twice": [image_part(BLUE), image_part(BLUE)],
}


def sees_as_its_own_chat(ours: openai.OpenAI, its: openai.OpenAI, content: list[Any]) -> str:
    """What vLLM says to our ids and its features is what its own route of chats says, of as many tokens."""
    said = []
    for client, model in ((its, "small"), (ours, "eyes")):
        answer = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": content}], max_tokens=12, temperature=0,
            extra_body={"ignore_eos": True},
        )  # fmt: skip
        assert answer.usage is not None
        said.append((answer.choices[0].message.content, answer.usage.prompt_tokens))
    assert said[0] == said[1], said
    return f"{said[0][1]} tokens, {said[0][0]!r}"


def by_wire(address: str, model: Path, wire: str) -> str:
    """What comes to vLLM of a wire's images."""

    async def check() -> int:
        tokenizer = hf_tokenizer((model / "tokenizer.json").read_text("utf-8"))
        with TemporaryDirectory() as folder:
            opening = seeing_vllm(address, tokenizer, "<image>", end=2)
            async with served(opening, Path(folder)) as (far, asked):
                return await check_wire(far, asked, wire)

    return f"{asyncio.run(check())} tokens"


def check_eyes(checks: Checks) -> None:
    model = seeing(HOME)
    with vllm(HOME, EYES, model) as (address, _), antiphon(EYES, address, model) as base:
        ours, its = (openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) for url in (base, address))
        for name, content in LOOKS.items():
            checks.run(f"eyes: {name}", partial(sees_as_its_own_chat, ours, its, content))
        for wire in WIRES:
            checks.run(f"eyes: {wire}", partial(by_wire, address, model, wire))


def main() -> int:
    install(HOME)
    model = convert(HOME)
    checks, chosen = Checks(), sys.argv[2:]
    if not chosen or EYES.name in chosen:
        check_eyes(checks)
    for upstream in UPSTREAMS:
        if not chosen or upstream.name in chosen:
            check(checks, upstream, model)
    print(f"{checks.failed} failed")
    return int(checks.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
