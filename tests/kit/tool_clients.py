"""A tool loop as the client of each wire goes through it: its next turn is what it got, and the results of calls."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from starlette.types import ASGIApp

from antiphon.formats.openchatml import read
from kit.api import Got, exchange, exchange_bytes
from kit.batches import jsonl, run
from kit.batches import outcome as outcome_of

PARAMETERS = {"type": "object", "properties": {"in": {"type": "string"}}}
FUNCTION = {"name": "find", "parameters": PARAMETERS}
FOUND = "the thing"
Json = dict[str, Any]
Send = Callable[[ASGIApp, str, Mapping[str, Any]], Awaitable[Any]]
"""Sends a body, and gives the JSON of the answer."""


async def send(application: ASGIApp, path: str, body: Mapping[str, Any]) -> Any:
    got = await exchange(application, path, body, [])
    assert got.status == 200, got.body
    return got.json


async def send_in_batch(application: ASGIApp, path: str, body: Mapping[str, Any]) -> Any:
    """The same as the one line of a batch."""
    line = {"custom_id": "one", "method": "POST", "url": path, "body": {"model": "small", **body}}
    (made,) = (await outcome_of(application, await run(application, jsonl([line]), endpoint=path))).values()
    assert made["response"]["status_code"] == 200, made
    return made["response"]["body"]


def with_last(text: str, found: str) -> str:
    """The text with something else in the last place of what was found."""
    return found.join(text.rsplit(FOUND, 1))


class Client:
    """A client with its side of a conversation; ``fields`` are those of its requests."""

    def __init__(self, question: str = "in the end?", send: Send = send, **fields: Any) -> None:
        self.question, self.send, self.fields = question, send, fields
        self.messages: list[Json] = [{"role": "user", "content": question}]

    def forked(self, *, found: str = FOUND) -> Self:
        """Another that goes on from here; with something else ``found`` by its last call."""
        other = copy.copy(self)
        other.messages = json.loads(with_last(json.dumps(self.messages), found))
        return other

    @property
    def body(self) -> Json:
        """The next request."""
        return {"messages": self.messages, "tools": [{"type": "function", "function": FUNCTION}], **self.fields}

    async def turn(self, application: ASGIApp) -> None:
        raise NotImplementedError

    def results(self, calls: list[Json]) -> list[Json]:
        return [{"role": "tool", "tool_call_id": call["id"], "content": FOUND} for call in calls]


class Chat(Client):
    async def turn(self, application: ASGIApp) -> None:
        self.take(await self.send(application, "/v1/chat/completions", self.body))

    def take(self, answer: Json, choice: int = 0) -> None:
        said = {name: value for name, value in answer["choices"][choice]["message"].items() if value is not None}
        self.messages += [said, *self.results(said.get("tool_calls", []))]


class Session(Client):
    """A client whose history the server has."""

    names = itertools.count()

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(*given, **fields)
        self.fields = {"session_id": f"s{next(self.names)}", **self.fields}

    async def turn(self, application: ASGIApp) -> None:
        answer = await self.send(application, "/v1/chat/completions", self.body)
        self.messages = self.results(answer["choices"][0]["message"].get("tool_calls", []))


class Items(Client):
    """Responses, all of whose items are sent again."""

    @property
    def body(self) -> Json:
        return {"input": self.messages, "tools": [{"type": "function", **FUNCTION}], **self.fields}

    async def turn(self, application: ASGIApp) -> None:
        answer = await self.send(application, "/v1/responses", self.body)
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        results = [{"type": "function_call_output", "call_id": call["call_id"], "output": FOUND} for call in calls]
        self.go_on(answer, results)

    def go_on(self, answer: Json, results: list[Json]) -> None:
        self.messages += [*answer["output"], *results]


class ById(Items):
    def go_on(self, answer: Json, results: list[Json]) -> None:
        self.messages, self.fields = results, {**self.fields, "previous_response_id": answer["id"]}


class Conversation(Items):
    async def turn(self, application: ASGIApp) -> None:
        if "conversation" not in self.fields:
            made = await self.send(application, "/v1/conversations", {})
            self.fields = {**self.fields, "conversation": made["id"]}
        await super().turn(application)

    def go_on(self, answer: Json, results: list[Json]) -> None:
        self.messages = results


class Messages(Client):
    async def turn(self, application: ASGIApp) -> None:
        tools = [{"name": "find", "input_schema": PARAMETERS}]
        body = {"model": "small", "max_tokens": 1000, "messages": self.messages, "tools": tools, **self.fields}
        answer = await self.send(application, "/v1/messages", body)
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": FOUND} for call in calls]
        self.messages += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": results}]


class Ollama(Client):
    async def turn(self, application: ASGIApp) -> None:
        body = {**self.body, "model": "small", "stream": False}
        said = (await self.send(application, "/api/chat", body))["message"]
        self.messages += [said, *({"role": "tool", "tool_name": "find", "content": FOUND} for _ in said["tool_calls"])]


class Interactive(Client):
    """A client without tools, whose questions are all that it sends."""

    async def turn(self, application: ASGIApp) -> None:
        body = {"prompt": self.question, "session_id": 7, "interactive_mode": True, **self.fields}
        await self.send(application, "/v1/chat/interactive", body)


class Transcript(Client):
    """OpenChatML, whose transcript comes back with the answer."""

    def __init__(self, question: str = "in the end?", **fields: Any) -> None:
        super().__init__(question, **fields)
        tools = f"<|start|>developer<|message|># Tools\n\n## functions\n{json.dumps(FUNCTION)}<|end|>\n"
        self.text: str = f'version: "2.2"\n{tools}<|start|>user<|message|>{question}<|end|>\n'

    def forked(self, *, found: str = FOUND) -> Self:
        other = copy.copy(self)
        other.text = with_last(self.text, found)
        return other

    async def turn(self, application: ASGIApp) -> None:
        got: Got = await exchange_bytes(
            application, "/v1/openchatml", self.text.encode(), [], content_type="text/plain"
        )
        assert got.status == 200, got.body
        self.text = got.body.decode()
        messages = read(self.text).messages
        answered = {message.call_id for message in messages if message.role == "tool"}
        (call,) = [message for message in messages if message.is_call and message.call_id not in answered]
        head = f"<|start|>tool name={call.recipient} call_id={call.call_id} to=assistant"
        self.text += f"{head}<|message|>{FOUND}<|end|>\n"


CLIENTS: dict[str, Callable[[], Client]] = {
    "chat": Chat,
    "chat with ids": lambda: Chat(return_token_ids=True),
    "a session": Session,
    "items": Items,
    "items with ids": lambda: Items(return_token_ids=True),
    "previous_response_id": ById,
    "a conversation": Conversation,
    "messages": Messages,
    "ollama": Ollama,
    "interactive": Interactive,
    "openchatml": Transcript,
    "chats of batches": lambda: Chat(send=send_in_batch),
    "responses of batches": lambda: Items(send=send_in_batch),
}
