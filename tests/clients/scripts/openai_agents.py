# /// script
# dependencies = ["openai-agents>=0.24", "uvicorn"]
# ///
"""OpenAI's agents: a run with a tool, over responses and over chat completions, streamed too.

With hosted MCP: a server of this script's own, which Antiphon calls, with approvals and without.
"""

import asyncio
import socket
import threading
from typing import Literal

import uvicorn
from agents import (
    Agent,
    HostedMCPTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from mcp.server import MCPServer
from openai import AsyncOpenAI
from pydantic import BaseModel
from steps import CHAT, CITIES, OBEDIENT, THINKER, URL, WEATHER, finish, step

set_tracing_disabled(True)
calls = []


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


@function_tool
def weather(city: Literal["Bern", "Basel"]) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"18 degrees in {city}"


def agent(kind, model, **options):
    client = AsyncOpenAI(base_url=URL, api_key="any", max_retries=0)
    return Agent(name="one", instructions="Obey.", model=kind(model, client), **options)


def weatherman(kind, model):
    """Calls once because it must; then it may answer."""
    must = ModelSettings(tool_choice="required", max_tokens=200, parallel_tool_calls=False)
    return agent(kind, model, tools=[weather], model_settings=must)


def expected(output):
    assert calls
    calls.clear()
    assert output == "it said: 18 degrees in Bern" if OBEDIENT else output, output


@step
def responses():
    expected(asyncio.run(Runner.run(weatherman(OpenAIResponsesModel, THINKER), WEATHER, max_turns=20)).final_output)


@step
def responses_stream():
    async def run():
        streamed = Runner.run_streamed(weatherman(OpenAIResponsesModel, THINKER), WEATHER, max_turns=20)
        async for _ in streamed.stream_events():
            pass
        return streamed.final_output

    expected(asyncio.run(run()))


@step
def responses_typed():
    one = agent(OpenAIResponsesModel, CHAT, output_type=Place)
    assert asyncio.run(Runner.run(one, 'say: {"city": "Bern"}')).final_output.city in CITIES


@step
def chat():
    expected(asyncio.run(Runner.run(weatherman(OpenAIChatCompletionsModel, CHAT), WEATHER, max_turns=20)).final_output)


@step
def chat_stream():
    async def run():
        streamed = Runner.run_streamed(weatherman(OpenAIChatCompletionsModel, CHAT), WEATHER, max_turns=20)
        async for _ in streamed.stream_events():
            pass
        return streamed.final_output

    expected(asyncio.run(run()))


pages = MCPServer("pages")
erased = []
listening = socket.create_server(("127.0.0.1", 0))
ADDRESS = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
ERASE = 'call: pages__erase {"page": "bern"}'


@pages.tool()
def erase(page: str) -> str:
    """Erases a page."""
    erased.append(page)
    return f"{page} is erased"


server = uvicorn.Server(uvicorn.Config(pages.streamable_http_app(), log_level="warning"))
threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()


def hosted(model, *, approve=None):
    """An agent with the server's tools; ``approve`` answers requests for an approval; None: there are none."""
    config = {"type": "mcp", "server_label": "pages", "server_url": ADDRESS, "authorization": "a token"}
    config["require_approval"] = "never" if approve is None else "always"
    tool = HostedMCPTool(tool_config=config, on_approval_request=approve and (lambda request: approve))
    return agent(OpenAIResponsesModel, model, tools=[tool], model_settings=ModelSettings(max_tokens=200))


async def ran(one, *, streamed=False):
    """The run's kinds of items, and what the agent said at last."""
    if not streamed:
        run = await Runner.run(one, ERASE, max_turns=5)
    else:
        run = Runner.run_streamed(one, ERASE, max_turns=5)
        async for _ in run.stream_events():
            pass
    kinds = [item.raw_item.type for item in run.new_items if hasattr(item.raw_item, "type")]
    return kinds, run.final_output


def expect_erased(kinds, output, *, times=1):
    assert kinds.count("mcp_list_tools") == 1, kinds
    if OBEDIENT:
        assert erased == ["bern"] * times, erased
        assert ("bern is erased" if times else "refused") in output, output
        assert kinds.count("mcp_call") == times, kinds
    erased.clear()


@step
def responses_mcp():
    expect_erased(*asyncio.run(ran(hosted(CHAT))))


@step
def responses_mcp_stream():
    expect_erased(*asyncio.run(ran(hosted(THINKER), streamed=True)))


@step
def responses_mcp_approved():
    expect_erased(*asyncio.run(ran(hosted(CHAT, approve={"approve": True}))))


@step
def responses_mcp_approved_stream():
    expect_erased(*asyncio.run(ran(hosted(THINKER, approve={"approve": True}), streamed=True)))


@step
def responses_mcp_refused():
    refusal = {"approve": False, "reason": "Bern stays."}
    kinds, output = asyncio.run(ran(hosted(CHAT, approve=refusal)))
    expect_erased(kinds, output, times=0)
    assert not OBEDIENT or "Bern stays." in output, output


finish("openai-agents")
