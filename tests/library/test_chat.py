"""Chats through the front door: whole and streamed, sync and async, with tools; the model is scripted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import antiphon
from antiphon.conversation import FinishReason, ToolSpec
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.errors import ConfigError, EngineError, NotFoundError, RequestError
from antiphon.generation import Model
from antiphon.library.options import ChatInput
from kit.api import END, THINK, UNTHINK, call, ids, model, scripted


def saying(*turns: Sequence[int]) -> ScriptedEngine:
    """An engine that says one reply after the other."""
    replies = iter(turns)
    return scripted(lambda prompt, sampling, choice: next(replies))


def thoughtful() -> Model:
    return model(saying(*[ids(THINK, "Easy.", UNTHINK, "Four.", END)] * 2))


def weather(city: str, days: int = 1) -> str:
    """The weather of a city.

    Args:
        city: The city's name.
    """
    return f"Rain in {city} for {days} days"


async def forecast(city: str) -> dict[str, str]:
    """Tomorrow's weather of a city."""
    return {"city": city, "sky": "blue"}


def test_a_reply_has_its_visible_text_apart_from_its_reasoning() -> None:
    with antiphon.open_model(thoughtful()) as small:
        reply = small.chat("2 + 2?")
    assert (reply.text, str(reply), reply.reasoning) == ("Four.", "Four.", "Easy.")
    assert reply.finish_reason is FinishReason.STOP_EOS
    assert reply.usage.completion_tokens == len(ids(THINK, "Easy.", UNTHINK, "Four.", END))
    assert reply.parsed is None


async def test_asynchronous_programs_get_the_same_reply() -> None:
    async with antiphon.open_model(thoughtful()) as small:
        reply = await small.chat("2 + 2?")
    with antiphon.open_model(thoughtful()) as other:
        assert other.chat("2 + 2?") == reply


def test_what_is_streamed_is_the_reply_in_pieces_and_the_reply_comes_last() -> None:
    with antiphon.open_model(thoughtful()) as small:
        deltas = list(small.stream("2 + 2?"))
    assert "".join(delta.text for delta in deltas) == "Four."
    assert "".join(delta.reasoning for delta in deltas) == "Easy."
    *pieces, last = deltas
    assert last.reply is not None
    assert last.reply.text == "Four."
    assert all(sum(map(bool, (d.text, d.reasoning, d.call, d.result, d.reply))) == 1 for d in deltas)
    assert len(pieces) > 4


def test_leaving_a_stream_stops_the_engine() -> None:
    engine = scripted(ids("la " * 2000, END))
    with antiphon.open_model(model(engine)) as small:
        for delta in small.stream("Sing"):
            if delta.text:
                break
        del delta
        assert small.chat("Again", max_tokens=3).text == "la "
        assert engine.running == 0


