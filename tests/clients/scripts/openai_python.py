# /// script
# dependencies = ["openai[realtime]>=3.52"]
# ///
"""The official Python client, on every endpoint."""

import asyncio
import json
import time
from typing import Literal

import openai
from pydantic import BaseModel
from steps import CHAT, CITIES, EMBEDDER, MORNING, OBEDIENT, THINKER, WEATHER, expect_text, expects, finish, step

client = openai.OpenAI(max_retries=0)
SAY = [{"role": "user", "content": MORNING}]
CALL = [{"role": "user", "content": WEATHER}]
ASK = 'say: {"city": "Bern", "size": "small"}'
PARAMETERS = {
    "type": "object", "properties": {"city": {"type": "string", "enum": [*CITIES]}}, "required": ["city"],
    "additionalProperties": False,
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS, "strict": True}}
FLAT = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}
SHORT, BRIEF = {"max_tokens": 200}, {"max_output_tokens": 200}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]
    size: Literal["small", "large"]


@step
def models():
    assert {CHAT, THINKER, EMBEDDER} <= {one.id for one in client.models.list()} | {EMBEDDER}
    assert client.models.retrieve(CHAT).id == CHAT


@step
def chat():
    done = client.chat.completions.create(model=CHAT, messages=SAY, seed=None, stop=None, **SHORT)
    expect_text(done.choices[0].message.content, "Good morning.")
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens


@step
def chat_stream():
    chunks = list(
        client.chat.completions.create(
            model=CHAT, messages=SAY, stream=True, stream_options={"include_usage": True}, **SHORT
        )
    )
    expect_text("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "Good morning.")
    assert chunks[-1].usage.completion_tokens > 0


@step
def chat_accumulated():
    with client.chat.completions.stream(model=CHAT, messages=SAY, **SHORT) as stream:
        kinds = {event.type for event in stream}
        assert {"content.delta", "content.done"} <= kinds
        expect_text(stream.get_final_completion().choices[0].message.content, "Good morning.")


@step
def chat_choices():
    done = client.chat.completions.create(model=CHAT, messages=SAY, n=2, stop=["\n\n"], **SHORT)
    assert [one.index for one in done.choices] == [0, 1]


@step
def chat_parse():
    ask = [{"role": "user", "content": ASK}]
    done = client.chat.completions.parse(model=CHAT, messages=ask, response_format=Place, **SHORT)
    assert done.choices[0].message.parsed.city in CITIES
    with client.chat.completions.stream(model=CHAT, messages=ask, response_format=Place, **SHORT) as stream:
        assert stream.get_final_completion().choices[0].message.parsed.city in CITIES


@step
def chat_logprobs():
    done = client.chat.completions.create(model=CHAT, messages=SAY, logprobs=True, top_logprobs=2, **SHORT)
    (choice,) = done.choices
    assert b"".join(bytes(one.bytes) for one in choice.logprobs.content).decode().startswith(choice.message.content)
    assert all(len(one.top_logprobs) == 2 for one in choice.logprobs.content)


@step
def chat_tools():
    for model in (CHAT, THINKER):
        done = client.chat.completions.create(
            model=model, messages=CALL, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, **SHORT
        )
        (call,) = done.choices[0].message.tool_calls
        assert (done.choices[0].finish_reason, call.function.name) == ("tool_calls", "weather")
        result = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}
        answer = client.chat.completions.create(
            model=model, messages=[*CALL, done.choices[0].message, result], tools=[TOOL], tool_choice="none", **SHORT
        )
        expect_text(answer.choices[0].message.content, "it said: 18 degrees")


@step
def chat_tools_streamed():
    choice = {"type": "function", "function": {"name": "weather"}}
    with client.chat.completions.stream(
        model=CHAT, messages=CALL, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False, **SHORT
    ) as stream:
        (call,) = stream.get_final_completion().choices[0].message.tool_calls
    assert call.function.parsed_arguments["city"] in CITIES


@step
def chat_stored():
    made = client.chat.completions.create(model=CHAT, messages=SAY, store=True, metadata={"of": "steps"}, **SHORT)
    kept = client.chat.completions.retrieve(made.id)
    assert kept.choices == made.choices
    assert made.id in [one.id for one in client.chat.completions.list(metadata={"of": "steps"}, model=CHAT)]
    assert [one.content for one in client.chat.completions.messages.list(made.id)] == [MORNING]
    assert client.chat.completions.update(made.id, metadata={"of": "none"}).metadata == {"of": "none"}
    assert client.chat.completions.delete(made.id).deleted
    assert made.id not in [one.id for one in client.chat.completions.list()]


