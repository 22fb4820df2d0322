"""Every public function × every parameter × values that it was not made for: refused as an error that names it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

import antiphon
from antiphon.config import Config, ModelEntry
from antiphon.conversation import Settings, ToolSpec
from antiphon.engines import Scripted
from antiphon.errors import AntiphonError, ConfigError, RequestError
from antiphon.errors.codes import CODES
from antiphon.generation.compile import ReplyCompiler
from antiphon.library.options import ChatOptions
from kit.api import CHATML, END, TOKENIZER, call, ids, model, scripted


def opened(**arguments: Any) -> None:
    given = {"source": "smollm2", "engine": Scripted(reply="Hi."), "config": Config(), "fetch": False}
    odd: dict[str, Any] = {**given, **arguments}
    with antiphon.open_model(**odd):
        pass


def of_a_model(method: str) -> Callable[..., Any]:
    """A method of a model, which is opened for one call."""

    def use(**arguments: Any) -> object:
        with antiphon.open_model(model(scripted(ids("Hello.", END)))) as small:
            made = getattr(small, method)(**arguments)
            return list(made) if method == "stream" else made

    return use


FUNCTIONS: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]] = MappingProxyType(
    {
        "open_model": (opened, {}),
        "open_app": (antiphon.open_app, {"config": Config()}),
        "render": (antiphon.render, {"messages": "Hi"}),
        "parse": (antiphon.parse, {"reply": "Hi"}),
        "convert": (antiphon.convert, {"source": "", "to": "chat", "form": "openchatml"}),
        "validate": (antiphon.validate, {"transcript": ""}),
        "read_chat": (antiphon.read_chat, {"body": [{"role": "user", "content": "Hi"}]}),
        "ChatModel.chat": (of_a_model("chat"), {"messages": "Hi"}),
        "ChatModel.stream": (of_a_model("stream"), {"messages": "Hi"}),
        "ChatModel.render": (of_a_model("render"), {"messages": "Hi"}),
        "ChatModel.embed": (of_a_model("embed"), {"texts": ["Hi"]}),
    }
)


def function_named(name: str) -> Any:
    owner, _, method = name.rpartition(".")
    return getattr(getattr(antiphon, owner), method) if owner else getattr(antiphon, method)


def parameters(name: str) -> list[str]:
    """The names of a function's parameters, options and settings included."""
    found = [each for each in inspect.signature(function_named(name)).parameters.values() if each.name != "self"]
    named = [each.name for each in found if each.kind is not each.VAR_KEYWORD]
    if name == "open_model":
        return [*named, *(field for field in ModelEntry.__struct_fields__ if field not in named)]
    if name == "open_app":
        return [*named, "engines", "formats", "stores", "tools", "wires"]
    return [*named, *(ChatOptions.__annotations__ if len(named) < len(found) else ())]


class Nothing:
    """A value that no parameter takes."""


def itself(value: object) -> object:
    return value


MESSAGE: Any = antiphon.Message
"""The class as who does not check types has it."""
CONVERSATION: Any = antiphon.Conversation
TOOL: Any = ToolSpec
USER = antiphon.Role.USER
ODD: list[Any] = [
    Nothing(), [Nothing()], {"a": Nothing()}, {1: 2}, [1], ["a"], [-1], [None], [[]], [{}], {}, [], (), b"\xff", -1,
    10**400, float("nan"), True, None, "\ud800", "nonsense", "", itself, int, list[int], 1.5, 1j, iter([1]), Config(),
    MESSAGE(role="user", text="x"), MESSAGE(role=USER, text=3), CONVERSATION("abc"), CONVERSATION(tools=(5,)),
    CONVERSATION((MESSAGE(role=USER, text="x", end="end"),)),
    CONVERSATION(settings=Settings(template_kwargs={"a": 1j})),
    [TOOL(5)], [TOOL("f", parameters={"type": Nothing()})], [TOOL("")], [itself, itself], [print],
    [lambda city: city], {"type": "object", "properties": {"x": Nothing()}}, {"type": 5},
]  # fmt: skip
CASES = [(name, parameter) for name in FUNCTIONS for parameter in parameters(name)]


