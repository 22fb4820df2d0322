"""`antiphon mcp` as an MCP client has it: a real process, asked by the official client over stdio."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from mcp import Client, StdioServerParameters

from antiphon.integrations.mcp.server import result_of, schema_of
from antiphon.integrations.mcp.tools import MAX_TEXT, TOOLS
from kit.program import PROGRAM, environment

CHAT = [{"role": "user", "content": "Is <|end|> a word?"}]
TRANSCRIPT = '---\nversion: "2.2"\n---\n<|start|>user<|message|>Hi<|end|>\n'
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


@asynccontextmanager
async def serving(home: Path, mode: str = "auto") -> AsyncIterator[Client]:
    command, *arguments = PROGRAM
    process = StdioServerParameters(command=command, args=[*arguments, "mcp"], env=environment(home))
    async with Client(process, mode=mode) as client:
        yield client


def answers(name: str, **arguments: Any) -> Any:
    """The structured result of a call, which is the text's too and fits the schema that the tool has."""
    result = result_of(name, arguments)
    assert not result.is_error, result
    jsonschema_rs.validator_for(schema_of(TOOLS[name].result), offline=True).validate(result.structured_content)
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


def refuses(name: str, **arguments: Any) -> dict[str, Any]:
    result = result_of(name, arguments)
    assert result.is_error, result
    assert result.structured_content is not None
    error: dict[str, Any] = result.structured_content["error"]
    return error


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_lists_and_calls_the_tools_of_the_program(tmp_path: Path, mode: str) -> None:
    async with serving(tmp_path, mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        good = await client.call_tool("validate", {"transcript": TRANSCRIPT})
        bad = await client.call_tool("validate", {"transcrpt": TRANSCRIPT})
        slow = await client.call_tool("check_template", {"template": TEMPLATE})
    assert (good.is_error, good.structured_content) == (False, {"valid": True, "findings": []})
    assert (bad.is_error, slow.is_error) == (True, False)
    assert set(listed) == {"render", "parse", "convert", "validate", "format", "lint", "check_template"} == set(TOOLS)
    for tool in listed.values():
        for schema in (tool.input_schema, tool.output_schema):
            assert schema is not None
            assert schema["type"] == "object"
            jsonschema_rs.validator_for(schema, offline=True)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint


def test_a_prompt_is_rendered_with_its_structure_told_from_its_text() -> None:
    rendered = answers("render", messages=CHAT, format="chatml")
    assert rendered["text"] == "<|im_start|>user\nIs <|end|> a word?<|im_end|>\n<|im_start|>assistant\n"
    assert {"control": "<|im_end|>"} in rendered["pieces"]
    assert {"control": "<|end|>"} not in rendered["pieces"]
    assert rendered["ids"] is None


def test_a_prompt_of_harmony_has_ids_and_they_are_read_back() -> None:
    rendered = answers("render", messages=CHAT, reply=False)
    parsed = answers("parse", ids=rendered["ids"], whole=True)
    assert parsed["messages"][-1]["text"] == "Is <|end|> a word?"
    assert parsed["incidents"] == []


def test_a_reply_is_parsed_and_what_was_repaired_is_listed() -> None:
    parsed = answers("parse", reply="<|message|>Five<|channel|>final<|message|>Four<|return|>")
    strict = refuses("parse", reply="<|start|><|start|>", strict=True)
    assert parsed["messages"][-1]["text"] == "Four"
    assert [incident["code"] for incident in parsed["incidents"]] == ["missing-end", "missing-start"]
    assert strict["code"] == "unexpected_eos"


def test_a_conversation_is_converted_with_what_is_lost() -> None:
    converted = answers("convert", source=json.dumps(CHAT), to="openchatml")
    again = answers("convert", source=converted["text"], to="chat")
    assert json.loads(again["text"])["messages"] == CHAT
    assert converted["losses"] == []


def test_transcripts_are_validated_formatted_and_linted() -> None:
    assert answers("validate", transcript=TRANSCRIPT) == {"valid": True, "findings": []}
    wrong = answers("validate", transcript=TRANSCRIPT.replace("<|end|>", ""))
    formatted = answers("format", transcript=TRANSCRIPT)
    linted = answers("lint", transcript=TRANSCRIPT, fix=True)
    assert not wrong["valid"]
    assert {"code", "level", "message", "line", "column", "hint"} == set(wrong["findings"][0])
    assert formatted == {"text": TRANSCRIPT, "changed": False}
    assert linted["text"] == TRANSCRIPT


def test_a_chat_template_is_checked() -> None:
    checked = answers("check_template", template=TEMPLATE)
    assert "answer" in checked["replies"]["proven"]


BAD_CALLS: list[tuple[str, dict[str, Any], str | None, str]] = [
    ("render", {}, "invalid_value", "messages"),
    ("render", {"messages": 3}, "invalid_value", "$.messages"),
    ("render", {"messages": CHAT, "frmat": "x"}, "invalid_value", "frmat"),
    ("render", {"messages": CHAT, "format": "harmny"}, "format_not_found", "harmony"),
    ("render", {"messages": CHAT, "format": "../../etc/passwd"}, "format_not_found", "Known"),
    ("render", {"messages": [{"role": "king", "content": "x"}]}, None, "king"),
    ("render", {"messages": CHAT * 2001}, "invalid_value", "2000"),
    ("parse", {}, "invalid_value", "reply or ids"),
    ("parse", {"reply": "x", "ids": [1]}, "invalid_value", "reply or ids"),
    ("parse", {"ids": [-1]}, "invalid_value", "reply[0]"),
    ("parse", {"ids": [10**40]}, "invalid_value", "ids"),
    ("convert", {"source": "x" * (MAX_TEXT + 1), "to": "chat"}, "invalid_value", "1000000"),
    ("convert", {"source": "[]", "to": "chatt"}, "format_not_found", "chat"),
    ("convert", {"source": "[]", "to": "sharegpt"}, "format_not_found", "chat"),
    ("convert", {"source": "{" * 100_000, "to": "chat"}, None, ""),
    ("format", {"transcript": TRANSCRIPT.replace("<|end|>", "")}, None, "line"),
    ("check_template", {"template": "{% for"}, None, ""),
    ("check_template", {"template": "x" * 65_537}, "invalid_value", "65536"),
    ("no_such", {}, "not_found", "render"),
]


def test_what_cannot_be_done_is_an_error_that_says_where_and_what_to_do() -> None:
    for name, arguments, code, says in BAD_CALLS:
        error = refuses(name, **arguments)
        assert code is None or error["code"] == code, error
        assert says in json.dumps(error)
        assert error["message"]
    assert answers("validate", transcript=TRANSCRIPT)["valid"]


def test_no_tool_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret.jinja").write_text("the secret")
    template = f"{{% include '{tmp_path}/secret.jinja' %}}"
    checked = result_of("check_template", {"template": template})
    source = result_of("convert", {"source": f"{tmp_path}/secret.jinja", "to": "chat"})
    assert "the secret" not in str(checked)
    assert "the secret" not in str(source)


async def test_what_is_no_request_costs_nothing_but_itself(tmp_path: Path) -> None:
    """Lines that are no JSON, or have a lone surrogate, or no end: the next request is answered."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "mcp", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment(tmp_path)
    )
    initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    surrogate = '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "validate", "arguments":'
    lines = [
        b"nonsense\n",
        b"\xff\xfe\n",
        b"x" * (17 << 20) + b"\n",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}).encode() + b"\n",
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n',
        surrogate.encode() + b' {"transcript": "\\ud800"}}}\n',
        b'{"jsonrpc": "2.0", "id": 3, "method": "tools/list"}\n',
    ]
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(lines))
    answered: set[int] = set()
    while not {1, 3} <= answered:
        line = await process.stdout.readline()
        assert line, "the server has ended"
        answered.add(json.loads(line).get("id"))
    process.stdin.close()
    assert await process.wait() == 0


async def test_without_its_library_the_command_says_what_to_install(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys; sys.modules['mcp'] = None; from antiphon.cli import main; sys.argv = ['antiphon', 'mcp']; main()",
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment(tmp_path),
    )
    _, error = await process.communicate()
    assert process.returncode == 2
    assert b"antiphon[mcp]" in error
