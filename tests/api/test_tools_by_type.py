"""Tools that are given by their type and custom tools with a grammar: the client runs them, and their form is held."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import openai
import pytest
from anthropic.types.beta import BetaMemoryTool20250818Command
from openai.types.chat import ChatCompletionMessageCustomToolCall
from pydantic import TypeAdapter

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import ToolChoice
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.shape import ReplyShape
from antiphon.tokens import decode
from antiphon.wire.typed_tools import MESSAGES, RESPONSES
from kit.api import END, TOKENIZER, Got, app, call, ids, post, replies, request, running, scripted
from kit.family_server import family
from kit.messages import USER, accumulated, checked, message
from kit.messages import events_of as message_events
from kit.obliging import ObligingEngine, constrained
from kit.responses import checked_response, events_of, respond, responses_app

Fields = dict[str, Any]


@pytest.fixture(scope="module")
def held() -> Iterator[str]:
    """A model that writes whatever its grammar lets it."""
    with running(create_app(StaticCatalog({"small": constrained(ObligingEngine())}))) as base:
        yield base


def prompt_of(engine: Any) -> str:
    return decode(TOKENIZER, engine.requests[-1][0])


# Messages.

EDITOR = {"command": "insert", "path": "a.py", "insert_line": 1}
CALLS: dict[str, Fields] = {
    "bash_20241022": {"command": 'ls -l | "wc"'},
    "bash_20250124": {"restart": True},
    "text_editor_20241022": {"command": "undo_edit", "path": "a.py"},
    "text_editor_20250124": {**EDITOR, "new_str": "x\n"},
    "text_editor_20250429": {"command": "view", "path": "a.py", "view_range": [1, -1]},
    "text_editor_20250728": {**EDITOR, "insert_text": "x\n"},
    "memory_20250818": {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
}
NEEDED = {
    "view": {"path"},
    "create": {"path", "file_text"},
    "str_replace": {"path", "old_str", "new_str"},
    "insert": {"path", "insert_line"},
    "undo_edit": {"path"},
}


def typed(kind: str, **fields: Any) -> Fields:
    return {"type": kind, "name": MESSAGES[kind].name, **fields}


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_of_a_tool_by_type_is_the_clients_and_is_read_back(kind: str) -> None:
    name, given = MESSAGES[kind].name, CALLS[kind]
    engine = replies(*[(*call(name, json.dumps(given)), END)] * 2, ("Done.", END))
    tools = [typed(kind, cache_control={"type": "ephemeral"})]
    with running(app(engine)) as base:
        streamed = accumulated(message_events(message(base, model="small", tools=tools, stream=True)))
        answer = checked(message(base, model="small", tools=tools).json)
        (used,) = answer["content"]
        assert (used["type"], used["name"], used["input"]) == ("tool_use", name, given)
        assert streamed["content"][0]["input"] == given
        assert answer["stop_reason"] == "tool_use"
        result = {"type": "tool_result", "tool_use_id": used["id"], "content": "seventeen"}
        history = [USER, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]
        assert (
            checked(message(base, model="small", tools=tools, messages=history).json)["content"][0]["text"] == "Done."
        )
    assert all(text in prompt_of(engine) for text in (name, "seventeen"))


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_has_what_its_command_needs(held: str, kind: str) -> None:
    """The prompt's length is the seed of this model."""
    for text in ("a", "bb", "ccc", "dddd"):
        choice = {"type": "tool", "name": MESSAGES[kind].name}
        asked = {"messages": [{"role": "user", "content": text}], "tools": [typed(kind)], "tool_choice": choice}
        (used,) = checked(message(held, model="small", max_tokens=2000, **asked).json)["content"]
        given = used["input"]
        if kind.startswith("bash"):
            assert "command" in given or given["restart"] is True
        elif kind.startswith("memory"):
            TypeAdapter[Any](BetaMemoryTool20250818Command).validate_python(given)
        else:
            inserted = "new_str" if kind < "text_editor_20250429" else "insert_text"
            needed = NEEDED[given["command"]] | ({inserted} if given["command"] == "insert" else set())
            assert given.keys() >= needed


def test_the_characters_that_an_editor_shows_are_the_clients_concern() -> None:
    tools = [typed("text_editor_20250728", max_characters=9000), typed("bash_20250124", max_characters=1)]
    with running(app(ids("Hello.", END))) as base:
        got = message(base, model="small", tools=tools)
    assert got.headers["x-antiphon-ignored"] == "tools[1].max_characters"


