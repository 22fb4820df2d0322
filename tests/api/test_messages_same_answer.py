"""Streamed and whole are one message, and a conversation is one prompt, whether it comes as chat or as messages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.api.chat.conversation import read_turn_request
from antiphon.api.messages.read import MessagesReading, read_request
from antiphon.api.messages.schema import MessagesRequest
from antiphon.config import Limits
from antiphon.errors import RequestError
from antiphon.formats import Format
from antiphon.generation import Model, plan_turn
from antiphon.tokens import Tokenizer
from antiphon.wire.json import decode
from kit.any_reply import CUTS, TEXTS, calls_of, chatml, harmony
from kit.api import CHATML, TOKENIZER, post_in_process, scripted
from kit.messages import THINKING, USER, WEATHER, accumulated, checked, events_of, without_ids
from kit.responses import CALL, CHANNEL, CONSTRAIN, HARMONY, MESSAGE, VOCABULARY, responses_app

TO_WEATHER = (" to=functions.weather", CHANNEL, "commentary ", CONSTRAIN, "json", MESSAGE)
HARMONY_REPLIES = harmony(TEXTS.map(lambda text: (*TO_WEATHER, json.dumps({"city": text}), CALL)))
CHATML_REPLIES = chatml(calls_of("weather", "city"))


@settings(max_examples=40, deadline=None)
@given(
    replies=st.one_of(st.tuples(st.just("oss"), HARMONY_REPLIES), st.tuples(st.just("small"), CHATML_REPLIES)),
    cuts=CUTS,
    limit=st.integers(1, 60),
    thinking=st.sampled_from([None, THINKING]),
    expose=st.booleans(),
)
async def test_a_stream_and_a_whole_message_agree(
    replies: tuple[str, list[int]], cuts: tuple[int, int], limit: int, thinking: Any, expose: bool
) -> None:
    model, reply = replies
    body = {"model": model, "messages": [USER], "tools": [WEATHER], "max_tokens": limit, "thinking": thinking}

    async def answered(chunk: int, *, stream: bool) -> Any:
        engine = scripted(reply, chunk=chunk)
        application = responses_app(**{model: engine}, expose_reasoning=expose)
        return await post_in_process(application, "/v1/messages", **body, stream=stream)

    whole = checked((await answered(cuts[1], stream=False)).json)
    events = events_of(await answered(cuts[0], stream=True))
    calls = [event["index"] for event in events if event.get("content_block", {}).get("type") == "tool_use"]
    if len(calls) > sum(block["type"] == "tool_use" for block in whole["content"]):
        cut = calls[-1]  # A call that its limit cut is closed in a stream, and no block of a whole answer.
        events = [event for event in events if event.get("index") != cut]
    assert without_ids(accumulated(events)) == without_ids(whole)
    shown = [block for block in whole["content"] if block["type"] == "thinking" and block["thinking"]]
    assert not shown or (expose and thinking)


WORDS = st.text(alphabet=st.sampled_from("ab é漢<|>\n"), min_size=1, max_size=8)
SPLIT = st.lists(WORDS, min_size=1, max_size=3)
ROUNDS = st.lists(
    st.fixed_dictionaries(
        {
            "user": SPLIT,
            "thought": st.one_of(st.none(), WORDS),
            "preamble": st.one_of(st.none(), WORDS),
            "calls": st.lists(st.tuples(WORDS, SPLIT), max_size=2),
            "answer": st.one_of(st.none(), WORDS),
        }
    ),
    max_size=3,
)


def both(rounds: list[Any], last: list[str]) -> tuple[list[Any], list[Any]]:
    """The same conversation as chat has it, and as Messages has it."""
    chat: list[Any] = []
    messages: list[Any] = []
    ids = (f"call_{number}" for number in count())
    for one in rounds:
        chat.append({"role": "user", "content": texts(one["user"])})
        messages.append({"role": "user", "content": texts(one["user"])})
        made = [Made(next(ids), json.dumps({"city": city}), said) for city, said in one["calls"]]
        if made:
            calls = [call.in_chat() for call in made]
            said = {"role": "assistant", "reasoning": one["thought"], "content": one["preamble"]}
            chat += [said | {"tool_calls": calls}, *(call.result_in_chat() for call in made)]
            blocks = [*thinking(one["thought"]), *texts([one["preamble"]]), *(call.block() for call in made)]
            messages.append({"role": "assistant", "content": blocks})
            messages.append({"role": "user", "content": [call.result() for call in made]})
        if one["answer"]:
            thought = None if made else one["thought"]
            chat.append({"role": "assistant", "reasoning": thought, "content": one["answer"]})
            messages.append({"role": "assistant", "content": [*thinking(thought), *texts([one["answer"]])]})
    chat.append({"role": "user", "content": texts(last)})
    messages.append({"role": "user", "content": texts(last)})
    return chat, messages


@dataclass(frozen=True, slots=True)
class Made:
    """A call and its result."""

    id: str
    arguments: str
    said: list[str]

    def in_chat(self) -> Any:
        return {"id": self.id, "type": "function", "function": {"name": "weather", "arguments": self.arguments}}

    def result_in_chat(self) -> Any:
        return {"role": "tool", "tool_call_id": self.id, "content": texts(self.said)}

    def block(self) -> Any:
        return {"type": "tool_use", "id": self.id, "name": "weather", "input": json.loads(self.arguments)}

    def result(self) -> Any:
        return {"type": "tool_result", "tool_use_id": self.id, "content": texts(self.said)}


def texts(given: list[Any]) -> list[Any]:
    return [{"type": "text", "text": text} for text in given if text]


def thinking(text: str | None) -> list[Any]:
    return [{"type": "thinking", "thinking": text, "signature": "another's"}] if text else []


def prompt_ids(format: Format, tokenizer: Tokenizer, chat: Any, messages: Any, system: str | None) -> tuple[Any, Any]:
    model = Model(name="m", engine=scripted([], context=100_000), tokenizer=tokenizer, format=format)
    schema = WEATHER["input_schema"]
    function = {"name": "weather", "description": WEATHER["description"], "parameters": schema}
    opening = [{"role": "system", "content": system}] if system else []
    body = {"messages": [*opening, *chat], "tools": [{"type": "function", "function": function}]}
    as_chat = plan_turn(model, read_turn_request(body))
    fields = {"model": "m", "max_tokens": 9, "system": system, "messages": messages, "tools": [WEATHER]}
    wire, _ = decode(json.dumps({**fields, "thinking": THINKING}).encode(), MessagesRequest)

    def decrypt(signature: str, path: str) -> Any:
        raise RequestError("not ours")

    reading = MessagesReading(limits=Limits(), decrypt=decrypt)
    return as_chat.prompt_ids, plan_turn(model, read_request(wire, reading).turn).prompt_ids


@settings(max_examples=60, deadline=None)
@given(rounds=ROUNDS, last=SPLIT, system=st.one_of(st.none(), WORDS), harmony=st.booleans())
def test_a_conversation_is_one_prompt_as_chat_and_as_messages(
    rounds: list[Any], last: list[str], system: str | None, harmony: bool
) -> None:
    chat, messages = both(rounds, last)
    format, tokenizer = (HARMONY, VOCABULARY) if harmony else (CHATML, TOKENIZER)
    first, second = prompt_ids(format, tokenizer, chat, messages, system)
    assert first == second