def test_every_public_function_is_looked_at() -> None:
    functions = {name for name in antiphon.__all__ if inspect.isroutine(getattr(antiphon, name))}
    methods = {
        f"ChatModel.{name}" for name, _ in inspect.getmembers(antiphon.ChatModel, inspect.isroutine) if name[0] != "_"
    }
    assert functions | methods == set(FUNCTIONS)


@pytest.mark.parametrize(("name", "parameter", "part"), [(*case, i % 3) for i, case in enumerate(CASES)])
def test_an_odd_value_is_taken_or_refused_by_an_antiphon_error(name: str, parameter: str, part: int) -> None:
    """Each parameter has a third of the values."""
    use, arguments = FUNCTIONS[name]
    for value in ODD[part::3]:
        with suppress(AntiphonError):
            use(**{**arguments, parameter: value})


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_value_of_no_type_that_it_takes_is_refused_with_code_parameter_and_hint(name: str, parameter: str) -> None:
    use, arguments = FUNCTIONS[name]
    with pytest.raises(AntiphonError) as caught:
        use(**{**arguments, parameter: Nothing()})
    error = caught.value
    assert isinstance(error, RequestError | ConfigError)
    assert error.code in CODES
    assert error.position is not None
    assert str(error.position) == parameter
    assert error.message.startswith(parameter)
    assert error.hint


def at(name: str, **arguments: Any) -> tuple[str | None, str]:
    """The parameter that is refused, and the error as it is printed."""
    use, others = FUNCTIONS[name]
    with pytest.raises(RequestError) as caught:
        use(**{**others, **arguments})
    assert caught.value.hint
    return caught.value.param, str(caught.value)


def constrained(**options: Any) -> tuple[str, str]:
    """What a model refuses whose engine takes grammars: the parameter, and the error as it is printed."""
    compiler = ReplyCompiler(CHATML, TOKENIZER, TOKENIZER.controls.values())
    constraining = replace(model(scripted(ids("x", END))), compiler=compiler)
    with antiphon.open_model(constraining) as small, pytest.raises(RequestError) as caught:
        small.chat("Hi", **options)
    return caught.value.param or "", str(caught.value)


def weather(city: str) -> str:
    return city


def loose(*cities: str) -> str:
    return ", ".join(cities)


CHAT_TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("name", "arguments", "path", "words"),
    [
        ("ChatModel.chat", {"max_tokens": "3"}, "max_tokens", "max_tokens=3"),
        ("ChatModel.chat", {"temperature": "hot"}, "temperature", "a number or None is expected, not 'hot' (str)"),
        ("ChatModel.chat", {"reasoning_effort": "huge"}, "reasoning_effort", "xhigh"),
        ("ChatModel.chat", {"tools": weather}, "tools", "tools=[weather]"),
        ("ChatModel.chat", {"tools": CHAT_TOOL}, "tools", "a list of"),
        ("ChatModel.chat", {"tools": [weather, weather]}, "tools[1]", "another tool is named 'weather'"),
        ("ChatModel.chat", {"tools": [weather, CHAT_TOOL]}, "tools[1]", "another tool is named 'weather'"),
        ("ChatModel.chat", {"tools": [5]}, "tools[0]", "a function"),
        ("ChatModel.chat", {"tools": [loose]}, "tools[0]", "name each one"),
        ("ChatModel.chat", {"tools": [lambda: "x"]}, "tools[0]", "no name"),
        ("ChatModel.chat", {"tools": [weather], "tool_choice": "wether"}, "tool_choice", "weather"),
        ("ChatModel.chat", {"stop": 5}, "stop", "a list of texts"),
        ("ChatModel.chat", {"stop": ["a", 5]}, "stop[1]", "a text"),
        ("ChatModel.chat", {"history": "Hi"}, "history", "Conversation"),
        ("ChatModel.chat", {"messages": [{"role": "user", "content": Nothing()}]}, "messages", "JSON cannot carry"),
        ("ChatModel.chat", {"messages": MESSAGE(role="user", text="x")}, "messages.role", "Role.SYSTEM"),
        ("parse", {"reply": ["a"]}, "reply[0]", "a whole number"),
        ("parse", {"reply": [-1]}, "reply[0]", "no token -1"),
        ("parse", {"reply": [10**9]}, "reply[0]", "201088"),
        ("convert", {"source": {"messages": []}}, "source", "a text or bytes"),
        ("convert", {"source": "\ud800"}, "source", "surrogate"),
        ("validate", {"transcript": [5]}, "transcript[0]", "bytes"),
        ("validate", {"transcript": iter([5])}, "transcript[0]", "bytes"),
        ("render", {"messages": [5]}, "messages[0]", "a Message"),
        ("read_chat", {"body": "{"}, "body", "JSON"),
        ("ChatModel.embed", {"texts": "Hi"}, "texts", '["Hi"]'),
        ("ChatModel.embed", {"texts": ["Hi", 5]}, "texts[1]", "a text"),
        ("open_app", {"flags": {"server.expose_reasoning": True}}, "flags", "Config"),
    ],
)  # fmt: skip
def test_what_newcomers_get_wrong_is_said_in_the_words_of_the_call(
    name: str, arguments: dict[str, Any], path: str, words: str
) -> None:
    param, printed = at(name, **arguments)
    assert param == path
    assert words.replace('"', "'") in printed.replace('"', "'")