BASH = typed("bash_20250124")
WRONG: list[tuple[list[Fields], str, str]] = [
    ([{"type": "bash_20991231", "name": "bash"}], "type", "bash_20241022, bash_20250124, text_editor_20241022"),
    ([{"type": "memory", "name": "memory"}], "type", "memory_20250818"),
    ([{"type": "computer_20250124", "name": "computer"}], "type", "text_editor_20250728"),
    ([{**BASH, "name": "shell"}], "name", "is named 'bash'"),
    ([{"type": "bash_20250124"}], "name", "needs it"),
    ([{**BASH, "input_schema": {"type": "object"}}], "input_schema", "has its own"),
    ([{**BASH, "description": "Runs"}], "description", "has its own"),
    ([{**BASH, "allowed_callers": ["code_execution_20250825"]}], "allowed_callers", "direct"),
    ([{**BASH, "max_characters": "many"}], "max_characters", ""),
    ([BASH, {"name": "bash", "input_schema": {"type": "object"}}], "name", "another tool"),
]


@pytest.mark.parametrize(("tools", "field", "words"), WRONG)
def test_a_tool_by_type_that_is_given_wrongly_is_refused_at_its_place(
    held: str, tools: list[Fields], field: str, words: str
) -> None:
    got = message(held, model="small", tools=tools)
    assert got.status == 400
    assert f"tools[{len(tools) - 1}].{field}" in got.json["error"]["message"]
    assert words in got.json["error"]["message"]


# Responses.