@step
def completions():
    expect_text(client.completions.create(model=CHAT, prompt="say: Good", **SHORT).choices[0].text, "Good")
    two = client.completions.create(model=CHAT, prompt=["say: Good", "say: Good"], logprobs=1, **SHORT)
    assert [one.index for one in two.choices] == [0, 1]
    assert all(one.logprobs.tokens for one in two.choices)


@step
def completions_stream():
    chunks = list(client.completions.create(model=CHAT, prompt=["say: Good"], stream=True, **SHORT))
    expect_text("".join(one.choices[0].text for one in chunks if one.choices), "Good")


@step
def embeddings():
    as_base64 = client.embeddings.create(model=EMBEDDER, input=["abc", "abcdef"])
    floats = client.embeddings.create(model=EMBEDDER, input=["abc", "abcdef"], encoding_format="float")
    for encoded, plain in zip(as_base64.data, floats.data, strict=True):
        assert all(abs(a - b) < 1e-6 for a, b in zip(encoded.embedding, plain.embedding, strict=True))
    assert [one.index for one in floats.data] == [0, 1]
    assert floats.usage.prompt_tokens > 0


@step
def responses():
    made = client.responses.create(model=THINKER, input=MORNING, instructions="Be brief.", **BRIEF)
    expect_text(made.output_text, "Good morning.")
    assert client.responses.retrieve(made.id).output_text == made.output_text
    assert client.responses.input_items.list(made.id).data[0].type == "message"
    more = client.responses.create(model=THINKER, input="say: And you?", previous_response_id=made.id, **BRIEF)
    expect_text(more.output_text, "And you?")
    client.responses.delete(made.id)
    expects(404, f"/v1/responses/{made.id}")
    try:
        client.responses.retrieve(made.id)
    except openai.NotFoundError:
        return
    raise AssertionError("a deleted response is still there")


@step
def responses_stream():
    with client.responses.stream(model=THINKER, input=MORNING, **BRIEF) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == stream.get_final_response().output_text
        expect_text(text, "Good morning.")


@step
def responses_events():
    events = list(client.responses.create(model=THINKER, input=MORNING, stream=True, **BRIEF))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    made = events[-1].response
    again = list(client.responses.retrieve(made.id, stream=True))
    assert again[-1].response.output_text == made.output_text


@step
def responses_parse():
    made = client.responses.parse(model=CHAT, input=ASK, text_format=Place, **BRIEF)
    assert made.output_parsed.city in CITIES
    with client.responses.stream(model=CHAT, input=ASK, text_format=Place, **BRIEF) as stream:
        assert stream.get_final_response().output_parsed.size in {"small", "large"}


@step
def responses_tools():
    made = client.responses.create(model=THINKER, input=WEATHER, tools=[FLAT], tool_choice="required", **BRIEF)
    call = next(item for item in made.output if item.type == "function_call")
    results = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "18 degrees"}
        for item in made.output
        if item.type == "function_call"
    ]
    assert call.name == "weather"
    more = client.responses.create(
        model=THINKER, input=results, previous_response_id=made.id, tools=[FLAT], tool_choice="none", **BRIEF
    )
    expect_text(more.output_text, "it said: 18 degrees")


@step
def responses_tools_streamed():
    with client.responses.stream(
        model=THINKER, input=WEATHER, tools=[FLAT], tool_choice="required", parallel_tool_calls=False, **BRIEF
    ) as stream:
        made = stream.get_final_response()
    (call,) = (item for item in made.output if item.type == "function_call")
    assert call.parsed_arguments["city"] in CITIES


@step
def responses_background():
    made = client.responses.create(model=CHAT, input="say: Later.", background=True, **BRIEF)
    assert made.status in {"queued", "in_progress", "completed"}
    ended = client.responses.cancel(made.id)
    assert ended.status in {"cancelled", "completed"}
    assert client.responses.retrieve(made.id).status == ended.status
    assert client.responses.input_tokens.count(model=CHAT, input="say: Later.").input_tokens > 0


@step
def responses_socket():
    with client.responses.connect() as connection:
        connection.response.create(model=CHAT, input=MORNING, **BRIEF)
        last = next(event for event in connection if event.type in ("response.completed", "response.incomplete"))
    (text,) = (part.text for item in last.response.output for part in item.content)
    expect_text(text, "Good morning.")


