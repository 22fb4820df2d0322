"""A plain function is a tool: its signature is the schema, its docstring the description."""

from __future__ import annotations

import datetime
import enum
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest

from antiphon.tools import FunctionTool, FunctionToolSet, Router, ToolCall, ToolOutput


class Unit(enum.StrEnum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


@dataclass
class Place:
    name: str
    country: str = "FR"


def weather(
    place: Place,
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 1,
    unit: Unit = Unit.CELSIUS,
    mode: Literal["a"] = "a",
) -> dict[str, object]:
    """Tell the weather.

    For some days ahead.

    Args:
        place: Where.
        days: How many days.
    """
    return {"place": place.name, "country": place.country, "days": days, "unit": unit, "mode": mode}


async def echo(text: str) -> str:
    """Say it again."""
    return text


def call(recipient: str, body: str) -> ToolCall:
    return ToolCall(call_id="c1", recipient=recipient, body=body)


def test_the_schema_is_the_signature_and_the_docstring() -> None:
    spec = FunctionTool(weather).spec
    assert spec.recipient == "functions.weather"
    assert spec.description == "Tell the weather.\n\nFor some days ahead."
    assert isinstance(spec.parameters, dict)
    assert spec.parameters["required"] == ["place"]
    assert spec.parameters["additionalProperties"] is False
    assert spec.parameters["properties"]["days"]["maximum"] == 7
    assert spec.parameters["properties"]["days"]["description"] == "How many days."
    assert spec.parameters["$defs"]["Unit"]["enum"] == ["celsius", "kelvin"]


async def test_arguments_reach_the_function_as_its_own_types() -> None:
    router = Router([FunctionTool(weather), FunctionTool(echo)])
    result = await router.call(call("functions.weather", '{"place": {"name": "Paris"}, "unit": "kelvin"}'))
    assert result.output is not None
    assert result.output.content == {"place": "Paris", "country": "FR", "days": 1, "unit": "kelvin", "mode": "a"}
    assert (await router.call(call("functions.echo", '{"text": "så"}'))).text(envelope=False) == "så"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"place": {"name": 1}}', "1 is not of type"),
        ("{}", "required"),
        ('{"place": {"name": "x"}, "days": 8}', "8 is greater than"),
        ('{"place": {"name": "x"}, "more": 1}', "more"),
        ('{"place": {"name": "x"}, "place": {"name": "y"}}', "given twice"),
        ('{"place": ', "not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"days": NaN}', "NaN is not JSON"),
        ('{"days": -1e999}', "-1e999 is too large"),
        ("[" * 100_000, "nested too deeply"),
        (r'{"place": {"name": "x"}, "mode": "\udedd"}', "lone surrogate"),
        ('{"days": ' + "1" * 5000 + "}", "cannot be read"),
        ('{"place": {"name": "x"}, "deadline_ms": -1}', "deadline_ms"),
    ],
)
@pytest.mark.spec("OCM-136")
async def test_a_body_that_breaks_the_schema_never_runs_the_tool(body: str, says: str) -> None:
    result = await Router([FunctionTool(weather)]).call(call("functions.weather", body))
    assert result.error is not None
    assert result.error.code == "E-CALL-SCHEMA"
    assert result.error.retryable, "the model may repair the call"
    assert says in result.error.message


def test_a_parameter_without_annotation_is_refused_when_the_tool_is_made() -> None:
    def bare(x):  # type: ignore[no-untyped-def]  # what the test is about
        return x

    with pytest.raises(TypeError, match="no annotation"):
        FunctionTool(bare)


def test_a_parameter_of_any_name_is_refused_when_the_tool_is_made() -> None:
    def several(*xs: int) -> None: ...

    with pytest.raises(TypeError, match="name each one"):
        FunctionTool(several)


def test_a_module_gives_its_own_public_functions() -> None:
    module = types.ModuleType("mine")
    source = "import os\ndef shout(text: str) -> str:\n    return text.upper()\ndef _hidden() -> None: ...\n"
    exec(compile(source, "mine.py", "exec"), module.__dict__)
    assert [spec.name for spec in FunctionToolSet.of_module(module).specs] == ["shout"]


@pytest.mark.parametrize(
    ("body", "details"),
    [
        ('{"place": {"name": 1}}', {"path": "$.place.name"}),
        ('{"place": {"name": "x"}, "days": 0}', {"path": "$.days"}),
        ("{}", {"path": "$"}),
        ('{\n  "place": }', {"line": 2, "column": 12}),
        ('{"place": {"name": "x"}, "deadline_ms": 0}', {"path": "$.deadline_ms"}),
        ('{"place": {"name": "x"}, "deadline_ms": true}', {"path": "$.deadline_ms"}),
        ('{"place": {"name": "x"}, "deadline_ms": 1.5}', {"path": "$.deadline_ms"}),
        ('{"place": {"name": "x"}, "deadline_ms": "5"}', {"path": "$.deadline_ms"}),
        ("[1]", {}),
    ],
)
async def test_a_refusal_names_the_place_in_the_body(body: str, details: dict[str, Any]) -> None:
    result = await Router([FunctionTool(weather)]).call(call("functions.weather", body))
    assert result.error is not None
    assert result.error.details == details