SHELL: Fields = {"type": "shell", "environment": {"type": "local"}}
ACTIONS: dict[str, tuple[Fields, str, Fields, Fields, str]] = {
    "local_shell": (
        {"command": ["ls", "-l"], "timeout_ms": 500},
        "action",
        {
            "type": "exec",
            "command": ["ls", "-l"],
            "timeout_ms": 500,
            "env": {},
            "user": None,
            "working_directory": None,
        },
        {"output": '{"stdout": "seventeen"}'},
        "seventeen",
    ),
    "shell": (
        {"commands": ["ls", "pwd"]},
        "action",
        {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": None},
        {
            "output": [
                {"stdout": "seventeen\n", "stderr": "warned\n", "outcome": {"type": "exit", "exit_code": 3}},
                {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
            ]
        },
        "seventeen\nwarned\n[exit code 3]\n[timeout]",
    ),
    "apply_patch": (
        {"type": "update_file", "path": "a.py", "diff": "@@ def f\n-a\n+b\n"},
        "operation",
        {"type": "update_file", "path": "a.py", "diff": "@@ def f\n-a\n+b\n"},
        {"status": "failed", "output": "no line matches"},
        "failed: no line matches",
    ),
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_call_of_a_tool_by_type_is_an_item_of_its_own_and_its_output_is_read(kind: str) -> None:
    arguments, field, action, output, shown = ACTIONS[kind]
    tool = SHELL if kind == "shell" else {"type": kind}
    called = ids(*call(kind, json.dumps(arguments)), END)
    engine = scripted(lambda prompt, sampling, choice: ids("Done.", END) if len(engine.requests) > 2 else called)
    with running(responses_app(small=engine)) as base:
        events = events_of(respond(base, {"stream": True, "tools": [tool]}))
        assert [event["type"] for event in events[2:-1]] == ["response.output_item.added", "response.output_item.done"]
        assert events[2]["item"]["status"] == "in_progress"
        first = checked_response(respond(base, {"tools": [tool]}).json)
        (item,) = first["output"]
        assert item["type"] == f"{kind}_call"
        assert (item[field], item["status"]) == (action, "completed")
        assert events[-1]["response"]["output"][0][field] == action
        assert first["tools"] == [tool]

        answer = {"type": f"{kind}_call_output", "call_id": item["call_id"], **output}
        asked = {"role": "user", "content": "Do it"}
        whole = respond(base, {"input": [asked, item, answer], "tools": [tool]})
        assert whole.status == 200, whole.body
        assert shown in prompt_of(engine)
        written = [name for name in arguments if f'"{name}"' in prompt_of(engine)]
        assert written == list(arguments), "the call stands in the prompt as the model writes it"

        later = respond(base, {"input": [answer], "previous_response_id": first["id"], "tools": [tool]})
        assert later.status == 200, later.body
        assert shown in prompt_of(engine)
        listed = request(base, "GET", f"/v1/responses/{later.json['id']}/input_items").json["data"]
        assert next(one for one in listed if one["type"] == answer["type"])["call_id"] == item["call_id"]


def test_the_output_of_a_local_shell_may_name_its_call_as_its_id() -> None:
    engine = scripted(ids("Done.", END))
    action = {"type": "exec", "command": ["ls"], "env": {"A": "b"}}
    said = {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": action, "status": "completed"}
    output = {"type": "local_shell_call_output", "id": "call_1", "output": "seventeen"}
    with running(responses_app(small=engine)) as base:
        got = respond(base, {"input": [{"role": "user", "content": "Do it"}, said, output]})
    assert got.status == 200, got.body
    assert all(text in prompt_of(engine) for text in ("seventeen", '"env"'))


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_call_that_is_cut_or_malformed_does_nothing(kind: str) -> None:
    cut = ids(*call(kind, '{"command": ["rm", "-rf", "/'))[:-1]
    field = ACTIONS[kind][1]
    with running(responses_app(small=scripted(cut))) as base:
        tool = {"type": kind}
        (event,) = [
            e for e in events_of(respond(base, {"stream": True, "tools": [tool]})) if e["type"].endswith("done")
        ]
    item = event["item"]
    assert "rm" not in json.dumps(item[field])
    assert item["status"] == ("in_progress" if kind == "apply_patch" else "incomplete")


@pytest.mark.parametrize("kind", ACTIONS)
def test_the_arguments_of_tools_by_type_are_held(held: str, kind: str) -> None:
    for text, choice in (
        ("a", "required"),
        ("bb", "required"),
        ("ccc", kind if kind == "local_shell" else {"type": kind}),
    ):
        asked = {"input": text, "tools": [{"type": kind}], "tool_choice": choice, "parallel_tool_calls": False}
        response = checked_response(respond(held, {"model": "small", **asked}).json)
        (item,) = (one for one in response["output"] if one["type"].endswith("_call"))
        assert (item["type"], item["status"]) == (f"{kind}_call", "completed")
        if kind == "apply_patch":
            assert ("diff" in item["operation"]) or item["operation"]["type"] == "delete_file"


ASKED: Fields = {"role": "user", "content": "Do it"}
PATCH: Fields = {"type": "apply_patch_call", "call_id": "c"}
CONTAINER: Fields = {"type": "container_auto"}
REFUSED: list[tuple[Fields, str]] = [
    ({"tools": [{"type": "shell", "environment": CONTAINER}]}, "tools[0].environment.type"),
    ({"tools": [{"type": "shell", "environment": {"type": "container_reference", "container_id": "c"}}]},
     "tools[0].environment.type"),
    ({"tools": [{"type": "shell", "environment": {"type": "local", "skills": [{"name": "x"}]}}]},
     "tools[0].environment.skills"),
    ({"tools": [{"type": "shell", "environment": "local"}]}, "tools[0].environment"),
    ({"tools": [{"type": "shell"}, {"type": "shell"}]}, "tools[1].type"),
    ({"tools": [{"type": "shell"}], "tool_choice": {"type": "apply_patch"}}, "tool_choice"),
    (
        {"input": [ASKED, {"type": "shell_call", "call_id": "c", "action": {"commands": "ls"}}]},
        "input[1].action.commands",
    ),
    ({"input": [ASKED, {"type": "shell_call", "action": {"commands": []}}]}, "input[1].call_id"),
    ({"input": [ASKED, {"type": "local_shell_call", "call_id": "c"}]}, "input[1].action"),
    ({"input": [ASKED, {**PATCH, "operation": {"type": "move_file", "path": "a"}}]}, "input[1].operation.type"),
    ({"input": [ASKED, {**PATCH, "operation": {"type": "create_file", "path": "a"}}]}, "input[1].operation.diff"),
    ({"input": [ASKED, {"type": "shell_call_output", "output": []}]}, "input[1].call_id"),
    ({"input": [ASKED, {"type": "shell_call_output", "call_id": "c"}]}, "input[1].output"),
    ({"input": [
        ASKED, {"type": "shell_call", "call_id": "c", "action": {"commands": ["a"]}},
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "", "stderr": ""}]},
    ]}, "input[2].output[0].outcome"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "param"), REFUSED)
def test_what_cannot_be_of_tools_by_type_is_refused_at_its_place(held: str, body: Fields, param: str) -> None:
    got = respond(held, {"model": "small", **body})
    assert (got.status, got.json["error"]["param"]) == (400, param), got.body


@pytest.mark.parametrize("name", ["hermes", "xml parameter", "gemma", "kimi k3", "the way Python calls"])
def test_tools_by_type_are_held_strictly_however_a_model_writes_its_calls(name: str) -> None:
    model = family(name)
    vocabulary = Vocabulary(model.tokenizer, model.end_ids)
    for tool in {spec.name: spec for spec in (*MESSAGES.values(), *RESPONSES.values())}.values():
        shape = ReplyShape(tools=(replace(tool, strict=True),), tool_choice=ToolChoice("required"))
        (found,) = compile_grammar(model.format.grammar(shape), vocabulary).schemas.values()
        assert found.relaxed == ()


# Custom tools.

LARK = """
start: begin hunk+ end
begin: "*** Begin" LF
hunk: "*** Add: " /[a-z"\\\\\\\\]{1,3}/ LF line+
line: "+" /[^\\n]{0,3}/ LF
end: "*** End" LF?
%import common.LF
"""
LARK_TEXTS = r'\*\*\* Begin\n(?:\*\*\* Add: [a-z"\\]{1,3}\n(?:\+[^\n]{0,3}\n)+)+\*\*\* End\n?'
REGEX = r'^(?P<month>Jan|Feb) "\d{1,2}"\n$'
GRAMMARS = {
    "lark": ({"syntax": "lark", "definition": LARK}, LARK_TEXTS),
    "regex": ({"syntax": "regex", "definition": REGEX}, r'(?:Jan|Feb) "\d{1,2}"\n'),
}


def in_chat(grammar: Fields | None = None) -> Fields:
    form = {"format": {"type": "grammar", "grammar": grammar}} if grammar is not None else {}
    return {"type": "custom", "custom": {"name": "write", "description": "Writes.", **form}}


def in_responses(grammar: Fields) -> Fields:
    return {"type": "custom", "name": "write", "format": {"type": "grammar", **grammar}}


@pytest.mark.parametrize("syntax", GRAMMARS)
def test_a_custom_tools_text_fits_its_grammar(held: str, syntax: str) -> None:
    grammar, texts = GRAMMARS[syntax]
    for text in ("a", "bb", "ccc"):
        asked: Fields = {"input": text, "tools": [in_responses(grammar)], "tool_choice": "required"}
        response = checked_response(respond(held, {"model": "small", "parallel_tool_calls": False, **asked}).json)
        (item,) = (one for one in response["output"] if one["type"].endswith("_call"))
        assert response["tools"][0]["format"] == {"type": "grammar", **grammar}
        assert re.fullmatch(texts, item["input"]), item
        asked = {"tools": [in_chat(grammar)], "tool_choice": {"type": "custom", "custom": {"name": "write"}}}
        got = chat(held, messages=[{"role": "user", "content": text}], **asked)
        (used,) = got.json["choices"][0]["message"]["tool_calls"]
        called = ChatCompletionMessageCustomToolCall.model_validate(used, strict=True)
        assert called.custom.name == "write"
        assert re.fullmatch(texts, called.custom.input), called


def chat(base: str, **fields: Any) -> Got:
    return post(base, "/v1/chat/completions", **{"messages": [USER], **fields})


def test_a_custom_tool_in_chat_is_called_streamed_and_read_back() -> None:
    text = 'ls -l | "wc"'
    said = (*call("write", json.dumps({"input": text})), END)
    engine = replies(said, said, ("Done.", END))
    with running(app(engine)) as base, openai.OpenAI(base_url=f"{base}/v1", api_key="x", max_retries=0) as client:
        tools: Any = [in_chat()]
        asked: Any = [USER]
        fields: Any = {"model": "small", "messages": asked, "tools": tools}
        first = client.chat.completions.create(**fields)
        called = (first.choices[0].message.tool_calls or [])[0]
        assert isinstance(called, ChatCompletionMessageCustomToolCall)
        assert (called.custom.name, called.custom.input) == ("write", text)
        assert first.choices[0].finish_reason == "tool_calls"

        deltas = [
            call.model_dump(exclude_none=True)
            for chunk in client.chat.completions.create(**fields, stream=True)
            for call in chunk.choices[0].delta.tool_calls or ()
        ]
        begun, *rest = deltas
        assert begun == {"index": 0, "id": begun["id"], "type": "custom", "custom": {"name": "write", "input": ""}}
        assert {tuple(one) for one in rest} == {("index", "custom")}
        assert "".join(one["custom"]["input"] for one in rest) == text

        result: Any = {"role": "tool", "tool_call_id": called.id, "content": "seventeen"}
        history: Any = [USER, first.choices[0].message.model_dump(exclude_none=True), result]
        last = client.chat.completions.create(model="small", messages=history, tools=tools)
    assert last.choices[0].message.content == "Done."
    assert "seventeen" in prompt_of(engine)
    assert json.dumps({"input": text}) in prompt_of(engine)


def test_allowed_tools_of_a_chat_may_be_custom_ones(held: str) -> None:
    function = {"type": "function", "function": {"name": "other"}}
    named = {"type": "custom", "custom": {"name": "write"}}
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    got = chat(held, tools=[function, in_chat()], tool_choice=choice, parallel_tool_calls=False)
    assert [one["type"] for one in got.json["choices"][0]["message"]["tool_calls"]] == ["custom"]


MALFORMED: list[tuple[Fields, str, str]] = [
    ({"syntax": "regex", "definition": "(a"}, "definition", ""),
    ({"syntax": "regex", "definition": "[z-a]"}, "definition", ""),
    ({"syntax": "regex", "definition": "(?=a)b"}, "definition", "look-around"),
    ({"syntax": "regex", "definition": r"(a)\1"}, "definition", ""),
    ({"syntax": "regex", "definition": "a^b"}, "definition", ""),
    ({"syntax": "regex", "definition": "a" * 9000}, "definition", "2000"),
    ({"syntax": "regex", "definition": "(a{1,9999}){1,9999}"}, "definition", ""),
    ({"syntax": "regex"}, "definition", "needed"),
    ({"definition": "a"}, "syntax", "needed"),
    ({"syntax": "gbnf", "definition": 'root ::= "a"'}, "syntax", "lark"),
    ({"syntax": "lark", "definition": 'start: "a" &'}, "definition", "line 1, rule 'start'"),
    ({"syntax": "lark", "definition": 'start: "a"\n  | b\n'}, "definition", "rule 'start': there is no rule 'b'"),
    ({"syntax": "lark", "definition": "x: /a/"}, "definition", "'start'"),
    ({"syntax": "lark", "definition": 'start: "(" start? ")"'}, "definition", "leads back to itself"),
    ({"syntax": "lark", "definition": "start: " + "a " * 3000 + "\na: /[a-z]/"}, "definition", "2000"),
    ({"syntax": "lark", "definition": "start: /(/"}, "definition", ""),
    ({"syntax": "lark", "definition": 'start: "\\ud800"'}, "definition", ""),
    ({"syntax": "lark", "definition": "start: A0\n" + "".join(
        f"A{i}: {'(' * 19}A{i + 1}{')' * 19}\n" for i in range(20)) + "A20: /a/\n"}, "definition", "deep"),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "field", "words"), MALFORMED)
