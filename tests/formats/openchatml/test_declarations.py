"""Tools that a transcript declares (§16.2), and calls that are checked against them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Conversation, Message, Role, ToolNamespace, ToolSpec
from antiphon.formats.harmony.sections import SectionWriter
from antiphon.formats.harmony.typescript import FullTypePrinter, JsonText, TypePrinter
from antiphon.formats.openchatml import (
    Finding,
    declared_tools,
    lift_tools,
    openchatml,
    read,
    read_declaration,
    validate,
)
from antiphon.tokens import spell

WEATHER = """# Tools
## functions
namespace functions {
// Gets weather for a city.
type get_current_weather = (_: {
location: string,
format?: "celsius" | "fahrenheit", // default: celsius
}) => any;
} // namespace functions"""
IN_JSON = """# Tools

## functions
{"name": "functions.get_current_weather", "parameters": {"type": "object", "required": ["location"],\
 "properties": {"location": {"type": "string"}, "format": {"enum": ["celsius", "fahrenheit"]}}}}"""


def found(
    declaration: str, *calls: tuple[str, str], header: str = "version: 2.2", role: str = "developer"
) -> list[Any]:
    frames = "".join(
        f"<|start|>assistant to={to} call_id=c{i}<|channel|>commentary<|constrain|>json<|message|>{arguments}<|call|>\n"
        for i, (to, arguments) in enumerate(calls)
    )
    return list(validate(f"{header}\n<|start|>{role}<|message|>{declaration}<|end|>\n{frames}"))


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings if not finding.warning]


@pytest.mark.spec("OCM-136", "OCM-152", "OCM-166")
@pytest.mark.parametrize("declaration", [WEATHER, IN_JSON], ids=["types", "json"])
@pytest.mark.parametrize("role", ["developer", "system"])
@pytest.mark.parametrize(
    ("to", "arguments", "problem"),
    [
        ("functions.get_current_weather", '{"location": "Rome"}', ""),
        ("functions.get_current_weather", '{"location": "Rome", "format": "celsius", "deadline_ms": 5}', ""),
        ("functions.get_current_weather", '{"format": "celsius"}', "location"),
        ("functions.get_current_weather", '{"location": 1}', "location"),
        ("functions.get_current_weather", '{"location": "Rome", "format": "kelvin"}', "format"),
        ("functions.get_weather", "{}", "is not declared"),
        ("python", "1", ""),
    ],
)
def test_calls_are_checked_against_the_declarations_before_them(
    declaration: str, role: str, to: str, arguments: str, problem: str
) -> None:
    findings = found(declaration, (to, arguments), role=role)
    assert codes(findings) == (["E-CALL-SCHEMA"] if problem else [])
    assert all(problem in finding.message for finding in findings)


def test_an_undeclared_call_is_found_at_its_recipient_with_the_nearest_name() -> None:
    (finding,) = found(WEATHER, ("functions.get_weather", "{}"))
    assert finding.position.column == len("<|start|>assistant ") + 1
    assert finding.hint == "Did you mean functions.get_current_weather?"


def test_without_declarations_any_function_may_be_called() -> None:
    assert not found("Be kind.", ("functions.f", '{"a": 1}'))


def test_a_built_in_that_the_header_leaves_out_is_a_warning() -> None:
    header = "version: 2.2\ngeneration_settings: {builtin_tools: [browser]}"
    assert not found("Be kind.", ("browser.search", "{}"), header=header)
    (finding,) = found("Be kind.", ("python", "1"), header=header)
    assert (finding.code, finding.warning) == ("E-CALL-SCHEMA", True)


def test_a_declaration_that_is_not_read_is_reported_and_its_calls_are_not_checked() -> None:
    broken = WEATHER.replace('"celsius" | "fahrenheit"', "Celsius<<")
    (finding,) = found(broken, ("functions.get_current_weather", "{}"))
    assert (finding.code, finding.warning, "get_current_weather" in finding.message) == ("E-CALL-SCHEMA", True, True)


def test_a_schema_that_refers_elsewhere_is_not_fetched() -> None:
    declared = '# Tools\n## functions\n{"name": "f", "parameters": {"$ref": "http://127.0.0.1:9/schema"}}'
    (finding,) = found(declared, ("functions.f", "{}"))
    assert (finding.warning, "cannot be used" in finding.message) == (True, True)


@pytest.mark.parametrize("type", ["string | null", '"a" | "b"'])
def test_a_type_of_thousands_of_brackets_is_told_and_ends_nothing(type: str) -> None:
    (finding,) = found(f"# Tools\n## functions\ntype f = (_: {type}{'[]' * 5000}) => any;", ("functions.f", "{}"))
    assert (finding.warning, "nested more than" in finding.message) == (True, True)


