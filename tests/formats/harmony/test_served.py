"""Recorded Harmony through the server: what the official client sees, streamed and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Conversation, Message, Role, ToolSpec
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import harmony
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.generation import Model
from antiphon.tokens import ControlScanner, decode, encode_pieces, o200k_harmony
from kit.api import post, running

TOKENIZER = o200k_harmony()
HARMONY = harmony(TOKENIZER.controls)
ASK: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Rain in Bern?"},
]
WEATHER: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[ChatCompletionToolParam] = [
    {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": WEATHER}}
]
THOUGHT = "<|channel|>analysis<|message|>Look it up.<|end|><|start|>assistant"
CALL = '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Bern"}<|call|>'

ANSWER = THOUGHT + "<|channel|>final<|message|>Yes, 雨 all day.<|return|>"
CALLED = THOUGHT + CALL
ANNOUNCED = THOUGHT + "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant" + CALL
OTHER_ORDER = THOUGHT + ' to=functions.weather<|channel|>analysis code<|message|>{"city": "Bern"}<|call|>'
BY_NAME = THOUGHT + ' to=weather<|channel|>commentary json<|message|>{"city": "Bern"}<|call|>'
AS_ROLE = THOUGHT.removesuffix("assistant") + 'weather<|channel|>commentary<|message|>{"city": "Bern"}<|call|>'
DOUBLED = THOUGHT + CALL.replace("<|constrain|>", "<|channel|>commentary <|constrain|>")
GLUED = "<|channel|>analysis<|message|>Look it up.<|channel|>final<|message|>Yes, 雨 all day.<|return|>"
BARE = "Yes, 雨 all day.<|return|>"


def sampled(text: str) -> list[int]:
    """The ids of a recorded reply, its controls as controls."""
    scanner = ControlScanner(CONTROLS)
    return encode_pieces([*scanner.feed(text), *scanner.close()], TOKENIZER)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    models = {
        str(i): Model(name=str(i), engine=ScriptedEngine(sampled(reply)), tokenizer=TOKENIZER, format=HARMONY)
        for i, reply in enumerate(REPLIES)
    }
    with running(create_app(StaticCatalog(models))) as url:
        yield url


REPLIES = (ANSWER, CALLED, ANNOUNCED, OTHER_ORDER, BY_NAME, AS_ROLE, DOUBLED, GLUED, BARE)
ANSWERS = (ANSWER, GLUED, BARE)


@pytest.fixture
def client(base: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("reply", REPLIES)
def test_content_calls_and_finish_reasons_are_where_the_client_looks(client: openai.OpenAI, reply: str) -> None:
    model = str(REPLIES.index(reply))
    whole = client.chat.completions.create(model=model, messages=ASK, tools=TOOLS).choices[0]
    with client.chat.completions.stream(model=model, messages=ASK, tools=TOOLS) as stream:
        streamed = stream.get_final_completion().choices[0]
    for choice in (whole, streamed):
        calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
        if reply in ANSWERS:
            assert (choice.message.content, calls, choice.finish_reason) == ("Yes, 雨 all day.", [], "stop")
        else:
            assert (calls, choice.finish_reason) == ([("weather", '{"city": "Bern"}')], "tool_calls")
            assert (choice.message.content or None) == ("I will look." if reply == ANNOUNCED else None)
        assert "<|" not in choice.message.model_dump_json()
        assert "Look it up" not in (choice.message.content or "")


@pytest.mark.spec("HAR-02", "HAR-03")
def test_clients_send_plain_messages_and_the_engine_gets_harmony() -> None:
    engine = ScriptedEngine(sampled(ANSWER))
    models = {"gpt-oss": Model(name="gpt-oss", engine=engine, tokenizer=TOKENIZER, format=HARMONY)}
    with running(create_app(StaticCatalog(models))) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        client.chat.completions.create(model="gpt-oss", messages=ASK, tools=TOOLS, reasoning_effort="high")
    ((prompt, _, _),) = engine.requests
    conversation = Conversation(
        (Message(role=Role.SYSTEM, text="Be brief."), Message(role=Role.USER, text="Rain in Bern?")),
        tools=(ToolSpec("weather", "The weather.", WEATHER),),
    )
    expected = encode_pieces(HARMONY.render(conversation), TOKENIZER)
    text = decode(TOKENIZER, prompt)
    assert "Reasoning: high" in text
    developer = TOKENIZER.encode("developer")
    assert list(prompt)[prompt.index(developer[0]) :] == expected[expected.index(developer[0]) :]


def test_clients_of_other_servers_send_the_arguments_of_the_models_template(base: str) -> None:
    asked = {"model": "0", "messages": ASK}
    sent = post(base, "/v1/render", **asked, chat_template_kwargs={"reasoning_effort": "high"})
    assert "Reasoning: high" in sent.json["text"]
    for wrong in ({"reasoning_effort": "huge"}, {"model_identity": 1}, {"builtin_tools": ["python"]}):
        got = post(base, "/v1/chat/completions", **asked, chat_template_kwargs=wrong)
        assert (got.status, got.error["code"]) == (400, "bad_template_kwargs"), got.body


@pytest.mark.spec("HAR-04")
def test_a_reply_is_the_items_of_the_responses_api_and_they_are_the_reply_again() -> None:
    """Each message is an item; sent back, the items are the messages, and the prompt has what was sampled."""
    engine = ScriptedEngine(sampled(ANNOUNCED))
    models = {"oss": Model(name="oss", engine=engine, tokenizer=TOKENIZER, format=HARMONY)}
    tools: list[Any] = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}]
    question: Any = {"role": "user", "content": "Rain in Bern?"}
    application = create_app(StaticCatalog(models), expose_reasoning=True)
    with running(application) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        response = client.responses.create(model="oss", input=[question], tools=tools)
        thought, preamble, call = response.output
        assert isinstance(thought, ResponseReasoningItem)
        assert [part.text for part in thought.content or ()] == ["Look it up."]
        assert isinstance(preamble, ResponseOutputMessage)
        assert [part.text for part in preamble.content if part.type == "output_text"] == ["I will look."]
        assert preamble.phase == "commentary"
        assert isinstance(call, ResponseFunctionToolCall)
        assert (call.name, call.arguments) == ("weather", '{"city": "Bern"}')
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "wet"}
        history: list[Any] = [question, *response.output, output]
        client.responses.create(model="oss", input=history, tools=tools)
    first, second = (list(prompt) for prompt, *_ in engine.requests)
    begun = [*first, *sampled(ANNOUNCED)]
    assert second[: len(begun)] == begun
    result = "<|start|>functions.weather to=assistant<|channel|>commentary<|message|>wet<|end|><|start|>assistant"
    assert second[len(begun) :] == sampled(result)


@pytest.mark.spec("HAR-04")
def test_an_answer_is_an_item_too(client: openai.OpenAI) -> None:
    answered = client.responses.create(model=str(REPLIES.index(ANSWER)), input="Rain in Bern?")
    assert [item.type for item in answered.output] == ["reasoning", "message"]
    assert answered.output_text == "Yes, 雨 all day."
    assert "Look it up" not in answered.model_dump_json()