def test_a_grammar_that_cannot_be_held_is_refused_at_its_place(
    held: str, grammar: Fields, field: str, words: str
) -> None:
    inside = {"type": "namespace", "name": "n", "description": "", "tools": [in_responses(grammar)]}
    function = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    for tools, place in (
        ([in_responses(grammar)], "tools[0].format"),
        ([function, inside], "tools[1].tools[0].format"),
    ):
        got = respond(held, {"model": "small", "tools": tools})
        assert (got.status, got.json["error"]["param"]) == (400, f"{place}.{field}"), got.body
        assert words in got.json["error"]["message"]
    got = chat(held, tools=[in_chat(grammar)])
    assert (got.status, got.json["error"]["param"]) == (400, f"tools[0].custom.format.grammar.{field}"), got.body
    assert words in got.json["error"]["message"]


JSON, GRAMMAR = {"type": "json"}, {"type": "grammar"}
CUSTOM: Fields = {"id": "c", "type": "custom"}
BAD_CHATS: list[tuple[Fields, str]] = [
    ({"tools": [{"type": "custom"}]}, "tools[0].custom"),
    ({"tools": [{"type": "custom", "custom": {"name": "a b"}}]}, "tools[0].custom.name"),
    ({"tools": [in_chat(), in_chat()]}, "tools[1].custom.name"),
    ({"tools": [{"type": "custom", "custom": {"name": "a", "format": JSON}}]}, "tools[0].custom.format.type"),
    ({"tools": [{"type": "custom", "custom": {"name": "a", "format": GRAMMAR}}]}, "tools[0].custom.format.grammar"),
    ({"tools": [in_chat()], "tool_choice": {"type": "custom"}}, "tool_choice.custom"),
    ({"tools": [in_chat()], "tool_choice": {"type": "custom", "custom": {"name": "b"}}}, "tool_choice"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [CUSTOM]}]}, "messages[1].tool_calls[0].custom"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "messages[1].tool_calls[0].function"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "param"), BAD_CHATS)
def test_a_custom_tool_that_is_none_is_refused_at_its_place(held: str, body: Fields, param: str) -> None:
    got = chat(held, **body)
    assert (got.status, got.json["error"]["param"]) == (400, param), got.body


def test_where_no_answer_can_have_custom_calls_custom_tools_are_refused(held: str) -> None:
    for path in ("/v1/parse", "/api/chat"):
        got = post(held, path, model="small", messages=[USER], tools=[in_chat()], text="Hi")
        assert got.status == 400, (path, got.body)
