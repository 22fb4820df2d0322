"""MCP servers through the official SDK: real processes over stdio."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from antiphon.errors import ConfigError
from antiphon.tools import Router, ToolCall, ToolLimits
from antiphon.tools.mcp import McpServer, McpToolSet, read_mcp_config
from kit.waiting import PATIENCE

SERVER = McpServer(command=sys.executable, args=(str(Path(__file__).parents[1] / "kit" / "mcp_server.py"),))


def call(name: str, body: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id=call_id, recipient=f"functions.my_server__{name}", body=body)


async def test_a_server_s_tools_are_functions_that_say_why_they_fail_and_one_that_dies_is_started_again() -> None:
    async with aclosing(await McpToolSet.connect("my server", SERVER)) as tools:
        specs = {spec.name: spec for spec in tools.specs}
        assert set(specs) == {"my_server__add", "my_server__fail", "my_server__die"}
        assert specs["my_server__add"].description == "Add two numbers."
        router = Router(tools.tools, ToolLimits(deadline=PATIENCE))
        assert "42" in (await router.call(call("add", '{"a": 2, "b": 40}'))).text(envelope=False)
        refused = await router.call(call("add", '{"a": "two"}'))
        assert refused.error is not None
        assert refused.error.code == "E-CALL-SCHEMA"
        failed = await router.call(call("fail"))
        assert failed.error is not None
        assert "the disk is on fire" in failed.error.message
        assert (await router.call(call("die"))).error is not None
        assert "42" in (await router.call(call("add", '{"a": 40, "b": 2}'))).text(envelope=False)


async def test_a_server_that_cannot_be_started_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"failed|did not list"):
        await McpToolSet.connect("none", McpServer(command="/nonexistent/program"))
    with pytest.raises(ConfigError, match=r"failed|did not list"):
        await McpToolSet.connect("mute", McpServer(command=sys.executable, args=("-c", "pass")))


@pytest.fixture
async def over_http() -> AsyncIterator[McpServer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SERVER.args, "0", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        while not (told := re.search(rb"running on (http://[\d.]+:\d+)", await process.stderr.readline())):
            pass
    yield McpServer(url=f"{told[1].decode()}/mcp")
    with contextlib.suppress(ProcessLookupError):  # the test may have ended it
        process.kill()
    await process.communicate()


async def test_a_server_over_http_is_no_different(over_http: McpServer) -> None:
    async with aclosing(await McpToolSet.connect("my server", over_http)) as connected:
        router = Router(connected.tools, ToolLimits(deadline=PATIENCE))
        assert "42" in (await router.call(call("add", '{"a": 2, "b": 40}'))).text(envelope=False)
        died = await router.call(call("die"))
        assert died.error is not None
        gone = await router.call(call("add", '{"a": 2, "b": 40}'))
        assert gone.error is not None, "nobody starts a server that is not ours; the call says so"
        assert gone.error.retryable


def test_the_configuration_is_the_one_that_clients_share() -> None:
    text = json.dumps(
        {"mcpServers": {"time": {"command": "server", "args": ["--tz"]}, "far": {"url": "http://x.test/mcp"}}}
    )
    assert read_mcp_config(text) == {
        "time": McpServer(command="server", args=("--tz",)),
        "far": McpServer(url="http://x.test/mcp"),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read"),
        ('{"mcpServers": {"a": {"command": 1}}}', r"\$\.mcpServers\[\.\.\.\]\.command"),
        ('{"mcpServers": {"a": {}}}', "'a' needs a command or a url"),
        ('{"mcpServers": {"a": {"command": "x", "commnad": "y"}}}', "commnad"),
        ('{"mcpServers": {"a": {"command": "x", "type": "http"}}}', "'a' is of type 'http'"),
        ('{"mcpServers": {"a": {"url": "x", "type": "stdio"}}}', "'a' is of type 'stdio'"),
        ('{"mcpServers": {"a": {"url": "x", "type": "sse"}}}', "type"),
        ('{"mcpServers": {"a": {"command": "x", "headers": {"a": "b"}}}}', "'a' has headers or oauth"),
        ('{"mcpServers": {"a": {"command": "x", "oauth": {"clientId": "b"}}}}', "'a' has headers or oauth"),
        ('{"mcpServers": {"a": {"url": "x", "oauth": {"client_id": "b"}}}}', "client_id"),
        ('{"mcpServers": {"a": {"url": "x", "oauth": {"callbackPort": 65536}}}}', "no port"),
        ('{"mcpServers": {"a": {"url": "x", "oauth": {"grant": "client_credentials"}}}}', "'a' needs a clientId"),
        (
            '{"mcpServers": {"a": {"url": "x", "oauth": {"grant": "client_credentials", "clientId": "b",'
            ' "clientSecret": "c"}}}}',
            "'a' needs an issuer",
        ),
        ('{"mcpServers": {"a": {"url": "x", "headers": {"a": "${NOT_THERE}"}}}}', "variable NOT_THERE"),
    ],
)
def test_a_mistake_in_the_configuration_names_its_place(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_mcp_config(text)


def test_secrets_come_from_the_environment() -> None:
    far = {
        "type": "http",
        "url": "http://x.test/${TOKEN}",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
        "oauth": {"clientId": "${TOKEN}", "clientSecret": "a${SECRET}b"},
    }
    text = json.dumps({"mcpServers": {"far": far}})
    read = read_mcp_config(text, {"TOKEN": "t", "SECRET": "${TOKEN}"})["far"]
    assert read.headers == {"Authorization": "Bearer t"}
    assert read.oauth.client_secret == "a${TOKEN}b", "what a variable holds is not read again"
    assert (read.url, read.oauth.client_id) == ("http://x.test/${TOKEN}", "${TOKEN}")