def test_tools_may_be_the_dictionaries_of_chat_apis() -> None:
    with antiphon.open_model(model(scripted(ids(*call("weather", '{"city": "Rome"}'), END)))) as small:
        reply = small.chat("Rome?", tools=[CHAT_TOOL])
    assert [each.recipient for each in reply.calls] == ["functions.weather"]


def test_the_call_of_a_tool_without_a_function_is_answered_in_the_chat_that_goes_on() -> None:
    replies: Iterator[list[int]] = iter([ids(*call("weather", '{"city": "Rome"}'), END), ids("Rain.", END)])
    with antiphon.open_model(model(scripted(lambda prompt, sampling, choice: next(replies)))) as small:
        first = small.chat("Rome?", tools=[CHAT_TOOL])
        result = {"role": "tool", "tool_call_id": first.calls[0].call_id, "content": "rain"}
        second = small.chat([result], history=first.conversation)
    assert second.text == "Rain."
    assert second.conversation.messages[-2].name == "functions.weather"


def test_the_schema_of_a_tool_is_named_where_it_stands() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"type": "object", "properties": {"in": deep}}
    given = {"type": "function", "function": {"name": "deep", "parameters": deep}}
    assert constrained(tools=[weather, ToolSpec("deep", parameters=deep)])[0].startswith(
        "tools[1].parameters.properties.in"
    )
    assert constrained(tools=[given])[0].startswith("tools[0].function.parameters.properties.in")


def test_what_no_grammar_can_enforce_of_a_response_is_named_by_its_place() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?=a)"}}}
    param, printed = constrained(response=schema)
    assert param == "response.properties.x.pattern"
    assert "response_format" not in printed
    assert "strict" not in printed


def test_a_format_of_the_program_is_opened_by_its_name() -> None:
    made: list[object] = []

    def mine(controls: Any) -> Any:
        made.append(controls)
        return model(scripted([])).format

    opened(format="mine", formats={"mine": mine})
    assert made


@pytest.mark.parametrize(
    ("settings", "hint"),
    [({"thread": 2}, "threads"), ({"kontext": 2}, "context"), ({"engine": "vllm", "served_nam": "x"}, "served_name")],
)
def test_a_misspelled_setting_is_reported_with_those_of_its_engine_too(settings: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError) as caught, antiphon.open_model("smollm2", config=Config(), **settings):
        pass
    assert hint in str(caught.value.hint)
    assert str(caught.value.position) in settings
