"""What llama.cpp's suites of Messages, Responses and rerank assert of a server, over HTTP against the default models.

docs/clients.md lists it, and argues where Antiphon answers otherwise.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from antiphon.api import create_app
from antiphon.catalog.describe import describe
from antiphon.catalog.known_formats import known_formats
from antiphon.catalog.loading import open_model
from antiphon.catalog.static import StaticCatalog
from antiphon.config import EngineConfig, shipped_entries
from kit.api import Got, request, serving
from kit.messages import accumulated, checked
from kit.messages import events_of as message_events
from kit.obedient import matching
from kit.responses import checked_response
from kit.responses import events_of as response_events

pytestmark = pytest.mark.asyncio(loop_scope="module")
SAY: dict[str, Any] = {"role": "user", "content": "Name a colour."}
TOOL: dict[str, Any] = {
    "name": "look_up",
    "description": "Looks a word up.",
    "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}
USE: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "look-1", "name": "look_up", "input": {"word": "amber"}}],
}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "look-1", "content": "Amber is fossil resin."}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQAY3Y2wAAAAAElFTkSuQmCC"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base(smollm2_path: Path, minilm_path: Path) -> AsyncIterator[str]:
    """A server of the default models, and of a cross-encoder that scores by the words that texts share."""
    shipped, config = shipped_entries(), EngineConfig(threads=1, context=2048)
    models = {
        name: await open_model(
            await describe(name, shipped[name], path, config=config, formats=known_formats()), config=config
        )
        for name, path in (("smollm2", smollm2_path), ("all-minilm-l6-v2", minilm_path))
    }
    async with serving(create_app(StaticCatalog({**models, "cross": matching(context=4096)}))) as port:
        yield f"http://127.0.0.1:{port}"
    for model in models.values():
        await model.engine.aclose()


async def ask(base: str, path: str, **fields: Any) -> Got:
    body = json.dumps(fields).encode()
    return await asyncio.to_thread(request, base, "POST", path, body, content_type="application/json")


async def message(base: str, **fields: Any) -> Got:
    return await ask(
        base,
        "/v1/messages",
        **{"model": "smollm2", "max_tokens": 4, "temperature": 0, "messages": [SAY], **fields},
    )


async def test_a_message_has_text_a_reason_and_counts_and_no_timings(base: str) -> None:
    answer = checked((await message(base)).json)
    assert (answer["type"], answer["role"], answer["content"][0]["type"]) == ("message", "assistant", "text")
    assert answer["stop_reason"] in ("end_turn", "max_tokens")
    usage = answer["usage"]
    assert all(isinstance(usage[name], int) for name in ("input_tokens", "cache_read_input_tokens", "output_tokens"))
    assert usage["output_tokens"] > 0
    assert "timings" not in answer


TAKEN: dict[str, dict[str, Any]] = {
    "a system text, stop sequences and metadata": {
        "system": "Be brief.",
        "stop_sequences": ["\n", "THE END"],
        "metadata": {"user_id": "u-1"},
    },
    "a text in parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": t} for t in ("Na", "me")]}]},
    "a conversation": {
        "messages": [SAY, {"role": "assistant", "content": "Red."}, {"role": "user", "content": "More"}]
    },
    "chance": {"temperature": 0.7, "top_p": 0.8, "top_k": 20},
    "a small budget of thoughts": {"thinking": {"type": "enabled", "budget_tokens": 40}},
    "a tool": {"tools": [TOOL], "max_tokens": 30},
    "a result": {"messages": [SAY, USE, {"role": "user", "content": [RESULT]}]},
    "a result behind a text": {
        "messages": [SAY, USE, {"role": "user", "content": [{"type": "text", "text": "There:"}, RESULT]}]
    },
    "a result that is an error": {
        "messages": [SAY, USE, {"role": "user", "content": [{**RESULT, "is_error": True, "content": "not found"}]}]
    },
}


@pytest.mark.parametrize("what", TAKEN)
async def test_what_a_message_may_have_is_answered(base: str, what: str) -> None:
    answer = checked((await message(base, **TAKEN[what])).json)
    uses = [block for block in answer["content"] if block["type"] == "tool_use"]
    assert all(use["name"] == TOOL["name"] and isinstance(use["input"], dict) for use in uses)
    assert (answer["stop_reason"] == "tool_use") is bool(uses)
    assert answer["content"] or "stop" in what or what == "chance", "it may end at once"


async def test_a_stream_has_all_its_events_and_its_blocks_are_numbered(base: str) -> None:
    events = message_events(await message(base, stream=True, tools=[TOOL]))
    kinds = {event["type"] for event in events}
    assert kinds >= {
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop",
    }  # fmt: skip
    assert events[0]["message"]["content"] == []
    assert events[0]["message"]["usage"]["input_tokens"] > 0
    starts = [event["index"] for event in events if event["type"] == "content_block_start"]
    assert starts == [event["index"] for event in events if event["type"] == "content_block_stop"]
    assert starts == list(range(len(starts)))
    assert not any("timings" in event for event in events)
    answer = accumulated(events)
    assert answer["stop_reason"] in ("end_turn", "max_tokens", "tool_use")
    assert answer["usage"]["output_tokens"] > 0


async def test_tokens_are_counted_without_a_limit_and_nothing_else_is_told(base: str) -> None:
    got = await ask(base, "/v1/messages/count_tokens", model="smollm2", messages=[SAY], system="Be brief.")
    assert list(got.json) == ["input_tokens"]
    assert got.json["input_tokens"] > 0


async def test_messages_and_chat_have_each_their_own_shape(base: str) -> None:
    chat = (await ask(base, "/v1/chat/completions", model="smollm2", messages=[SAY], max_tokens=4)).json
    answer = (await message(base, max_tokens=4)).json
    assert (chat["object"], answer["type"]) == ("chat.completion", "message")
    assert ("choices" in chat, "content" in answer) == (True, True)
    assert chat["usage"].keys() >= {"prompt_tokens", "completion_tokens"}
    assert answer["usage"].keys() >= {"input_tokens", "output_tokens"}


async def test_what_cannot_be_answered_is_the_client_s_mistake(base: str) -> None:
    """llama.cpp answers no messages with 200, and an image that its model cannot see with 500."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    got = await ask(base, "/v1/messages", model="smollm2", max_tokens=4)
    empty = await message(base, messages=[])
    seen = await message(base, messages=[{"role": "user", "content": [image, {"type": "text", "text": "What?"}]}])
    assert [one.status for one in (got, empty, seen)] == [400, 400, 400]
    assert "messages[0].content[0]" in seen.json["error"]["message"]


