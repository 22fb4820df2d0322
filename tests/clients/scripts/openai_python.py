# /// script
# dependencies = ["openai>=3.52"]
# ///
"""The official Python client, on every endpoint."""

import asyncio

import openai
from pydantic import BaseModel
from steps import URL, finish, step

client = openai.OpenAI(base_url=URL, api_key="any", max_retries=0)
SAY = [{"role": "user", "content": "say: Good morning."}]
CALL = [{"role": "user", "content": 'call: weather {"city": "Bern"}'}]
PARAMETERS = {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False,
}  # fmt: skip
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS, "strict": True}}
FLAT = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}


class Place(BaseModel):
    city: str
    people: int


@step
def models():
    assert {one.id for one in client.models.list()} == {"small", "oss", "count"}
    assert client.models.retrieve("small").id == "small"


@step
def chat():
    done = client.chat.completions.create(model="small", messages=SAY, seed=None, stop=None)
    assert done.choices[0].message.content == "Good morning."
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens


@step
def chat_stream():
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="small", messages=SAY, stream=True, stream_options=options))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Good morning."
    assert chunks[-1].usage.completion_tokens > 0


@step
def chat_accumulated():
    with client.chat.completions.stream(model="small", messages=SAY) as stream:
        kinds = {event.type for event in stream}
        assert {"content.delta", "content.done"} <= kinds
        assert stream.get_final_completion().choices[0].message.content == "Good morning."


@step
def chat_parse():
    ask = [{"role": "user", "content": 'say: {"city": "Bern", "people": 137000}'}]
    done = client.chat.completions.parse(model="small", messages=ask, response_format=Place)
    assert done.choices[0].message.parsed == Place(city="Bern", people=137000)


@step
def chat_logprobs():
    done = client.chat.completions.create(model="small", messages=SAY, logprobs=True, top_logprobs=2)
    assert "".join(one.token for one in done.choices[0].logprobs.content) == "Good morning."


@step
def chat_tools():
    for model in ("small", "oss"):
        done = client.chat.completions.create(model=model, messages=CALL, tools=[WEATHER])
        (call,) = done.choices[0].message.tool_calls
        assert (done.choices[0].finish_reason, call.function.name) == ("tool_calls", "weather")
        result = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}
        answer = client.chat.completions.create(
            model=model, messages=[*CALL, done.choices[0].message, result], tools=[WEATHER]
        )
        assert answer.choices[0].message.content == "it said: 18 degrees"


@step
def chat_tools_streamed():
    with client.chat.completions.stream(model="small", messages=CALL, tools=[WEATHER]) as stream:
        (call,) = stream.get_final_completion().choices[0].message.tool_calls
    assert call.function.parsed_arguments == {"city": "Bern"}


@step
def completions():
    assert client.completions.create(model="small", prompt="say: Good").choices[0].text == "Good"
    told = list(client.completions.create(model="small", prompt=["say: Good"], stream=True))
    assert "".join(one.choices[0].text for one in told if one.choices) == "Good"


@step
def embeddings():
    as_base64 = client.embeddings.create(model="count", input=["abc", "abcdef"])
    floats = client.embeddings.create(model="count", input=["abc", "abcdef"], encoding_format="float")
    assert [one.embedding for one in floats.data] == [one.embedding for one in as_base64.data]
    assert [one.index for one in floats.data] == [0, 1]


@step
def responses():
    made = client.responses.create(model="oss", input="say: Good morning.", instructions="Be brief.")
    assert made.output_text == "Good morning."
    assert client.responses.retrieve(made.id).output_text == made.output_text
    assert client.responses.input_items.list(made.id).data[0].type == "message"
    more = client.responses.create(model="oss", input="say: And you?", previous_response_id=made.id)
    assert more.output_text == "And you?"
    client.responses.delete(made.id)
    try:
        client.responses.retrieve(made.id)
    except openai.NotFoundError:
        return
    raise AssertionError("a deleted response is still there")


@step
def responses_stream():
    with client.responses.stream(model="oss", input="say: Good morning.") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == stream.get_final_response().output_text == "Good morning."


@step
def responses_parse():
    ask = 'say: {"city": "Bern", "people": 137000}'
    assert client.responses.parse(model="small", input=ask, text_format=Place).output_parsed.people == 137000
    with client.responses.stream(model="small", input=ask, text_format=Place) as stream:
        assert stream.get_final_response().output_parsed.city == "Bern"


@step
def responses_tools():
    made = client.responses.create(model="oss", input='call: weather {"city": "Bern"}', tools=[FLAT])
    (call,) = (item for item in made.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    more = client.responses.create(model="oss", input=[result], previous_response_id=made.id, tools=[FLAT])
    assert more.output_text == "it said: 18 degrees"


@step
def responses_background():
    made = client.responses.create(model="small", input="say: Later.", background=True)
    assert made.status in {"queued", "in_progress", "completed"}
    client.responses.cancel(made.id)
    assert client.responses.input_tokens.count(model="small", input="say: Later.").input_tokens > 0


@step
def conversations():
    made = client.conversations.create(items=[{"role": "user", "content": "Hi"}])
    client.responses.create(model="small", input="say: Noted.", conversation=made.id)
    kinds = [item.role for item in client.conversations.items.list(made.id, order="asc")]
    assert kinds == ["user", "user", "assistant"]
    client.conversations.update(made.id, metadata={"topic": "none"})
    assert client.conversations.retrieve(made.id).metadata == {"topic": "none"}
    assert client.conversations.delete(made.id).deleted


@step
def errors():
    for kind, fields in (
        (openai.NotFoundError, {"model": "large"}),
        (openai.BadRequestError, {"temperature": -1}),
        (openai.BadRequestError, {"max_tokens": "many"}),
    ):
        try:
            client.chat.completions.create(**{"model": "small", "messages": SAY, **fields})
        except kind as error:
            assert error.body["message"], error.request_id
        else:
            raise AssertionError(fields)


@step
def asynchronous():
    async def run():
        async with openai.AsyncOpenAI(base_url=URL, api_key="any", max_retries=0) as client:
            asked = (client.chat.completions.create(model="small", messages=SAY) for _ in range(20))
            return [done.choices[0].message.content for done in await asyncio.gather(*asked)]

    assert asyncio.run(run()) == ["Good morning."] * 20


finish("openai")