def test_a_conversation_goes_on_from_a_reply() -> None:
    engine = saying(ids("Paris.", END), ids("Rome.", END))
    with antiphon.open_model(model(engine)) as small:
        first = small.chat("Of France?", system="Capitals only.")
        second = small.chat("Of Italy?", history=first.conversation)
    messages = [(message.role.value, message.text) for message in second.conversation.messages]
    assert messages == [
        ("system", "Capitals only."), ("user", "Of France?"), ("assistant", "Paris."), ("user", "Of Italy?"),
        ("assistant", "Rome."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "messages",
    [
        "Hi",
        antiphon.Message(role=antiphon.Role.USER, text="Hi"),
        [antiphon.Message(role=antiphon.Role.USER, text="Hi")],
        antiphon.Conversation((antiphon.Message(role=antiphon.Role.USER, text="Hi"),)),
        [{"role": "user", "content": "Hi"}],
        [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        {"messages": [{"role": "user", "content": "Hi"}]},
    ],
)
def test_a_question_may_be_text_messages_a_conversation_or_chat_json(messages: ChatInput) -> None:
    with antiphon.open_model(model(scripted(ids("Hello.", END)))) as small:
        assert small.render(messages) == small.render("Hi")


def test_an_option_that_there_is_not_is_refused() -> None:
    wrong: dict[str, Any] = {"temprature": 0}
    with antiphon.open_model(model(scripted(ids("Hello.", END)))) as small:
        with pytest.raises(TypeError, match=r"temprature.*temperature"):
            small.chat("Hi", **wrong)
        with pytest.raises(TypeError, match="temprature"):
            small.render("Hi", **wrong)


def test_functions_run_here_and_the_model_goes_on_with_their_results() -> None:
    engine = saying(ids(*call("weather", '{"city": "Rome"}'), END), ids("It rains.", END))
    with antiphon.open_model(model(engine)) as small:
        *deltas, last = small.stream("Weather in Rome?", tools=[weather, forecast])
    assert [delta.call.recipient for delta in deltas if delta.call] == ["functions.weather"]
    assert [delta.result.text(envelope=False) for delta in deltas if delta.result] == ["Rain in Rome for 1 days"]
    assert last.reply is not None
    assert (last.reply.text, last.reply.calls) == ("It rains.", ())
    assert "Rain in Rome" in str(small.render(last.reply.conversation))


async def test_asynchronous_functions_run_here_too() -> None:
    engine = saying(ids(*call("forecast", '{"city": "Rome"}'), END), ids("Blue.", END))
    async with antiphon.open_model(model(engine)) as small:
        reply = await small.chat("Tomorrow?", tools=[weather, forecast])
    assert [m.text for m in reply.messages if m.role is antiphon.Role.TOOL] == ['{"city": "Rome", "sky": "blue"}']


def test_a_call_of_a_tool_without_a_function_is_given_back() -> None:
    engine = saying(ids(*call("book", '{"seats": 2}'), END))
    with antiphon.open_model(model(engine)) as small:
        reply = small.chat("Two seats", tools=[ToolSpec("book", parameters={"type": "object"})])
    assert [(c.recipient, c.body) for c in reply.calls] == [("functions.book", '{"seats": 2}')]
    assert reply.finish_reason is FinishReason.TOOL_CALL


def test_options_reach_the_engine() -> None:
    engine = saying(ids("la la la", END))
    with antiphon.open_model(model(engine)) as small:
        small.chat("Sing", temperature=0.25, top_p=0.5, max_tokens=5, seed=7)
    ((_, sampling, _),) = engine.requests
    assert sampling == Sampling(
        max_tokens=5, temperature=0.25, top_p=0.5, top_k=40, min_p=0.05, seed=7, stop_ids=sampling.stop_ids
    )


def test_a_stop_string_ends_the_answer() -> None:
    with antiphon.open_model(model(saying(ids("one two three", END)))) as small:
        reply = small.chat("Count", stop=["two"])
    assert (reply.text, reply.finish_reason) == ("one ", FinishReason.STOP_SEQUENCE)


def test_errors_are_raised_where_the_chat_is_requested() -> None:
    with antiphon.open_model(model(scripted(ids("x", END)))) as small:
        with pytest.raises(RequestError, match="temperature is 9"):
            small.chat("Hi", temperature=9.0)
        with pytest.raises(RequestError, match="role"):
            small.chat([{"role": "clown", "content": "Hi"}])


def test_an_unknown_model_is_named_with_those_that_are_near() -> None:
    with pytest.raises(NotFoundError, match="smolm2") as caught, antiphon.open_model("smolm2"):
        pass
    assert "smollm2" in str(caught.value.hint)


def test_a_server_needs_its_engine() -> None:
    with pytest.raises(ConfigError, match="engine"), antiphon.open_model("http://127.0.0.1:9"):
        pass


def test_the_body_of_a_chat_request_brings_its_settings_and_options_come_before_them() -> None:
    engine = scripted(ids("la la la", END))
    body = {"messages": [{"role": "user", "content": "Sing"}], "max_tokens": 4, "temperature": 0.5, "stop": "z"}
    with antiphon.open_model(model(engine)) as small:
        small.chat(body, temperature=0.25)
    ((_, sampling, _),) = engine.requests
    assert (sampling.max_tokens, sampling.temperature) == (4, 0.25)


@pytest.mark.parametrize("field", ["n", "logprobs", "session_id", "no_such_field"])
def test_what_a_body_asks_of_a_server_alone_is_refused_by_its_name(field: str) -> None:
    value = {"n": 2, "session_id": "s"}.get(field, True)
    body = {"messages": [{"role": "user", "content": "Hi"}], field: value}
    with antiphon.open_model(model(scripted(ids("x", END)))) as small, pytest.raises(RequestError, match=field):
        small.chat(body)


@pytest.mark.parametrize("nothing", [[], 5, None])
def test_what_is_no_conversation_is_refused(nothing: ChatInput) -> None:
    with antiphon.open_model(model(scripted(ids("x", END)))) as small, pytest.raises(RequestError, match="messages"):
        small.chat(nothing)


def test_a_history_has_its_own_system_text() -> None:
    with antiphon.open_model(model(scripted(ids("x", END)))) as small, pytest.raises(RequestError, match="system"):
        small.render("Hi", system="Be brief.", history=antiphon.Conversation())


def test_a_model_that_was_not_entered_says_how_it_is() -> None:
    with pytest.raises(AttributeError, match=r"with antiphon\.open_model"):
        antiphon.open_model(model(scripted(ids("x", END)))).chat("Hi")


def test_a_model_whose_with_has_ended_says_so() -> None:
    with antiphon.open_model(model(scripted(ids("x", END)))) as small:
        pass
    with pytest.raises(EngineError, match="closed"):
        small.chat("Hi")
