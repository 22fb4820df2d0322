"""Each way by which two images of one question reach a model, by the client that the wire's own makers publish.

A wire asks ``Look: `` [image] ``or`` [image] ``What?``, where it can say so, and gives the tokens of its prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import anthropic
import ollama
import openai

from antiphon.catalog.static import StaticCatalog
from antiphon.catalog.toolbox import ToolSettings
from antiphon.cli.talking.session import Session, ToolSource, images_of, with_files
from antiphon.cli.talking.talk import Answers, ChatState, ChatTarget, answer_form
from antiphon.errors import RequestError
from antiphon.generation import Model
from antiphon.tools.mcp import NOBODY
from kit.pictures import base64_of, data_url

TEXTS = ("Look: ", " or ", " What?")
MOST = 3
Parts = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Two images, as files, with their types; and the server with the model that is to see them.

    ``urls`` are where they are fetched from; ``model`` is what a program has that uses no server.
    """

    base: str
    images: Mapping[Path, str]
    urls: Sequence[str] = ()
    model: Model | None = None

    @property
    def data(self) -> list[str]:
        return [data_url(path.read_bytes(), kind) for path, kind in self.images.items()]

    def openai(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.base}/v1", api_key="-", max_retries=0)

    def anthropic(self) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(base_url=self.base, api_key="-", max_retries=0)


Wire = Callable[[Asked], Awaitable[int]]


def between(images: Parts, text: str = "text") -> list[Any]:
    """The parts of the question; ``text`` is the type of those that are texts."""
    first, second = images
    look, other, what = ({"type": text, "text": one} for one in TEXTS)
    return [look, first, other, second, what]


# Chat.


def _chat_parts(urls: Sequence[str]) -> list[Any]:
    return between([{"type": "image_url", "image_url": {"url": url, "detail": "high"}} for url in urls])


async def _chat(asked: Asked, *messages: Any, **more: Any) -> int:
    async with asked.openai() as client:
        answer = await client.chat.completions.create(model="m", messages=messages, max_tokens=MOST, extra_body=more)
    assert answer.usage is not None
    return int(answer.usage.prompt_tokens)


async def chat(asked: Asked) -> int:
    return await _chat(asked, {"role": "user", "content": _chat_parts(asked.data)})


async def chat_streamed(asked: Asked) -> int:
    """Each event from the first on counts them."""
    async with asked.openai() as client:
        chunks = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": _chat_parts(asked.data)}], max_tokens=MOST, stream=True,
            extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        )  # fmt: skip
        counts = {chunk.usage.prompt_tokens async for chunk in chunks if chunk.usage is not None}
    (count,) = counts
    return int(count)


async def chat_address(asked: Asked) -> int:
    return await _chat(asked, {"role": "user", "content": _chat_parts(asked.urls)})


