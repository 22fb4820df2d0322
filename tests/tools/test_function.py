"""A plain function is a tool: its signature is the schema, its docstring the description."""

from __future__ import annotations

import enum
import types
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import pytest

from antiphon.tools import FunctionTool, FunctionToolSet, Router, ToolCall


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