def test_declarations_of_a_long_message_take_a_moment() -> None:
    comments = "// one more line\n" * 200_000
    declaration = read_declaration(WEATHER.replace("// Gets", comments + "// Gets") + "\n" + comments)
    assert [tool.name for tool in declaration.namespaces[0].tools] == ["get_current_weather"]


LEAVES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": ["string", "null"]},
        {"type": "string", "enum": ["a", "b c"]},
        {},
    ]
)
SCHEMAS = st.recursive(
    LEAVES | LEAVES.map(lambda leaf: {**leaf, "description": "What it is."}),
    lambda inner: (
        inner.map(lambda items: {"type": "array", "items": items} if items else {"type": "array"})
        | st.dictionaries(st.sampled_from(["city", "Größe", "a-b", "$x"]), inner, min_size=1).map(
            lambda properties: {"type": "object", "properties": properties, "required": sorted(properties)[:1]}
        )
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["one", "two"]), SCHEMAS, min_size=1).map(
    lambda properties: {"type": "object", "properties": properties}
)


def meaning(schema: Any) -> Any:
    """A schema without what types have no place for: descriptions of what is no property."""
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "description"}
    if "properties" in kept:
        kept["properties"] = {name: meaning(inner) for name, inner in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = meaning(kept["items"])
        return kept if kept["items"] else {key: value for key, value in kept.items() if key != "items"}
    return kept


@given(ARGUMENTS, st.sampled_from([TypePrinter(JsonText()), FullTypePrinter(JsonText())]))
def test_declared_types_are_read_as_the_schema_that_they_were_written_from(schema: Any, types: TypePrinter) -> None:
    tool = ToolSpec("f", "Does it.\nAnd more.", schema)
    text = SectionWriter(types).tools({"functions": ToolNamespace("functions", "All of them.", (tool, ToolSpec("g")))})
    declaration = read_declaration(f"Be kind.\n\n{text}\n\n# Response Formats\n\nText.")
    (namespace,) = declaration.namespaces
    f, g = namespace.tools
    assert (namespace.description, f.description, g.parameters) == ("All of them.", tool.description, None)
    assert meaning(f.parameters) == meaning(schema)
    assert not declaration.unread
    assert declaration.rest == "Be kind.\n\n# Response Formats\n\nText."


@given(ARGUMENTS)
def test_our_own_prompt_declares_what_it_was_given(schema: Any) -> None:
    tools = (ToolSpec("f", "Does it.", schema), ToolSpec("g"))
    prompt = spell(list(openchatml([]).render(Conversation(tools=tools), reply_as=None)))
    (namespace,) = declared_tools(read(prompt).messages)
    assert namespace.tools == tools


def test_lifted_declarations_leave_the_rest_of_their_message() -> None:
    said = Message(role=Role.DEVELOPER, text=f"Be kind.\n\n{WEATHER}")
    alone, user = (
        Message(role=Role.DEVELOPER, text="# Tools\n\n## python\n\nRuns it."),
        Message(role=Role.USER, text="x"),
    )
    lifted = lift_tools(Conversation((said, alone, user), builtins=(ToolNamespace("python"), ToolNamespace("browser"))))
    assert [message.text for message in lifted.messages] == ["Be kind.", "x"]
    assert [tool.recipient for tool in lifted.tools] == ["functions.get_current_weather"]
    assert lifted.builtins == (ToolNamespace("browser"), ToolNamespace("python", "Runs it."))
    assert lift_tools(Conversation((user,))) == Conversation((user,))


@pytest.mark.parametrize(
    "text", ["# Tools", "# Tools\n## functions\nnamespace functions {", "a # Tools b", "# Tools\n{"]
)
def test_a_title_without_tools_declares_none(text: str) -> None:
    assert not [tool for namespace in read_declaration(text).namespaces for tool in namespace.tools]
    assert lift_tools(Conversation((Message(role=Role.SYSTEM, text=text),))).messages is not None


def test_the_first_of_two_namespaces_does_not_hide_the_second() -> None:
    twice = f"{WEATHER}\n\n## mail\nnamespace mail {{\ntype send = (_: {{to: string[]}}) => any;\n}}"
    header = "version: 2.2\ngeneration_settings: {builtin_tools: [mail]}"
    assert codes(found(twice, ("mail.send", json.dumps({"to": ["a"]})), header=header)) == []
    assert codes(found(twice, ("mail.send", json.dumps({"to": "a"})), header=header)) == ["E-CALL-SCHEMA"]
