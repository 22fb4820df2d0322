"""A turn with three calls, by every API that brings its history back: the model sees why it called until it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import openai
import pytest

from antiphon.engines import ScriptedEngine
from antiphon.library.opening import open_model
from kit.api import post_in_process, running
from kit.tool_loops import (
    ANSWER,
    CHAT_TOOL,
    CITIES,
    QUESTION,
    REPLIES,
    THANKS,
    TOOL,
    call,
    check_loop,
    oss,
    oss_app,
    plays,
    prompts,
    spelled,
    thinking,
    thought,
)

Loop = Callable[[openai.OpenAI], None]


@pytest.fixture
def engine() -> ScriptedEngine:
    return plays(*REPLIES)


@pytest.fixture
def client(engine: ScriptedEngine) -> Iterator[openai.OpenAI]:
    with running(oss_app(engine)) as base, openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        yield client


def chat(client: openai.OpenAI, *, streamed: bool, **options: Any) -> None:
    """The loop of every chat client: the message as it came, then the results."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]

    def message() -> Any:
        fields: Any = {"model": "oss", "messages": messages, "tools": [CHAT_TOOL], **options}
        if not streamed:
            return client.chat.completions.create(**fields).choices[0].message
        with client.chat.completions.stream(**fields) as stream:
            return stream.get_final_completion().choices[0].message

    while calls := (answer := message()).tool_calls:
        assert "SECRET" not in answer.model_dump_json()
        messages.append(answer.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "dry"} for call in calls]
    assert answer.content == ANSWER
    messages += [answer, {"role": "user", "content": THANKS}]
    message()


def session(client: openai.OpenAI) -> None:
    new: list[Any] = [{"role": "user", "content": QUESTION}]

    def message(new: list[Any]) -> Any:
        more = {"session_id": "s1"}
        completion = client.chat.completions.create(model="oss", messages=new, tools=[CHAT_TOOL], extra_body=more)
        return completion.choices[0].message

    while calls := (answer := message(new)).tool_calls:
        new = [{"role": "tool", "tool_call_id": call.id, "content": "dry"} for call in calls]
    assert answer.content == ANSWER
    message([{"role": "user", "content": THANKS}])


