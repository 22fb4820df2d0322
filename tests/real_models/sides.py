"""The two that are compared: `antiphon serve` over HTTP, and llama.cpp's own chat completions, over the same file.

Both have one slot, the same context and the same number of threads, and only one of them runs at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec

import antiphon

Json = dict[str, Any]

CHILD = Path(__file__).with_name("llama_server.py")
TYPED_TOKENS = 120
PATIENCE = 1800.0
"""Seconds for one answer: a long prompt on a busy machine."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the text, and the calls as (name, arguments). ``error`` is a refusal in its own words.

    Tokens: of the prompt, of it found in a cache (None: not told), and of the reply.
    """

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: str | None = None
    error: str | None = None
    message: Json = field(default_factory=dict)
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    completion_tokens: int = 0

    @property
    def said(self) -> tuple[str, tuple[tuple[str, str], ...], str | None, str | None]:
        """All that a caller acts on, without what differs at every request."""
        return self.text, self.calls, self.finish, self.error


def piece_of(chunk: Json) -> Iterator[str]:
    """The text that a chunk of a stream adds."""
    for choice in chunk.get("choices") or ():
        yield (choice.get("delta") or {}).get("content") or ""


class Side(Protocol):
    """One of the two. ``peer`` is llama.cpp by itself."""

    peer: bool

    def chat(self, body: Json, *, streamed: bool = False) -> Answer:
        """Chat completions."""
        ...

    def complete(self, prompt: str, tokens: int) -> Answer:
        """A raw prompt continued, at temperature 0."""
        ...

    def typed(self, ask: str, type: Any) -> object:
        """An answer of a type; None where it is none."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text."""
        ...


def read_answer(chunks: Sequence[Json]) -> Answer:
    """The answer of one whole object, or of the chunks of a stream."""
    whole = Assembly()
    for chunk in chunks:
        whole.add(chunk)
    return whole.answer()


class Assembly:
    """An answer as it grows."""

    def __init__(self) -> None:
        self._text = ""
        self._finish: str | None = None
        self._error: str | None = None
        self._calls: dict[int, Json] = {}
        self._usage: Json = {}

    def add(self, chunk: Json) -> None:
        if (error := chunk.get("error")) is not None:
            self._error = (
                f"{error.get('type', '')}: {error.get('message', error)}" if isinstance(error, dict) else error
            )
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
            said = choice.get("message") or choice.get("delta") or {}
            self._text += said.get("content") or choice.get("text") or ""
            for place, call in enumerate(said.get("tool_calls") or ()):
                self._call(call.get("index", place), call)

    def _call(self, index: int, call: Json) -> None:
        known = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = call.get("function") or {}
        known["id"] = call.get("id") or known["id"]
        known["name"] += function.get("name") or ""
        known["arguments"] += function.get("arguments") or ""

    def answer(self) -> Answer:
        calls = [self._calls[index] for index in sorted(self._calls)]
        details = self._usage.get("prompt_tokens_details") or {}
        return Answer(
            text=self._text,
            calls=tuple((call["name"], call["arguments"]) for call in calls),
            finish=self._finish,
            error=self._error,
            message=self._message(calls),
            prompt_tokens=self._usage.get("prompt_tokens", 0),
            cached_tokens=details.get("cached_tokens"),
            completion_tokens=self._usage.get("completion_tokens", 0),
        )

    def _message(self, calls: Sequence[Json]) -> Json:
        """The reply as the next request's history has it."""
        message: Json = {"role": "assistant", "content": self._text or None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["arguments"]},
                }
                for call in calls
            ]
        return message


class Library:
    """`import antiphon`, in this process: for answers of a type."""

    peer = False

    def __init__(self, model: antiphon.ChatModel) -> None:
        self._model = model

    def chat(self, body: Json, *, streamed: bool = False) -> Answer:
        raise NotImplementedError

    def complete(self, prompt: str, tokens: int) -> Answer:
        raise NotImplementedError

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise NotImplementedError

    def typed(self, ask: str, type: Any) -> object:
        return self._model.chat(ask, response=type, temperature=0, max_tokens=TYPED_TOKENS).parsed