@step
def conversations():
    made = client.conversations.create(items=[{"role": "user", "content": "Hi"}])
    client.responses.create(model=CHAT, input="say: Noted.", conversation=made.id, **BRIEF)
    kinds = [item.role for item in client.conversations.items.list(made.id, order="asc")]
    assert kinds == ["user", "user", "assistant"]
    client.conversations.update(made.id, metadata={"topic": "none"})
    assert client.conversations.retrieve(made.id).metadata == {"topic": "none"}


@step
def conversations_items():
    made = client.conversations.create()
    added = client.conversations.items.create(made.id, items=[{"role": "user", "content": "Hi"}]).data[0]
    assert client.conversations.items.retrieve(added.id, conversation_id=made.id).content[0].text == "Hi"
    client.conversations.items.delete(added.id, conversation_id=made.id)
    assert not list(client.conversations.items.list(made.id))
    assert client.conversations.delete(made.id).deleted


@step
def errors():
    expects(404, "/v1/chat/completions")
    expects(400, "/v1/chat/completions", 3)
    for kind, fields in (
        (openai.NotFoundError, {"model": "large"}),
        (openai.BadRequestError, {"temperature": -1}),
        (openai.BadRequestError, {"max_tokens": "many"}),
        (openai.BadRequestError, {"store": "yes"}),
    ):
        try:
            client.chat.completions.create(**{"model": CHAT, "messages": SAY, **fields})
        except kind as error:
            assert error.body["message"], error.request_id
            assert error.code, error.param
        else:
            raise AssertionError(fields)


@step
def chat_many():
    async def run():
        async with openai.AsyncOpenAI(max_retries=0) as client:
            requests = (client.chat.completions.create(model=CHAT, messages=SAY, max_tokens=20) for _ in range(20))
            return [done.choices[0].message.content for done in await asyncio.gather(*requests)]

    for text in asyncio.run(run()):
        expect_text(text, "Good morning.")


if OBEDIENT:

    @step
    def errors_in_streams():
        """The engine is lost after the first words: an error, not an end."""
        lost = [{"role": "user", "content": "lose: Good morning."}]
        for request in (
            lambda: client.chat.completions.create(model=CHAT, messages=lost, stream=True),
            lambda: client.completions.create(model=CHAT, prompt="lose: Good", stream=True),
        ):
            read = []
            try:
                for chunk in request():
                    read.append(chunk)
            except openai.APIError as error:
                assert error.body["code"] == "engine_lost", error.body
                assert read
            else:
                raise AssertionError("the stream ended as if it were whole")
        events = []
        try:
            for event in client.responses.create(model=CHAT, input="lose: Good morning.", stream=True):
                events.append(event)
        except openai.APIError as error:
            assert error.body["code"], error.body
        else:
            assert [event.type for event in events[-2:]] == ["error", "response.failed"], events[-2:]
            assert events[-1].response.error.code


@step
def files():
    file = client.files.create(file=("notes.txt", b"Some notes."), purpose="user_data")
    assert client.files.retrieve(file.id).bytes == 11
    assert file.id in {one.id for one in client.files.list(purpose="user_data")}
    assert client.files.content(file.id).text == "Some notes."
    assert client.files.delete(file.id).deleted


@step
def batches():
    body = {"model": CHAT, "messages": SAY, **SHORT}
    line = {"method": "POST", "url": "/v1/chat/completions", "body": body}
    lines = "".join(json.dumps({"custom_id": str(i), **line}) + "\n" for i in range(3))
    file = client.files.create(file=("in.jsonl", lines.encode()), purpose="batch")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    while (batch := client.batches.retrieve(made.id)).status in ("validating", "in_progress", "finalizing"):
        time.sleep(0.1)
    assert (batch.status, batch.request_counts.completed) == ("completed", 3)
    for one in client.files.content(batch.output_file_id).text.splitlines():
        expect_text(json.loads(one)["response"]["body"]["choices"][0]["message"]["content"], "Good morning.")
    assert made.id in {one.id for one in client.batches.list()}


@step
def batches_cancelled():
    line = {"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"model": EMBEDDER, "input": "Hi"}}
    file = client.files.create(file=("in.jsonl", json.dumps(line).encode()), purpose="batch")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h")
    try:
        assert client.batches.cancel(made.id).status in ("cancelling", "cancelled", "completed", "finalizing")
    except openai.ConflictError:  # it was through already
        expects(409, f"/v1/batches/{made.id}/cancel")


finish("openai")