FORMATS: list[tuple[dict[str, Any], str | None]] = [
    ({"type": "json_schema", "name": "t", "schema": {"const": "aaaaaa"}}, '"aaaaaa"'),
    ({"type": "json_object"}, "{"),
    ({"type": "text"}, ""),
    ({"type": "json_schema", "name": "t"}, None),
]


@pytest.mark.parametrize(
    ("path", "form", "begins"),
    [(path, *form) for path, form in zip(cycle(("/v1/responses", "/responses")), FORMATS, strict=False)],
    ids=json.dumps,
)
async def test_a_response_has_the_form_that_its_text_is_to_have(
    base: str, path: str, form: dict[str, Any], begins: str | None
) -> None:
    got = await ask(
        base, path, model="smollm2", input="An example, please.", max_output_tokens=16, text={"format": form}
    )
    if begins is None:
        assert (got.status, bool(got.error["message"])) == (400, True)
        return
    (item,) = [one for one in checked_response(got.json)["output"] if one["type"] == "message"]
    assert item["content"][0]["text"].startswith(begins)


async def test_the_ids_of_a_response_are_the_same_in_all_its_events(base: str) -> None:
    given = [{"role": "system", "content": "Books"}, {"role": "user", "content": "Name one."}]
    body: dict[str, Any] = {"model": "smollm2", "input": given, "max_output_tokens": 16, "temperature": 0}
    whole = checked_response((await ask(base, "/v1/responses", **body)).json)
    assert (whole["id"][:5], whole["output"][0]["id"][:4]) == ("resp_", "msg_")
    events = response_events(await ask(base, "/v1/responses", **body, stream=True))
    ended = events[-1]["response"]
    assert {event["response"]["id"] for event in events if "response" in event} == {ended["id"]}
    (item,) = ended["output"]
    assert {event["item_id"] for event in events if "item_id" in event} == {item["id"]}
    assert {event["item"]["id"] for event in events if "item" in event} == {item["id"]}
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == item["content"][0]["text"]


async def test_figures_of_speed_are_no_part_of_a_response(base: str) -> None:
    """llama.cpp adds ``prompt_progress`` and ``timings`` to OpenAI's events, where its own fields request them."""
    for name in ("timings_per_token", "return_progress"):
        got = await ask(base, "/v1/responses", model="smollm2", input="A word.", stream=True, **{name: True})
        assert (got.status, got.error["param"]) == (400, name)


QUERY = "Teaching computers"
DOCUMENTS = [
    "An engine is a device that turns fuel into motion.",
    "Studying is how people come to know new things.",
    "Teaching computers from examples is a branch of artificial intelligence.",
    "Rome, capitale d'Italia, è una grande città europea.",
]


async def rank(base: str, **fields: Any) -> Got:
    return await ask(base, "/rerank", model="all-minilm-l6-v2", query=QUERY, **fields)


async def test_documents_are_ranked_in_both_shapes(base: str) -> None:
    ours = (await rank(base, documents=DOCUMENTS)).json["results"]
    tei = (await rank(base, texts=DOCUMENTS)).json
    for results, score in ((ours, "relevance_score"), (tei, "score")):
        assert len(results) == 4
        best, worst = (choose(results, key=lambda one: one[score]) for choose in (max, min))
        assert (best["index"], worst["index"]) == (2, 3)
        assert best[score] > worst[score]


@pytest.mark.parametrize(("top_n", "count"), [(None, 4), (2, 2), (4, 4), (99, 4)])
async def test_as_many_are_answered_as_are_requested(base: str, top_n: int | None, count: int) -> None:
    most = {} if top_n is None else {"top_n": top_n}
    assert len((await rank(base, documents=DOCUMENTS, **most)).json["results"]) == count
    assert len((await rank(base, texts=DOCUMENTS, **most)).json) == count


@pytest.mark.parametrize("documents", [[], None, 5, [4, 5]])
async def test_what_is_no_list_of_texts_is_refused(base: str, documents: object) -> None:
    got = await rank(base, documents=documents)
    assert (got.status, "error" in got.json) == (400, True)


async def test_the_usage_of_a_ranking_is_all_prompt(base: str) -> None:
    short = (await rank(base, documents=["a", "b"])).json["usage"]
    longer = (await rank(base, documents=["a", "b c d e"])).json["usage"]
    assert short["prompt_tokens"] == short["total_tokens"] < longer["total_tokens"]


@pytest.mark.parametrize("path", ["/embeddings", "/v1/embeddings"])
async def test_a_model_that_ranks_embeds_nothing_and_says_what_it_does(base: str, path: str) -> None:
    got = await ask(base, path, model="cross", input="hello")
    assert (got.status, "rerank" in got.error["message"]) == (400, True)