class Ours:
    """`antiphon serve` of this working tree."""

    peer = False

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    def chat(self, body: Json, *, streamed: bool = False) -> Answer:
        if not streamed:
            return read_answer([self._post("/v1/chat/completions", body)])
        more = {"stream": True, "stream_options": {"include_usage": True}}
        return read_answer(list(self.stream({**body, **more})))

    def stream(self, body: Json) -> Iterator[Json]:
        """The chunks as they come."""
        try:
            with urlopen(self._request("/v1/chat/completions", body), timeout=PATIENCE) as answer:
                for line in answer:
                    if line.startswith(b"data: {"):
                        yield json.loads(line[6:])
        except HTTPError as refused:
            yield json.load(refused)

    def complete(self, prompt: str, tokens: int) -> Answer:
        return read_answer([self._post("/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0})])

    def typed(self, ask: str, type: Any) -> object:
        raise NotImplementedError("the library has them, not the server")

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        found = self._post("/v1/embeddings", {"input": list(texts)})
        return [row["embedding"] for row in found["data"]]

    def _post(self, path: str, body: Json) -> Json:
        try:
            with urlopen(self._request(path, body), timeout=PATIENCE) as answer:
                found: Json = json.load(answer)
        except HTTPError as refused:
            found = json.load(refused)
        return found

    def _request(self, path: str, body: Json) -> Request:
        return Request(self.url + path, json.dumps(body).encode(), {"content-type": "application/json"})


class Peer:
    """llama.cpp's server core in a process of its own, without HTTP."""

    peer = True

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self.pid = process, process.pid

    def chat(self, body: Json, *, streamed: bool = False) -> Answer:
        more = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
        return read_answer(self.ask("chat_completions", {**body, **more}))

    def complete(self, prompt: str, tokens: int) -> Answer:
        return read_answer(self.ask("completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0}))

    def typed(self, ask: str, type: Any) -> object:
        """By its JSON Schema, as a program without the library would have it."""
        form = {"type": "json_schema", "json_schema": {"name": "value", "schema": msgspec.json.schema(type)}}
        body = {"messages": [{"role": "user", "content": ask}], "response_format": form, "max_tokens": TYPED_TOKENS}
        try:
            return msgspec.json.decode(self.chat({**body, "temperature": 0}).text, type=type)
        except msgspec.MsgspecError:
            return None

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        (found,) = self.ask("embeddings", {"input": list(texts)})
        return [row["embedding"] for row in sorted(found["data"], key=lambda row: row["index"])]

    def begin(self, settings: Mapping[str, object]) -> None:
        """Loads the model."""
        self._say(settings)

    def ask(self, method: str, body: Json) -> list[Json]:
        """One call of `xllamacpp.Server`: what it gave."""
        found: list[Json] = json.loads(self._say([method, body]))
        return found

    def timed(self, body: Json) -> tuple[int, list[float]]:
        """The tokens of a streamed chat completion, and the seconds after which each piece of its text was there."""
        found = self.ask("chat_completions", body)
        (tokens,) = [chunk["usage"]["completion_tokens"] for chunk in found if chunk.get("usage")]
        return tokens, [chunk["seconds"] for chunk in found if any(piece_of(chunk))]

    def _say(self, what: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.strip():
                return line
        raise ChildProcessError("llama.cpp ended, which says on its standard error why")


@dataclass(frozen=True, slots=True)
class Machine:
    """What both get. ``context`` is in tokens; ``source``: the folder of another Antiphon than this."""

    threads: int
    context: int = 4096
    source: Path | None = None

    @property
    def environ(self) -> dict[str, str]:
        other = {"PYTHONPATH": str(self.source)} if self.source else {}
        return {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")} | other


@contextmanager
def ours(model: Path, machine: Machine, *, options: Sequence[str] = (), embeds: bool = False) -> Iterator[Ours]:
    """`antiphon serve` over the file, until the end of the context."""
    with TemporaryDirectory() as home:
        named = ["--model", str(model)] if not embeds else embedding_model(model, Path(home))
        command = [sys.executable, "-c", "from antiphon.cli import main; main()", "serve", "--port", "0", "--json"]
        command += [*named, "--no-access-log", "--threads", str(machine.threads), "--slots", "1", *options]
        if not embeds:
            command += ["--context", str(machine.context)]
        with (Path(home) / "log").open("w") as log:
            server = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env={**machine.environ, "ANTIPHON_HOME": home}
            )
            try:
                yield Ours(address(server, Path(home) / "log"), server.pid)
            finally:
                server.terminate()
                server.wait(60)


@contextmanager
def library(model: Path, machine: Machine) -> Iterator[Library]:
    """The file, opened by `antiphon.open_model`."""
    with antiphon.open_model(model, context=machine.context, threads=machine.threads, slots=1) as opened:
        yield Library(opened)


def embedding_model(model: Path, home: Path) -> list[str]:
    """The configuration of a file that makes vectors."""
    (home / "config.toml").write_text(f'model = "m"\n[models.m]\nsource = "{model}"\ntask = "embed"\n')
    return ["--config", str(home / "config.toml")]


def address(server: subprocess.Popen[str], log: Path) -> str:
    """The URL that the server prints. Raises RuntimeError with its words where it does not start."""
    assert server.stdout is not None
    printed = ""
    for line in server.stdout:
        printed += line
        if "}" in line:
            url: str = json.loads(printed)["url"]
            return url
    raise RuntimeError(f"antiphon serve did not start: {log.read_text()[-2000:]} {printed[-2000:]}")


@contextmanager
def peer(model: Path, machine: Machine, *, embeds: bool = False, as_ours: bool = False) -> Iterator[Peer]:
    """llama.cpp over the file, until the end of the context.

    ``as_ours``: it computes attention as we do on a processor, step by step. Its own way rounds otherwise, and then a
    small model's answers are others: of ten, six.
    """
    settings: Mapping[str, object] = {
        "model": str(model), "context": machine.context, "threads": machine.threads, "embeds": embeds,
        "as_ours": as_ours,
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env=machine.environ,
    )  # fmt: skip
    try:
        found = Peer(process)
        found.begin(settings)
        yield found
    finally:
        process.kill()
        process.communicate()
