"""What MCP servers answer, as far as it is odd: pictures, failures without a word, too many tools, odd names."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import OpaquePart
from antiphon.errors import ConfigError
from antiphon.tokens import decode
from antiphon.tools import Router, Toolbox, ToolCall, ToolResult
from antiphon.tools.mcp import McpLimits, McpServer, McpToolSet, read_mcp_config
from antiphon.tools.mcp.config import MAX_TOOLS, START_SECONDS
from antiphon.tools.mcp.connection import CALL_SECONDS
from antiphon.tools.mcp.tool_set import END_SECONDS
from antiphon.tools.pool import PoolSize
from kit.api import CALL, END, UNCALL, post_in_process, sampled
from kit.mcp_odd_server import PIXEL
from kit.pictures import TOKENIZER, seeing_engine, seeing_model

ODD_PATH = Path(__file__).parents[1] / "kit" / "mcp_odd_server.py"
ODD = McpServer(command=sys.executable, args=(str(ODD_PATH),))


def test_the_limits_are_those_of_the_documentation() -> None:
    assert McpLimits() == McpLimits(sessions=8, idle=600.0, wait=10.0)
    assert McpLimits(sessions=3, idle=1.0, wait=2.0).size == PoolSize(
        total=3, per_owner=1, wait=2.0, users=1024, idle=1.0
    )
    assert (START_SECONDS, END_SECONDS, CALL_SECONDS, MAX_TOOLS) == (30.0, 10.0, 300.0, 256)


SHARED = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools() -> AsyncIterator[McpToolSet]:
    connected = await McpToolSet.connect("my.odd server", ODD)
    yield connected
    await connected.aclose()


async def result(tools: McpToolSet, name: str, body: str = "{}") -> ToolResult:
    call = ToolCall(call_id="c1", recipient=f"functions.my_odd_server__{name}", body=body)
    return await Router(tools.tools).call(call)


@SHARED
async def test_pictures_and_sounds_go_beside_the_text(tools: McpToolSet) -> None:
    shown = await result(tools, "media")
    assert shown.output is not None, shown.error
    assert shown.output.content == "before\nafter"
    assert shown.output.media == (
        OpaquePart("image", {"mime": "image/png", "base64": PIXEL}),
        OpaquePart("audio", {"mime": "audio/wav", "base64": "aGk="}),
    )
    assert shown.output.provenance == {"source": "mcp:media"}


@SHARED
async def test_a_picture_is_seen_where_its_result_stands(tools: McpToolSet) -> None:
    call = sampled(TOKENIZER, (CALL, '{"name": "my_odd_server__media", "arguments": {}}', UNCALL, END))
    replies = iter([call, sampled(TOKENIZER, ("Grey.", END))])
    engine = seeing_engine(lambda prompt, sampling, choice: next(replies))
    application = create_app(StaticCatalog({"m": seeing_model(engine)}), tools=Toolbox([tools]), offer_tools=True)
    got = await post_in_process(application, "/v1/responses", model="m", input="Look.")
    assert got.status == 200, got.body
    ((image,), (prompt, *_)) = engine.images[-1], engine.requests[-1]
    assert image.data == b64decode(PIXEL)
    assert decode(TOKENIZER, prompt[: image.start]).endswith("<|im_start|>tool\nbefore\nafter")
    assert "[1 images or other media that cannot be seen here left out]" in decode(TOKENIZER, prompt[image.stop :])


@SHARED
async def test_data_comes_as_data_and_a_failure_without_a_word_has_some(tools: McpToolSet) -> None:
    structured = await result(tools, "structured", '{"count": 3}')
    assert structured.output is not None
    assert structured.output.content == {"numbers": [0, 1, 2]}
    failed = await result(tools, "mute")
    assert failed.error is not None
    assert failed.error.message == "the tool failed and gave no reason"
    assert (failed.error.code, failed.error.retryable) == ("E-TOOL-FAILED", False)


@SHARED
async def test_so_many_tools_of_a_server_are_offered_under_names_that_a_model_can_write(tools: McpToolSet) -> None:
    names = [spec.name for spec in tools.specs]
    assert len(names) == 256
    assert names[:4] == [
        "my_odd_server__media", "my_odd_server__mute", "my_odd_server__structured",
        "my_odd_server__a_name_with_odd_letters_and_" + "x" * 21,
    ]  # fmt: skip
    assert max(map(len, names)) == 64
    assert (await result(tools, names[3].removeprefix("my_odd_server__"))).text(envelope=False) in (
        "odd",
        '{"result": "odd"}',
    )
    assert [spec.description for spec in tools.specs][:1] == ["Shows a picture and a sound between two lines."]


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (McpServer(command="/nonexistent/program"), r"the MCP server 'mine' did not list its tools: .*No such file"),
        (McpServer(command=sys.executable, args=("-c", "pass")), "the MCP server 'mine' did not list its tools: ."),
        (
            McpServer(command=sys.executable, args=("-c", "print('no MCP'); input()")),
            "the MCP server 'mine' did not list its tools: .",
        ),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_with_its_code(server: McpServer, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        await McpToolSet.connect("mine", server)
    assert caught.value.code == "mcp_unreachable"


@pytest.mark.parametrize(
    "text",
    ["", '{"mcpServers": {"a": {}}}', '{"mcpServers": {"a": {"command": "x", "url": "y"}}}', '{"mcpServers": 1}'],
)
def test_each_mistake_of_the_configuration_has_its_code(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_mcp_config(text)
    assert caught.value.code == "mcp_config"


@pytest.mark.parametrize(
    ("code", "counted"),
    [(-32601, "2"), (-32602, "2"), (-32603, "2"), (-32600, "1"), (-32604, "1"), (-32700, "1"), (1, "1")],
)
async def test_an_error_that_answers_one_call_leaves_the_session_and_any_other_costs_it(
    code: int, counted: str
) -> None:
    server = McpServer(command=sys.executable, args=(str(ODD_PATH.with_name("mcp_counter.py")),))
    async with aclosing(await McpToolSet.connect("counter", server)) as connected:
        router = Router(connected.tools)

        async def call(name: str, body: str = "{}") -> ToolResult:
            return await router.call(ToolCall(call_id="c", recipient=f"functions.counter__{name}", body=body))

        assert (await call("count")).text(envelope=False) == "1"
        refused = await call("refuse", json.dumps({"code": code}))
        assert refused.error is not None
        assert (refused.error.code, refused.error.retryable) == ("E-TOOL-FAILED", True)
        assert (await call("count")).text(envelope=False) == counted
