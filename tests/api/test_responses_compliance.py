"""The cases of the Open Responses list, as our own tests: what every server of this API must do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.api import END as CHATML_END
from kit.api import call, ids, post, scripted, served
from kit.frames import opened, responded
from kit.responses import WEATHER_TOOL, checked_response, events_of, respond, responses_app, text_of


def script(prompt: Sequence[int], sampling: object, choice: int) -> list[int]:
    text = bytes(id for id in prompt if id < 256).decode()
    if "weather like" in text:
        return ids(*call("weather", '{"city": "San Francisco"}'), CHATML_END)
    if "my name" in text:
        return ids("Alice" if "I am Alice" in text else "I do not know", CHATML_END)
    return ids("Ahoy!" if "pirate" in text else "Hello.", CHATML_END)


base = served(lambda: responses_app(small=scripted(script)))


def completed(base: str, body: dict[str, Any]) -> dict[str, Any]:
    got = respond(base, body)
    assert got.status == 200, got.body
    response = checked_response(got.json)
    assert (response["object"], response["status"]) == ("response", "completed")
    return response


def message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def test_a_basic_text_response(base: str) -> None:
    response = completed(base, {"input": [message("user", "Say hello.")]})
    assert text_of(response) == "Hello."
    assert response["output"][0]["role"] == "assistant"


def test_a_streamed_response(base: str) -> None:
    events = events_of(respond(base, {"input": [message("user", "Count.")], "stream": True}))
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")


def test_a_system_prompt(base: str) -> None:
    requested = [message("system", "You are a pirate."), message("user", "Greet.")]
    assert text_of(completed(base, {"input": requested})) == "Ahoy!"
    assert text_of(completed(base, {"input": "Greet.", "instructions": "You are a pirate."})) == "Ahoy!"


def test_tool_calling(base: str) -> None:
    requested = {"input": [message("user", "What is the weather like?")], "tools": [WEATHER_TOOL]}
    (item,) = completed(base, requested)["output"]
    assert (item["type"], item["name"], item["arguments"]) == (
        "function_call",
        "weather",
        '{"city": "San Francisco"}',
    )


def test_streamed_tool_calling(base: str) -> None:
    requested = {"input": [message("user", "What is the weather like?")], "tools": [WEATHER_TOOL], "stream": True}
    kinds = [event["type"] for event in events_of(respond(base, requested))]
    for needed in (
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ):
        assert needed in kinds


def test_an_image_is_refused_by_a_model_that_reads_text(base: str) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    got = respond(base, {"input": [{"type": "message", "role": "user", "content": [image]}]})
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_content", "input[0].content[0]")


def test_several_turns(base: str) -> None:
    requested = [message("user", "I am Alice."), message("assistant", "Hello Alice."), message("user", "Say my name.")]
    assert text_of(completed(base, {"input": requested})) == "Alice"


def test_a_previous_response_is_remembered(base: str) -> None:
    first = completed(base, {"input": "I am Alice."})
    second = completed(base, {"input": "Say my name.", "previous_response_id": first["id"]})
    assert text_of(second) == "Alice"


def test_phases_of_earlier_messages(base: str) -> None:
    saved = {**message("assistant", "I should look it up."), "phase": "commentary"}
    answer = {**message("assistant", "It is four."), "phase": "final_answer"}
    response = completed(base, {"input": [saved, answer, message("user", "Repeat it.")]})
    assert response["output"][0]["phase"] == "final_answer"


AGREED = [message("user", "I am Alice."), message("assistant", "Hello Alice."), message("user", "Compress this.")]


def test_a_compaction(base: str) -> None:
    got = post(base, "/v1/responses/compact", model="small", input=AGREED, prompt_cache_key="k")
    assert (got.status, got.json["object"]) == (200, "response.compaction")
    assert got.json.keys() == {"id", "object", "created_at", "output", "usage"}
    assert [item["type"] for item in got.json["output"]] == ["message", "message", "compaction"]


def test_a_compaction_without_a_model(base: str) -> None:
    got = post(base, "/v1/responses/compact", input=AGREED)
    assert (got.status, got.error["param"]) == (400, "model")


async def test_a_compacted_window_begins_a_chain_over_a_websocket(base: str) -> None:
    window = post(base, "/v1/responses/compact", model="small", input=AGREED).json["output"]
    async with opened(int(base.rpartition(":")[2])) as socket:
        got = await responded(socket, input=[*window, message("user", "Say my name.")], store=False, tools=[])
        assert text_of(checked_response(got)) == "Alice"
        again = await responded(socket, input="And again: my name.", store=False, previous_response_id=got["id"])
        assert text_of(again) == "Alice"
