# /// script
# dependencies = ["anthropic>=2.12"]
# ///
"""Anthropic's Python client: messages whole and streamed with its helper, tools, tokens, models, batches, errors."""

import time

import anthropic
from steps import BASE, CHAT, MORNING, OBEDIENT, THINKER, WEATHER, expect_text, expects, finish, step

client = anthropic.Anthropic(max_retries=0)
own = anthropic.Anthropic(base_url=f"{BASE}/anthropic", auth_token="any", max_retries=0)
morning = [{"role": "user", "content": MORNING}]
tools = [
    {
        "name": "weather",
        "input_schema": {
            "type": "object", "properties": {"city": {"type": "string", "enum": ["Bern", "Basel"]}},
            "required": ["city"], "additionalProperties": False,
        },
    }
]  # fmt: skip


@step
def models():
    assert {CHAT, THINKER} <= {model.id for model in client.models.list()}
    assert client.models.retrieve(CHAT).type == "model"


@step
def messages():
    for one in (client, own):
        message = one.messages.create(model=CHAT, max_tokens=100, messages=morning)
        expect_text("".join(block.text for block in message.content), "Good morning.")
        assert message.stop_reason in ("end_turn", "max_tokens")
        assert message.usage.output_tokens > 0


@step
def messages_stream():
    with client.messages.stream(model=CHAT, max_tokens=100, messages=morning) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    expect_text(text, "Good morning.")
    assert message.content[0].text == text


@step
def messages_thinking():
    thinking = {"type": "enabled", "budget_tokens": 1024}
    with client.messages.stream(model=THINKER, max_tokens=2000, messages=morning, thinking=thinking) as stream:
        message = stream.get_final_message()
    if OBEDIENT:
        assert [block.type for block in message.content] == ["thinking", "text"]
        assert message.content[0].signature
        history = [*morning, {"role": "assistant", "content": message.content}, *morning]
        assert client.messages.create(model=THINKER, max_tokens=200, messages=history, thinking=thinking).content


@step
def messages_tools():
    history = [{"role": "user", "content": WEATHER}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    first = client.messages.create(
        model=THINKER, max_tokens=300, messages=history, tools=tools, tool_choice=choice, thinking={"type": "adaptive"}
    )
    used = next(block for block in first.content if block.type == "tool_use")
    assert (first.stop_reason, used.name) == ("tool_use", "weather")
    assert used.input["city"] in ("Bern", "Basel")
    result = {"type": "tool_result", "tool_use_id": used.id, "content": "sunny"}
    history += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = client.messages.create(model=THINKER, max_tokens=100, messages=history, tools=tools)
    expect_text(second.content[-1].text, "it said: sunny") if OBEDIENT else None


@step
def messages_format():
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    message = client.messages.create(
        model=CHAT, max_tokens=100, messages=[{"role": "user", "content": 'say: {"ok": true}'}],
        output_config={"format": {"type": "json_schema", "schema": schema}},
    )  # fmt: skip
    assert message.content[0].text.startswith("{")


@step
def messages_count_tokens():
    counted = client.messages.count_tokens(model=CHAT, messages=morning, system="Be brief.", tools=tools)
    used = client.messages.create(model=CHAT, max_tokens=5, messages=morning, system="Be brief.", tools=tools).usage
    assert counted.input_tokens == used.input_tokens + (used.cache_read_input_tokens or 0)


@step
def errors():
    expects(404, "/v1/messages")
    expects(400, "/v1/messages", 2)
    for refused, fields in (
        (anthropic.NotFoundError, {"model": "none", "messages": morning}),
        (anthropic.BadRequestError, {"model": CHAT, "messages": [{"role": "boss", "content": "x"}]}),
        (anthropic.BadRequestError, {"model": CHAT, "messages": [], "tools": []}),
    ):
        try:
            client.messages.create(max_tokens=9, **fields)
        except refused as error:
            assert error.request_id
            assert error.body["error"]["type"] in ("not_found_error", "invalid_request_error")
        else:
            raise AssertionError(fields)


@step
def batches():
    params = {"model": CHAT, "max_tokens": 100, "messages": morning}
    made = client.messages.batches.create(requests=[{"custom_id": "a", "params": params}])
    while made.processing_status != "ended":
        time.sleep(0.2)
        made = client.messages.batches.retrieve(made.id)
    (one,) = client.messages.batches.results(made.id)
    expect_text(one.result.message.content[0].text, "Good morning.")
    assert client.messages.batches.delete(made.id).type == "message_batch_deleted"


if OBEDIENT:

    @step
    def errors_stream():
        lost = [{"role": "user", "content": "lose: Good morning."}]
        try:
            with client.messages.stream(model=CHAT, max_tokens=99, messages=lost) as stream:
                stream.get_final_message()
        except anthropic.APIStatusError as error:
            assert error.type == "overloaded_error"
        else:
            raise AssertionError("the engine was lost")


finish("anthropic")
