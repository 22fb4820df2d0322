"""Roles, contents and calls of the messages in Databricks' dialect."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.generation import Model
from kit.api import END, TOKENIZER, app, call, ids, running, scripted
from kit.databricks import FRAME, USER, ask, called, constrained, invoke, refusal, tool

CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "1"}


@pytest.mark.spec("DBX-41")
def test_there_are_four_roles_and_strictly_no_more(base: str, strict_base: str) -> None:
    system = {"role": "system", "content": "Be brief."}
    talk = [system, USER, {"role": "assistant", "tool_calls": [CALLED]}, RESULT]
    developer = [{"role": "developer", "content": "x"}, USER]
    assert ask(strict_base, messages=talk).status == 200
    assert ask(base, messages=developer).status == 200
    assert "messages[0].role" in refusal(ask(strict_base, messages=developer))
    for role in ("robot", None, 1):
        assert "messages[0]" in refusal(ask(base, messages=[{"role": role, "content": "x"}]))


@pytest.mark.spec("DBX-42", "DBX-43")
def test_content_is_needed_where_no_tool_is_called_and_strictly_forbidden_where_one_is(
    base: str, strict_base: str
) -> None:
    """Resolution D-09."""
    for role in ("user", "system", "assistant"):
        assert "messages[0].content" in refusal(ask(base, messages=[{"role": role}]))
    beside = [USER, {"role": "assistant", "content": "Let me see.", "tool_calls": [CALLED]}, RESULT]
    for empty in ({}, {"content": None}, {"content": ""}):
        alone = [USER, {"role": "assistant", "tool_calls": [CALLED], **empty}, RESULT]
        assert [ask(one, messages=alone).status for one in (base, strict_base)] == [200, 200]
    assert ask(base, messages=beside).status == 200
    assert "messages[1].content" in refusal(ask(strict_base, messages=beside))
    for role in ("user", "system"):
        assert "tool_calls" in refusal(ask(base, messages=[{"role": role, "content": "x", "tool_calls": [CALLED]}]))


@pytest.mark.spec("DBX-44")
def test_a_tools_message_answers_a_call_and_no_other_message_does(base: str) -> None:
    calling = {"role": "assistant", "tool_calls": [CALLED]}
    assert ask(base, messages=[USER, calling, RESULT]).status == 200
    for result in ({**RESULT, "tool_call_id": "c2"}, {"role": "tool", "content": "1"}):
        assert "messages[2].tool_call_id" in refusal(ask(base, messages=[USER, calling, result]))
    for role in ("user", "assistant", "system"):
        bad = [{"role": role, "content": "x", "tool_call_id": "c1"}]
        assert "messages[0].tool_call_id" in refusal(ask(base, messages=bad))


@pytest.mark.spec("DBX-45")
def test_the_system_speaks_once_and_first(base: str) -> None:
    system = {"role": "system", "content": "Be brief."}
    assert ask(base, messages=[system, USER]).status == 200
    for talk in ([USER, system], [system, system, USER], [system, USER, system]):
        assert "as the first message" in refusal(ask(base, messages=talk))
    for path in ("/v1/chat/completions", "/lmdeploy/v1/chat/completions"):
        assert invoke(base, path, messages=[USER, system, system]).status == 200


@pytest.mark.spec("DBX-46")
def test_a_system_message_overrides_the_models_own() -> None:
    """Resolution X-09, with a template that has a system text of its own."""
    from antiphon.formats.template import template_format

    engine = scripted(ids("Hi"))
    internlm = template_format("internlm-chat-7b", TOKENIZER.controls.keys())
    spoken = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=internlm)
    with running(create_app(StaticCatalog({"small": spoken}))) as base:
        ask(base)
        ask(base, messages=[{"role": "system", "content": "Be brief."}, USER])
    own, theirs = (bytes(prompt).decode(errors="replace") for prompt, _, _ in engine.requests)
    assert "InternLM" in own
    assert "Be brief." in theirs
    assert "InternLM" not in theirs


@pytest.mark.spec("DBX-47", "DBX-48", "DBX-49", "DBX-50", "DBX-51")
@pytest.mark.parametrize(
    "bad",
    [
        {"id": None}, {"type": "code"}, {"function": None}, {"function": {"arguments": "{}"}},
        {"function": {"name": "f", "arguments": 1}}, {"function": {"name": "", "arguments": "{}"}},
    ],
)  # fmt: skip
def test_a_call_in_the_history_that_lacks_something_is_refused(base: str, bad: dict[str, Any]) -> None:
    message = refusal(ask(base, messages=[USER, {"role": "assistant", "tool_calls": [{**CALLED, **bad}]}]))
    assert "messages[1].tool_calls[0]" in message


def without(call: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != name}


FUNCTION = {"name": "f", "arguments": "{}"}
LACKING = [
    (without(CALLED, "type"), "type"), ({**CALLED, "type": None}, "type"),
    ({**CALLED, "function": {"name": "f"}}, "function.arguments"),
    ({**CALLED, "function": {**FUNCTION, "arguments": None}}, "function.arguments"),
    ({**CALLED, "function": {**FUNCTION, "arguments": ""}}, "function.arguments"),
    ({**CALLED, "function": {**FUNCTION, "arguments": "{bro"}}, "function.arguments"),
    ({**CALLED, "function": {**FUNCTION, "arguments": "[1]"}}, "function.arguments"),
    ({**CALLED, "index": 0}, "index"), ({**CALLED, "function": {**FUNCTION, "strict": True}}, "function.strict"),
]  # fmt: skip


@pytest.mark.spec("DBX-48", "DBX-51")
@pytest.mark.parametrize(("bad", "field"), LACKING)
def test_strictly_a_call_has_all_its_fields_and_no_other_and_an_object_of_arguments(
    strict_base: str, bad: dict[str, Any], field: str
) -> None:
    message = refusal(ask(strict_base, messages=[USER, {"role": "assistant", "tool_calls": [bad]}, RESULT]))
    assert message.startswith(f"messages[1].tool_calls[0].{field}")


@pytest.mark.spec("DBX-47")
def test_strictly_no_two_calls_of_a_conversation_have_one_id(base: str, strict_base: str) -> None:
    calling = {"role": "assistant", "tool_calls": [CALLED]}
    again = [USER, calling, RESULT, calling, RESULT]
    assert ask(base, messages=again).status == 200
    assert refusal(ask(strict_base, messages=again)).startswith("messages[3].tool_calls[0].id")
    other = {"role": "assistant", "tool_calls": [{**CALLED, "id": "c2"}]}
    assert ask(strict_base, messages=[USER, calling, RESULT, other, {**RESULT, "tool_call_id": "c2"}]).status == 200


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"messages": [{**USER, "foo": 1}]}, "messages[0].foo"),
        ({"messages": [{**USER, "name": "bob"}]}, "messages[0].name"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}, "messages[0].content"),
        ({"tools": [{**tool(), "x": 1}]}, "tools[0].x"),
        ({"tools": [tool(examples=[1])]}, "tools[0].function.examples"),
        ({"tools": [tool()], "tool_choice": {**tool(), "mode": "x"}}, "tool_choice.mode"),
        ({"response_format": {"type": "text", "x": 1}}, "response_format.x"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "x": 1}}},
            "response_format.json_schema.x",
        ),
    ],
)
def test_strictly_objects_within_a_request_have_the_documents_fields_alone(
    base: str, strict_base: str, fields: dict[str, Any], path: str
) -> None:
    assert path.encode() not in ask(base, **fields).body
    assert refusal(ask(strict_base, **fields)).startswith(path)


@pytest.mark.spec("DBX-47", "DBX-48", "DBX-49", "DBX-50", "DBX-51")
def test_calls_have_ids_of_their_own_and_arguments_as_the_model_wrote_them() -> None:
    arguments = '{"a":  1e0}'
    with running(app(ids(*call("f", arguments), *call("f", arguments), END))) as base:
        first, second = ask(base, tools=[tool()]).json["choices"][0]["message"]["tool_calls"]
    assert first["id"] != second["id"]
    assert first == {"id": first["id"], "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.spec("DBX-51")
def test_an_object_of_arguments_is_read_as_its_own_text(base: str) -> None:
    """Resolution X-21."""
    given = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert ask(base, messages=[USER, {"role": "assistant", "tool_calls": [given]}, RESULT]).status == 200


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
