"""One conversation, whichever API it comes through: the same prompt ids, and the same answer, streamed and whole."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Conversation, End, Intent, Message, Role
from antiphon.formats.openchatml import read, write
from antiphon.generation import Model
from kit.api import CHATML, END, TOKENIZER, Got, app, exchange, exchange_bytes, ids, scripted
from kit.messages import THINKING
from kit.responses import FINAL, HARMONY, VOCABULARY, harmony_ids

TEXTS = st.text(alphabet=st.sampled_from('ab \n{}"é漢🜂<|>/'), min_size=1, max_size=12).filter(str.strip)
ARGUMENTS = st.dictionaries(st.sampled_from("xyz"), TEXTS, max_size=2)


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a round, and what it gave."""

    id: str
    name: str
    arguments: dict[str, str]
    result: str

    @property
    def spelled(self) -> str:
        return spelled(self.arguments)


@dataclass(frozen=True, slots=True)
class Round:
    """What a user asked, what was thought of it where an API says so, and what was answered, by calls or by a text."""

    question: str
    answer: str
    calls: tuple[Called, ...] = ()
    thought: str | None = None


@dataclass(frozen=True, slots=True)
class Talk:
    system: str | None
    rounds: tuple[Round, ...]
    question: str


def spelled(value: object) -> str:
    """JSON as each API sends it on: as the client wrote it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@st.composite
def talks(draw: st.DrawFn, *, calls: bool, thoughts: bool = False) -> Talk:
    rounds = []
    for i in range(draw(st.integers(0, 3))):
        called = tuple(
            Called(f"call_{i}_{j}", draw(st.sampled_from(["look", "find"])), draw(ARGUMENTS), draw(TEXTS))
            for j in range(draw(st.integers(0, 2)) if calls else 0)
        )
        thought = draw(st.none() | TEXTS) if thoughts else None
        answer = draw(st.just("") | TEXTS if thoughts and called else TEXTS)
        rounds.append(Round(draw(TEXTS), answer, called, thought))
    return Talk(draw(st.none() | TEXTS), tuple(rounds), draw(TEXTS))


def parts(text: str) -> list[dict[str, Any]]:
    """A text in two parts, where an API has them."""
    return [{"type": "text", "text": one} for one in (text[:2], text[2:]) if one]


# -- each API's own words ---------------------------------------------------------------------------------------------


def chat_messages(talk: Talk) -> Iterator[dict[str, Any]]:
    if talk.system is not None:
        yield {"role": "system", "content": talk.system}
    for round in talk.rounds:
        yield {"role": "user", "content": parts(round.question)}
        calls = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.spelled}}
            for one in round.calls
        ]
        thought = {"reasoning": round.thought} if round.thought else {}
        yield {"role": "assistant", "content": round.answer, **thought, **({"tool_calls": calls} if calls else {})}
        yield from ({"role": "tool", "tool_call_id": one.id, "content": parts(one.result)} for one in round.calls)
    yield {"role": "user", "content": parts(talk.question)}


def response_items(talk: Talk) -> Iterator[dict[str, Any]]:
    if talk.system is not None:
        yield {"role": "system", "content": talk.system}
    for round in talk.rounds:
        yield {"role": "user", "content": round.question}
        yield {"role": "assistant", "content": round.answer}
        for one in round.calls:
            yield {"type": "function_call", "call_id": one.id, "name": one.name, "arguments": one.spelled}
        for one in round.calls:
            yield {"type": "function_call_output", "call_id": one.id, "output": one.result}
    yield {"role": "user", "content": talk.question}


def blocks(talk: Talk) -> Iterator[dict[str, Any]]:
    for round in talk.rounds:
        yield {"role": "user", "content": parts(round.question)}
        calls = [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in round.calls]
        thought = [{"type": "thinking", "thinking": round.thought, "signature": "another's"}] if round.thought else []
        yield {"role": "assistant", "content": [*thought, {"type": "text", "text": round.answer}, *calls]}
        if round.calls:
            results = [(one.id, parts(one.result)) for one in round.calls]
            content = [{"type": "tool_result", "tool_use_id": id, "content": result} for id, result in results]
            yield {"role": "user", "content": content}
    yield {"role": "user", "content": parts(talk.question)}


def ollama_messages(talk: Talk) -> Iterator[dict[str, Any]]:
    for message in chat_messages(talk):
        content = message["content"]
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        functions = [one["function"] for one in message.get("tool_calls", ())]
        objects = [{"function": {**one, "arguments": json.loads(one["arguments"])}} for one in functions]
        yield {
            "role": message["role"], "content": text, "thinking": message.get("reasoning"),
            "tool_calls": objects or None,
        }  # fmt: skip


def frames(talk: Talk) -> Iterator[Message]:
    if talk.system is not None:
        yield Message(role=Role.SYSTEM, text=talk.system)
    for round in talk.rounds:
        yield Message(role=Role.USER, text=round.question)
        if not round.calls:
            yield Message(role=Role.ASSISTANT, text=round.answer, channel="final", end=End.RETURN)
            continue
        yield Message(role=Role.ASSISTANT, text=round.answer, channel="commentary", intent=Intent.PREAMBLE)
        for one in round.calls:
            yield Message(
                role=Role.ASSISTANT, text=one.spelled, recipient=f"functions.{one.name}", channel="commentary",
                content_type="json", constrained=True, call_id=one.id, end=End.CALL,
            )  # fmt: skip
        for one in round.calls:
            yield Message(
                role=Role.TOOL, text=one.result, name=f"functions.{one.name}", recipient="assistant",
                channel="commentary", call_id=one.id,
            )  # fmt: skip
    yield Message(role=Role.USER, text=talk.question)


# -- what each API answers --------------------------------------------------------------------------------------------

Ask = Callable[[Starlette, Talk, bool], Awaitable[str]]
"""Sends a conversation; the text that was answered."""


def lines(got: Got) -> list[Any]:
    return [json.loads(line) for line in got.body.splitlines() if line.strip()]


def sent(got: Got) -> list[Any]:
    """The data of server-sent events, named or not."""
    data = (line.removeprefix("data: ") for line in got.body.decode().splitlines() if line.startswith("data: "))
    return [json.loads(one) for one in data if one != "[DONE]"]


async def body(application: Starlette, path: str, fields: dict[str, Any]) -> Got:
    got = await exchange_bytes(application, path, spelled(fields).encode(), [])
    assert got.status == 200, got.body
    return got


async def chat(application: Starlette, talk: Talk, stream: bool) -> str:
    got = await body(application, "/v1/chat/completions", {"messages": [*chat_messages(talk)], "stream": stream})
    if not stream:
        return str(got.json["choices"][0]["message"]["content"])
    return "".join(choice["delta"].get("content", "") for event in sent(got) for choice in event["choices"])


async def responses(application: Starlette, talk: Talk, stream: bool) -> str:
    got = await body(application, "/v1/responses", {"input": [*response_items(talk)], "stream": stream})
    if not stream:
        (message,) = got.json["output"]
        return "".join(part["text"] for part in message["content"])
    return "".join(event["delta"] for event in sent(got) if event["type"] == "response.output_text.delta")


async def messages(application: Starlette, talk: Talk, stream: bool) -> str:
    system = {} if talk.system is None else {"system": talk.system}
    fields = {"model": "small", "max_tokens": 100, "messages": [*blocks(talk)], "stream": stream, **system}
    fields["thinking"] = THINKING
    got = await body(application, "/v1/messages", fields)
    if not stream:
        return "".join(block["text"] for block in got.json["content"])
    return "".join(event["delta"]["text"] for event in sent(got) if event["type"] == "content_block_delta")


async def ollama(application: Starlette, talk: Talk, stream: bool) -> str:
    got = await body(
        application, "/api/chat", {"model": "small", "messages": [*ollama_messages(talk)], "stream": stream}
    )
    return "".join(line["message"]["content"] for line in lines(got))


async def transcript(application: Starlette, talk: Talk, stream: bool) -> str:
    text = write(Conversation(tuple(frames(talk))))
    path = f"/v1/openchatml{'?stream=true' if stream else ''}"
    path, _, query = path.partition("?")
    got = await exchange_bytes(application, path, text.encode(), [], query=query.encode())
    assert got.status == 200, got.body
    if not stream:
        return read(got.body).messages[-1].text
    return "".join(event["delta"] for event in sent(got) if event["type"] == "response.delta")


APIS: Sequence[Ask] = (chat, responses, messages, ollama, transcript)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@settings(max_examples=20, deadline=None)
@given(talk=talks(calls=True))
async def test_the_prompt_and_the_answer_are_the_same_through_every_api(stream: bool, talk: Talk) -> None:
    engine = scripted(ids("Yes, <|end|> é漢.", END))
    application = app(engine)
    answers = [await ask(application, talk, stream) for ask in APIS]
    assert answers == ["Yes, <|end|> é漢."] * len(APIS)
    first, *others = [request[0] for request in engine.requests]
    assert others == [first] * (len(APIS) - 1)


@pytest.mark.parametrize("harmony", [False, True])
@settings(max_examples=20, deadline=None)
@given(talk=talks(calls=True, thoughts=True))
async def test_what_was_thought_is_in_one_prompt_through_every_api_that_has_it(harmony: bool, talk: Talk) -> None:
    reply = harmony_ids(*FINAL) if harmony else ids("Yes.", END)
    engine = scripted(reply, context=100_000)
    format, tokenizer = (HARMONY, VOCABULARY) if harmony else (CHATML, TOKENIZER)
    model = Model(name="small", engine=engine, tokenizer=tokenizer, format=format)
    application = create_app(StaticCatalog({"small": model}))
    for ask in (chat, messages, ollama):
        await ask(application, talk, False)
    first, *others = [request[0] for request in engine.requests]
    assert others == [first] * 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@settings(max_examples=15, deadline=None)
@given(talk=talks(calls=False))
async def test_a_session_that_gets_each_turn_alone_has_the_same_prompt(stream: bool, talk: Talk) -> None:
    answers = iter([*(round.answer for round in talk.rounds), "Yes."])
    engine = scripted(lambda prompt, sampling, choice: ids(next(answers), END))
    application, system = app(engine), [] if talk.system is None else [{"role": "system", "content": talk.system}]
    for question in (*(round.question for round in talk.rounds), talk.question):
        prompt = [*system, {"role": "user", "content": question}]
        fields = {"session_id": "s", "interactive_mode": True, "prompt": prompt, "stream": stream}
        got = await exchange(application, "/v1/chat/interactive", fields, [])
        system = []
    assert "".join(line["text"] for line in lines(got)) == "Yes."
    answers = iter(["Yes."])
    await chat(application, talk, stream)
    assert engine.requests[-1][0] == engine.requests[-2][0]
