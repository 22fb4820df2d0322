"""The official client makes, streams, parses, reads, lists, deletes and cancels responses and conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from kit.api import END as CHATML_END
from kit.api import ids, running, scripted, served
from kit.obliging import ENDS, constrained
from kit.responses import FINAL, THOUGHT, WEATHER, WEATHER_TOOL, harmony_ids, responses_app

CALLED = harmony_ids(*THOUGHT, *WEATHER)
ANSWERED = harmony_ids(*FINAL)


def oss(prompt: Sequence[int], sampling: object, choice: int) -> list[int]:
    """Calls the weather first, and answers when it has the weather."""
    text = bytes(id for id in prompt if id < 256).decode()
    return ANSWERED if "18 degrees" in text else CALLED


def small(prompt: Sequence[int], sampling: object, choice: int) -> list[int]:
    """Counts the words that it reads of its user."""
    text = bytes(id for id in prompt if id < 256).decode()
    return ids(f"I have read {text.count('word')} of them.", CHATML_END)


base = served(lambda: responses_app(small=scripted(small), oss=scripted(oss)))


@pytest.fixture
def client(base: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_it_goes_on_from_a_previous_response(client: openai.OpenAI) -> None:
    first = client.responses.create(model="small", input="word", instructions="Say word.")
    second = client.responses.create(model="small", input="word", previous_response_id=first.id)
    third = client.responses.create(model="small", input="word", previous_response_id=second.id)
    assert [r.output_text for r in (first, second, third)] == [
        "I have read 2 of them.",
        "I have read 2 of them.",  # an earlier response's instructions are not carried over
        "I have read 3 of them.",
    ]
    assert third.previous_response_id == second.id


def test_a_function_is_called_and_answered(client: openai.OpenAI) -> None:
    tools: Any = [WEATHER_TOOL]
    first = client.responses.create(model="oss", input="Weather in Bern?", tools=tools)
    (call,) = [item for item in first.output if item.type == "function_call"]
    second = client.responses.create(
        model="oss",
        previous_response_id=first.id,
        tools=tools,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}],
    )
    assert second.output_text == "It is sunny in Bern."


def test_a_client_may_keep_the_history_itself(client: openai.OpenAI) -> None:
    tools: Any = [WEATHER_TOOL]
    history: list[Any] = [{"role": "user", "content": "Weather in Bern?"}]
    first = client.responses.create(
        model="oss", input=history, tools=tools, store=False, include=["reasoning.encrypted_content"]
    )
    history += [item.to_dict() for item in first.output]
    (call,) = [item for item in first.output if item.type == "function_call"]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"})
    second = client.responses.create(model="oss", input=history, tools=tools, store=False)
    assert second.output_text == "It is sunny in Bern."
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_it_retrieves_lists_and_deletes(client: openai.OpenAI) -> None:
    made = client.responses.create(model="small", input=[{"role": "user", "content": "word"}], metadata={"a": "b"})
    stored = client.responses.retrieve(made.id)
    assert (stored.output_text, stored.metadata, stored.to_dict()) == (made.output_text, {"a": "b"}, made.to_dict())
    (item,) = client.responses.input_items.list(made.id)
    assert item.type == "message"
    assert item.content[0].to_dict() == {"type": "input_text", "text": "word"}
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="small", input="word", previous_response_id=made.id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_it_counts_the_tokens_of_an_input(client: openai.OpenAI) -> None:
    counted = client.responses.input_tokens.count(model="small", input="word")
    response = client.responses.create(model="small", input="word")
    assert response.usage is not None
    assert counted.input_tokens == response.usage.input_tokens


def test_a_conversation_is_stored_by_the_server(client: openai.OpenAI) -> None:
    made = client.conversations.create(
        metadata={"topic": "words"}, items=[{"type": "message", "role": "user", "content": "word"}]
    )
    first = client.responses.create(model="small", input="word", conversation=made.id)
    second = client.responses.create(model="small", input="word", conversation=made.id)
    assert [first.output_text, second.output_text] == ["I have read 2 of them.", "I have read 3 of them."]
    assert second.conversation is not None
    assert second.conversation.id == made.id
    roles = [item.role for item in client.conversations.items.list(made.id, order="asc") if item.type == "message"]
    assert roles == ["user", "user", "assistant", "user", "assistant"]


def test_a_conversation_and_its_items_are_read_changed_and_deleted(client: openai.OpenAI) -> None:
    made = client.conversations.create()
    assert client.conversations.update(made.id, metadata={"a": "b"}).metadata == {"a": "b"}
    assert client.conversations.retrieve(made.id).metadata == {"a": "b"}
    added = client.conversations.items.create(
        made.id, items=[{"role": "user", "content": "word"}, {"role": "user", "content": "word word"}]
    )
    first, second = added.data
    assert first.id is not None
    assert second.id is not None
    assert client.conversations.items.retrieve(second.id, conversation_id=made.id).to_dict() == second.to_dict()
    client.conversations.items.delete(first.id, conversation_id=made.id)
    assert [item.id for item in client.conversations.items.list(made.id)] == [second.id]
    assert client.responses.create(model="small", input="?", conversation=made.id).output_text.count("2") == 1
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


def test_pages_of_items_follow_each_other(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[{"role": "user", "content": f"{i}"} for i in range(7)])
    pages = list(client.conversations.items.list(made.id, limit=3, order="asc").iter_pages())
    texts = [[item.content[0].to_dict()["text"] for item in page.data if item.type == "message"] for page in pages]
    assert texts == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


class Weather(BaseModel):
    city: str


@contextmanager
def structured(reply: str) -> Iterator[openai.OpenAI]:
    """A client of a model whose reply is ``reply``, constrained by what is requested."""
    engine = scripted(ids(reply, CHATML_END), end_ids=ENDS)
    with (
        running(create_app(StaticCatalog({"small": constrained(engine)}))) as base,
        openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client,
    ):
        yield client


def test_it_parses_what_a_schema_constrains() -> None:
    with structured('{"city":"Bern"}') as client:
        parsed = client.responses.parse(model="small", input="Where?", text_format=Weather)
        assert parsed.output_parsed == Weather(city="Bern")
        with client.responses.stream(model="small", input="Where?", text_format=Weather) as stream:
            assert stream.get_final_response().output_parsed == Weather(city="Bern")


def test_a_schema_that_cannot_be_enforced_is_refused_where_it_stands() -> None:
    with structured("{}") as client:
        for schema, param in [
            ({"type": "strin"}, "text.format.schema.type"),
            ({"$ref": "#/none"}, "text.format.schema"),
        ]:
            form: Any = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
            with pytest.raises(openai.BadRequestError) as caught:
                client.responses.create(model="small", input="Where?", text=form)
            assert (caught.value.param or "").startswith(param)


def test_an_engine_that_leaves_its_grammar_fails_the_response() -> None:
    with structured('{"city":5}') as client:
        with client.responses.stream(model="small", input="Where?", text_format=Weather) as stream:
            kinds = [event.type for event in stream]
        assert kinds[-2:] == ["error", "response.failed"]
