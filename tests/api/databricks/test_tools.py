"""Tools in Databricks' dialect: which may be called, and what their schemas may say."""

from __future__ import annotations

from typing import Any

import pytest

from kit.api import running
from kit.databricks import FRAME, USER, ask, called, constrained, invoke, refusal, tool


@pytest.mark.spec("DBX-25", "DBX-26", "DBX-30", "DBX-52", "DBX-53")
@pytest.mark.parametrize(
    "choice",
    [
        "some", 1, {"type": "function"}, {"type": "tool", "function": {"name": "f"}},
        {"type": "function", "function": {}}, {"type": "function", "function": {"name": "g"}}, {"name": "f"},
    ],
)  # fmt: skip
def test_a_tool_choice_is_a_word_or_names_one_of_the_tools(base: str, choice: Any) -> None:
    assert "tool_choice" in refusal(ask(base, tools=[tool()], tool_choice=choice))


@pytest.mark.spec("DBX-25")
def test_a_tool_choice_needs_tools(base: str) -> None:
    for choice in ("auto", "required", {"type": "function", "function": {"name": "f"}}):
        assert "tool_choice" in refusal(ask(base, tool_choice=choice))
    assert ask(base, tool_choice="none").status == 200


@pytest.mark.spec("DBX-27", "DBX-29", "DBX-31")
def test_by_default_the_model_decides_and_none_hides_the_tools() -> None:
    spoken, application = constrained("No need.")
    with running(application) as base:
        for choice in (None, "auto"):
            assert ask(base, tools=[tool()], tool_choice=choice).json["choices"][0]["finish_reason"] == "stop"
        assert ask(base, tools=[tool()], tool_choice="none").status == 200
        assert ask(base).status == 200
    free, auto, none, bare = (len(prompt) for prompt, _, _ in spoken.requests)
    assert free == auto > none == bare == FRAME + 2
    _, calling = constrained(*called("f", "{}"))
    with running(calling) as base:
        for choice in (None, "auto"):
            assert ask(base, tools=[tool()], tool_choice=choice).json["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.spec("DBX-28", "DBX-30", "DBX-58", "DBX-59")
def test_a_required_or_named_tool_is_called_with_what_its_schema_says() -> None:
    number = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tools = [tool("f", parameters=number), tool("g")]
    named = {"type": "function", "function": {"name": "g"}}
    cases = [
        (called("f", '{"a": 1}'), "required", True), (called("f", '{"a": "x"}'), "required", False),
        (("I will not.",), "required", False), (called("g", "{}"), named, True),
        (called("g", '{"a": 1}'), named, False), (called("f", '{"a": 1}'), named, False),
    ]  # fmt: skip
    for reply, choice, fits in cases:
        engine, application = constrained(*reply)
        with running(application) as base:
            got = ask(base, tools=tools, tool_choice=choice)
        assert engine.requests[0][2] is not None
        assert (got.status == 200) is fits, (reply, choice, got.body)
        if fits:
            assert got.json["choices"][0]["finish_reason"] == "tool_calls"
            assert got.json["choices"][0]["message"]["content"] is None


@pytest.mark.spec("DBX-32", "DBX-33", "DBX-34", "DBX-48", "DBX-54", "DBX-55", "DBX-56")
def test_tools_are_at_most_32_functions(base: str) -> None:
    assert ask(base, tools=None).status == 200
    assert ask(base, tools=[tool(f"f{i}") for i in range(32)]).status == 200
    assert "at most 32" in refusal(ask(base, tools=[tool(f"f{i}") for i in range(33)]))
    for bad in (
        {"type": "retrieval"},
        {"type": "function"},
        {"function": {"name": "f"}},
        {"type": "function", "function": {}},
    ):
        assert "tools[0]" in refusal(ask(base, tools=[bad]))


@pytest.mark.spec("DBX-57")
def test_a_functions_description_is_text_and_strictly_needed(base: str, strict_base: str) -> None:
    bare = {"type": "function", "function": {"name": "f"}}
    assert ask(base, tools=[bare]).status == 200
    assert "description" in refusal(ask(strict_base, tools=[bare]))
    assert "description" in refusal(ask(base, tools=[tool(description={})]))


@pytest.mark.spec("DBX-60")
def test_a_function_has_16_properties_at_most_and_strictly_15(base: str, strict_base: str) -> None:
    """Resolution X-26: those of the top level are counted."""

    def wide(count: int) -> list[dict[str, Any]]:
        inner = {"type": "object", "properties": {f"q{i}": {"type": "string"} for i in range(20)}}
        names = [f"p{i}" for i in range(count)]
        known = {**{name: {"type": "string"} for name in names}, "p0": inner}
        return [tool(parameters={"type": "object", "properties": known})]

    assert ask(base, tools=wide(16)).status == 200
    assert "at most 16" in refusal(ask(base, tools=wide(17)))
    assert ask(strict_base, tools=wide(15)).status == 200
    assert "at most 15" in refusal(ask(strict_base, tools=wide(16)))
    assert invoke(base, "/v1/chat/completions", messages=[USER], tools=wide(17)).status == 200


@pytest.mark.spec("DBX-58", "DBX-61", "DBX-67")
@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "string", "pattern": "a"}, "pattern"), ({"anyOf": []}, "anyOf"), ({"oneOf": []}, "oneOf"),
        ({"allOf": []}, "allOf"), ({"prefixItems": []}, "prefixItems"), ({"$ref": "#"}, "$ref"),
        ({"type": ["string", "integer"]}, "type"), ({"type": "array", "items": {"anyOf": []}}, "items.anyOf"),
    ],
)  # fmt: skip
def test_a_strict_schema_keeps_to_the_subset_and_the_keyword_is_named(base: str, schema: Any, keyword: str) -> None:
    """Resolution D-11."""
    parameters = {"type": "object", "properties": {"pattern": schema}}
    wish = {"type": "json_schema", "json_schema": {"name": "n", "schema": parameters, "strict": True}}
    path = f"parameters.properties.pattern.{keyword}"
    assert path in refusal(ask(base, tools=[tool(parameters=parameters, strict=True)]))
    assert f"schema.properties.pattern.{keyword}" in refusal(ask(base, response_format=wish))


@pytest.mark.spec("DBX-61")
def test_a_property_may_be_named_as_a_keyword_is_and_be_null() -> None:
    fine = {"type": "object", "properties": {"pattern": {"type": ["string", "null"]}}}
    _, application = constrained(*called("f", '{"pattern": null}'))
    with running(application) as base:
        assert ask(base, tools=[tool(parameters=fine, strict=True)]).status == 200