async def chat_result(asked: Asked) -> int:
    call = {"id": "c", "type": "function", "function": {"name": "see", "arguments": "{}"}}
    return await _chat(
        asked, {"role": "user", "content": "See."}, {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": _chat_parts(asked.data)},
    )  # fmt: skip


async def chat_session(asked: Asked) -> int:
    """The images are of an earlier turn, which the server keeps."""
    id = uuid4().hex
    await _chat(asked, {"role": "user", "content": _chat_parts(asked.data)}, session_id=id)
    return await _chat(asked, {"role": "user", "content": "And?"}, session_id=id)


async def interactive(asked: Asked) -> int:
    body = {"prompt": [{"role": "user", "content": _chat_parts(asked.data)}], "request_output_len": MOST}
    async with asked.openai() as client:
        answer: Any = await client.post("/chat/interactive", cast_to=object, body=body)
    return int(answer["history_tokens"] + answer["input_tokens"])


# Responses.


def _items(images: Parts) -> list[Any]:
    content = between([{"type": "input_image", "detail": "auto", **one} for one in images], "input_text")
    return [{"role": "user", "content": content}]


async def _responses(asked: Asked, client: openai.AsyncOpenAI, input: Any, **more: Any) -> tuple[str, int]:
    answer = await client.responses.create(model="m", input=input, max_output_tokens=MOST, **more)
    assert answer.usage is not None
    return answer.id, int(answer.usage.input_tokens)


async def responses(asked: Asked) -> int:
    async with asked.openai() as client:
        return (await _responses(asked, client, _items([{"image_url": url} for url in asked.data])))[1]


async def responses_address(asked: Asked) -> int:
    async with asked.openai() as client:
        return (await _responses(asked, client, _items([{"image_url": url} for url in asked.urls])))[1]


async def responses_file(asked: Asked) -> int:
    async with asked.openai() as client:
        files = [(await client.files.create(file=path, purpose="vision")).id for path in asked.images]
        return (await _responses(asked, client, _items([{"file_id": id} for id in files])))[1]


async def responses_stored(asked: Asked) -> int:
    async with asked.openai() as client:
        first, _ = await _responses(asked, client, _items([{"image_url": url} for url in asked.data]))
        return (await _responses(asked, client, "And?", previous_response_id=first))[1]


async def responses_conversation(asked: Asked) -> int:
    async with asked.openai() as client:
        made = await client.conversations.create(items=_items([{"image_url": url} for url in asked.data]))
        return (await _responses(asked, client, "And?", conversation=made.id))[1]


async def responses_result(asked: Asked) -> int:
    parts = between([{"type": "input_image", "image_url": url} for url in asked.data], "input_text")
    call = {"type": "function_call", "call_id": "c", "name": "see", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": parts}
    async with asked.openai() as client:
        return (await _responses(asked, client, [{"role": "user", "content": "See."}, call, result]))[1]


async def responses_socket(asked: Asked) -> int:
    async with asked.openai() as client, client.responses.connect() as connection:
        items = _items([{"image_url": url} for url in asked.data])
        await connection.response.create(model="m", input=items, max_output_tokens=MOST)
        async for event in connection:
            if event.type in ("response.completed", "response.incomplete"):
                assert event.response.usage is not None
                return int(event.response.usage.input_tokens)
            if event.type == "error":
                raise RequestError(event.error.message)
    raise AssertionError("the connection was closed before its response")


# Messages.


def _blocks(sources: Parts) -> list[Any]:
    return between([{"type": "image", "source": source} for source in sources])


def _base64(asked: Asked) -> list[Any]:
    return _blocks([
        {"type": "base64", "media_type": kind, "data": base64_of(path.read_bytes())}
        for path, kind in asked.images.items()
    ])  # fmt: skip


async def _messages(client: anthropic.AsyncAnthropic, *messages: Any) -> int:
    return _input((await client.beta.messages.create(model="m", max_tokens=MOST, messages=messages)).usage)


def _input(usage: Any) -> int:
    counts = usage.input_tokens, usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    assert min(counts) >= 0
    return sum(counts)


async def messages_streamed(asked: Asked) -> int:
    """Its first event counts them, and its last one."""
    content = [{"role": "user", "content": _base64(asked)}]
    async with asked.anthropic() as client:
        stream: Any = await client.messages.create(model="m", max_tokens=MOST, messages=content, stream=True)
        events = [event async for event in stream]
    first, last = (event for event in events if event.type in ("message_start", "message_delta"))
    assert _input(first.message.usage) == _input(last.usage)
    return _input(last.usage)


async def messages(asked: Asked) -> int:
    async with asked.anthropic() as client:
        return await _messages(client, {"role": "user", "content": _base64(asked)})


async def messages_address(asked: Asked) -> int:
    async with asked.anthropic() as client:
        blocks = _blocks([{"type": "url", "url": url} for url in asked.urls])
        return await _messages(client, {"role": "user", "content": blocks})


async def messages_file(asked: Asked) -> int:
    async with asked.anthropic() as client:
        files = [(await client.beta.files.upload(file=path)).id for path in asked.images]
        blocks = _blocks([{"type": "file", "file_id": id} for id in files])
        return await _messages(client, {"role": "user", "content": blocks})


async def messages_result(asked: Asked) -> int:
    call = {"type": "tool_use", "id": "c", "name": "see", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": _base64(asked)}
    async with asked.anthropic() as client:
        return await _messages(
            client, {"role": "user", "content": "See."}, {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        )  # fmt: skip


# Ollama, whose images stand before the text; and the terminal.

ALONE = ("user\n", "", "Which?")


async def ollama_chat(asked: Asked) -> int:
    message = {"role": "user", "content": ALONE[-1], "images": [path.read_bytes() for path in asked.images]}
    async with ollama.AsyncClient(asked.base) as client:
        answer = await client.chat("m", messages=[message], options={"num_predict": MOST})
    return int(answer.prompt_eval_count)


async def ollama_generate(asked: Asked) -> int:
    async with ollama.AsyncClient(asked.base) as client:
        images = [path.read_bytes() for path in asked.images]
        answer = await client.generate("m", ALONE[-1], images=images, options={"num_predict": MOST})
    return int(answer.prompt_eval_count)


async def terminal(asked: Asked) -> int:
    """What `/file` does twice, and a question."""
    assert asked.model is not None
    async with AsyncExitStack() as stack:
        source = ToolSource(ToolSettings(), NOBODY, stack)
        catalog: Any = StaticCatalog({"m": asked.model})
        state = ChatState(answers=Answers(max_tokens=MOST))
        session = Session(catalog, ChatTarget(asked.model), state, source, as_json=True)
        for path in asked.images:
            session.attach(str(path))
        question = with_files(ALONE[-1], session.files)
        _, events = await session.stream(session.state.with_question(question, images_of(session.files)))
    usage = answer_form(events).usage
    assert isinstance(usage, dict)
    return usage["prompt_tokens"]


UNSEEN = ("Responses, a conversation",)
"""Is of no model: one that sees none is told that there were images. By other wires the request is refused."""
WIRES: Mapping[str, tuple[Wire, tuple[str, ...]]] = {
    "chat, a data URL": (chat, TEXTS),
    "chat, streamed": (chat_streamed, TEXTS),
    "chat, an address": (chat_address, TEXTS),
    "chat, a tool's result": (chat_result, TEXTS),
    "chat, a session's earlier turn": (chat_session, TEXTS),
    "an interactive session": (interactive, TEXTS),
    "Responses, a data URL": (responses, TEXTS),
    "Responses, an address": (responses_address, TEXTS),
    "Responses, a file": (responses_file, TEXTS),
    "Responses, a stored turn": (responses_stored, TEXTS),
    "Responses, a conversation": (responses_conversation, TEXTS),
    "Responses, a tool's result": (responses_result, TEXTS),
    "Responses, a WebSocket": (responses_socket, TEXTS),
    "Messages, base64": (messages, TEXTS),
    "Messages, streamed": (messages_streamed, TEXTS),
    "Messages, an address": (messages_address, TEXTS),
    "Messages, a file": (messages_file, TEXTS),
    "Messages, a tool's result": (messages_result, TEXTS),
    "Ollama, chat": (ollama_chat, ALONE),
    "Ollama, generate": (ollama_generate, ALONE),
    "the terminal, `/file`": (terminal, ALONE),
}
"""The wires, each with the texts before, between and behind the images that it asks about."""