def outputs(response: Any) -> list[Any]:
    calls = [item for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": call.call_id, "output": "dry"} for call in calls]


def items(client: openai.OpenAI, brought: Callable[[Any], list[Any]], **options: Any) -> None:
    """A client that sends all items again, those of the model as ``brought`` makes them."""
    input: list[Any] = [{"role": "user", "content": QUESTION}]

    def response() -> Any:
        return client.responses.create(model="oss", input=input, tools=[TOOL], **options)

    while results := outputs(answer := response()):
        assert "SECRET" not in answer.model_dump_json()
        input += [*brought(answer), *results]
    assert answer.output_text == ANSWER
    input += [*brought(answer), {"role": "user", "content": THANKS}]
    response()


def continued(client: openai.OpenAI, *, of: Callable[[Any], Mapping[str, Any]], **first: Any) -> None:
    """A client that sends only what is new; ``of`` says what it goes on with."""
    answer = client.responses.create(model="oss", input=QUESTION, tools=[TOOL], **first)
    while results := outputs(answer):
        answer = client.responses.create(model="oss", input=results, tools=[TOOL], **of(answer))
    assert answer.output_text == ANSWER
    client.responses.create(model="oss", input=THANKS, tools=[TOOL], **of(answer))


def conversation(client: openai.OpenAI) -> None:
    id = client.conversations.create().id
    continued(client, of=lambda answer: {"conversation": id}, conversation=id)


LOOPS: dict[str, Loop] = {
    "chat": lambda client: chat(client, streamed=False),
    "chat, streamed": lambda client: chat(client, streamed=True),
    "chat, stored": lambda client: chat(client, streamed=False, store=True),
    "a session": session,
    "items echoed": lambda client: items(client, lambda answer: list(answer.output)),
    "items echoed as JSON": lambda client: items(
        client, lambda answer: [item.model_dump(exclude_none=True) for item in answer.output]
    ),
    "item_reference": lambda client: items(
        client, lambda answer: [{"type": "item_reference", "id": item.id} for item in answer.output]
    ),
    "previous_response_id": lambda client: continued(client, of=lambda answer: {"previous_response_id": answer.id}),
    "encrypted": lambda client: items(
        client, lambda answer: list(answer.output), store=False, include=["reasoning.encrypted_content"]
    ),
    "a conversation": conversation,
}


@pytest.mark.spec("HAR-70", "HAR-91")
@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_model_thought_stands_before_its_call_until_it_answers(
    client: openai.OpenAI, engine: ScriptedEngine, loop: str
) -> None:
    LOOPS[loop](client)
    check_loop(engine)


@pytest.mark.spec("HAR-70", "HAR-91")
async def test_a_program_that_hands_its_conversation_on_keeps_the_reasons(engine: ScriptedEngine) -> None:
    async with open_model(oss(engine)) as model:
        reply = await model.chat(QUESTION, tools=[CHAT_TOOL])
        while reply.calls:
            results = [{"role": "tool", "tool_call_id": call.call_id, "content": "dry"} for call in reply.calls]
            reply = await model.chat(results, history=reply.conversation)
        assert reply.text == ANSWER
        await model.chat(THANKS, history=reply.conversation)
    check_loop(engine)


@pytest.mark.spec("HAR-70", "HAR-91")
async def test_functions_that_run_in_the_program_do_so_too(engine: ScriptedEngine) -> None:
    def weather(city: str) -> str:
        assert city in CITIES
        return "dry"

    async with open_model(oss(engine)) as model:
        reply = await model.chat(QUESTION, tools=[weather])
        assert reply.text.endswith(ANSWER)
        await model.chat(THANKS, history=reply.conversation)
    check_loop(engine)


LONG = "It rains in Bern, and then it does not. " * 20


@pytest.mark.parametrize("truncation", ["auto", "disabled"])
async def test_a_loop_that_outgrows_the_context_goes_on_without_its_first_calls(truncation: str) -> None:
    """Each prompt has the question, and of the calls the latest, each with its reasons and its result."""
    engine = plays(*(thinking(thought(i)) + call(f"City {i}") for i in range(12)), context=2000)
    application = oss_app(engine)
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    for _ in range(12):
        got = await post_in_process(application, "/v1/responses", input=items, tools=[TOOL], truncation=truncation)
        if got.status != 200:
            break
        (made,) = [item for item in got.json["output"] if item["type"] == "function_call"]
        items += [made, {"type": "function_call_output", "call_id": made["call_id"], "output": LONG}]
    if truncation == "disabled":
        assert got.error["code"] == "context_length_exceeded"
        return
    assert (got.status, got.headers["x-antiphon-incidents"]) == (200, "history_left_out")
    prompt = spelled(prompts(engine)[-1])
    kept = [i for i in range(12) if f'City {i}"' in prompt]
    assert kept == [*range(kept[0], 11)]
    assert [i for i in range(12) if thought(i) in prompt] == kept
    assert (QUESTION in prompt, prompt.count(LONG)) == (True, len(kept))


async def test_so_does_ollama_s_where_it_may_truncate() -> None:
    engine = plays(*(thinking(thought(i)) + call(f"City {i}") for i in range(12)), context=2000)
    application = oss_app(engine)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    body: dict[str, Any] = {"model": "oss", "tools": [CHAT_TOOL], "stream": False, "truncate": True}
    for _ in range(12):
        got = await post_in_process(application, "/api/chat", messages=messages, **body)
        assert got.status == 200, got.body
        messages += [got.json["message"], {"role": "tool", "tool_name": "weather", "content": LONG}]
    assert QUESTION in spelled(prompts(engine)[-1])
    assert 'City 0"' not in spelled(prompts(engine)[-1])