async def test_a_place_in_a_list_has_its_number() -> None:
    def add(numbers: list[int]) -> int:
        """Adds."""
        return sum(numbers)

    router = Router([FunctionTool(add)])
    assert (await router.call(call("functions.add", '{"numbers": [1, 2]}'))).text(envelope=False) == "3"
    refused = await router.call(call("functions.add", '{"numbers": [1, "2"]}'))
    assert refused.error is not None
    assert refused.error.details == {"path": "$.numbers[1]"}


@pytest.mark.parametrize("body", ["", "  ", "\n\t", "{}"])
async def test_an_empty_body_is_no_arguments(body: str) -> None:
    def now(zone: str = "UTC") -> str:
        """Tells the time."""
        return zone

    assert (await Router([FunctionTool(now)]).call(call("functions.now", body))).text(envelope=False) == "UTC"


async def test_what_the_schema_cannot_say_is_refused_by_the_type() -> None:
    def week(day: datetime.date) -> int:
        """Which week."""
        return day.isocalendar().week

    router = Router([FunctionTool(week)])
    assert (await router.call(call("functions.week", '{"day": "2026-01-05"}'))).text(envelope=False) == "2"
    refused = await router.call(call("functions.week", '{"day": "tomorrow"}'))
    assert refused.error is not None
    assert (refused.error.code, refused.error.retryable) == ("E-CALL-SCHEMA", True)


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("text", "text"),
        (None, None),
        ({1: Place("x")}, {"1": {"name": "x", "country": "FR"}}),
        (Unit.KELVIN, "kelvin"),
        (ToolOutput(content="own", plain=True), "own"),
    ],
)
async def test_what_a_function_returns_is_json(returned: object, content: object) -> None:
    def tell() -> object:
        """Tells."""
        return returned

    async def tell_later() -> object:
        """Tells."""
        return returned

    for function in (tell, tell_later):
        tool = FunctionTool(function)
        result = await Router([tool]).call(call(tool.recipient, ""))
        assert result.output is not None
        assert result.output.content == content
        assert result.output.plain is isinstance(returned, ToolOutput)


def described_twice(
    city: Annotated[str, msgspec.Meta(description="Its own words.")], more: int = 7, *, last: bool = False
) -> None:
    """Only one line.

    Args:
        city: Other words.
        nobody: Is no parameter.
    """


def test_a_parameter_s_own_words_count_before_the_docstring_s() -> None:
    spec = FunctionTool(described_twice).spec
    assert spec.description == "Only one line."
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its own words."},
            "more": {"type": "integer", "default": 7},
            "last": {"type": "boolean", "default": False},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_function_without_a_word_has_no_description() -> None:
    def mute() -> None: ...

    assert FunctionTool(mute).spec.description == ""
    assert FunctionTool(mute).spec.parameters == {
        "type": "object", "properties": {}, "required": [], "additionalProperties": False,
    }  # fmt: skip


def test_a_parameter_that_cannot_be_named_is_refused_when_the_tool_is_made() -> None:
    def by_place(x: int, /) -> None: ...

    def any_name(**xs: int) -> None: ...

    for function in (by_place, any_name):
        with pytest.raises(TypeError, match="name each one"):
            FunctionTool(function)


async def test_a_tool_set_s_functions_have_its_namespace_and_run_in_its_executor() -> None:
    def where() -> str:
        """Tells its thread."""
        return threading.current_thread().name

    with ThreadPoolExecutor(1, thread_name_prefix="own") as pool:
        tools = FunctionToolSet([where], namespace="mine", executor=pool)
        assert (await Router(tools.tools).call(call("mine.where", ""))).text(envelope=False).startswith("own")
        module = types.ModuleType("module")
        module.__dict__["where"] = where
        where.__module__ = "module"
        of_module = FunctionToolSet.of_module(module, executor=pool)
        assert (await Router(of_module.tools).call(call("functions.where", ""))).text(envelope=False).startswith("own")
    ours = (await Router([FunctionTool(where)]).call(call("functions.where", ""))).text(envelope=False)
    assert ours == "tool", "a thread of the tool's own"


def test_a_module_says_itself_what_is_public() -> None:
    module = types.ModuleType("mine")
    source = "def one() -> None: ...\ndef _two() -> None: ...\ndef three() -> None: ...\n__all__ = ['_two', 'three']\n"
    exec(compile(source, "mine.py", "exec"), module.__dict__)
    assert [spec.name for spec in FunctionToolSet.of_module(module).specs] == ["_two", "three"]
