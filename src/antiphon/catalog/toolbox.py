"""The tools that the operator gives to models: built-ins, Python files, tools of installed packages, MCP servers."""

from __future__ import annotations

import importlib.util
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec import MsgspecError

from antiphon.config import ToolsConfig
from antiphon.conversation import Conversation, FinishReason, Message, Role, ToolChoice, visible_to_user
from antiphon.errors import ConfigError, near, words_of
from antiphon.errors.extras import require
from antiphon.generation import Model, TurnRequest, collect, prepare_turn, run_turn
from antiphon.tools import FunctionToolSet, Toolbox, ToolFactory, ToolLimits, ToolSet
from antiphon.tools.function import WANTED
from antiphon.tools.mcp import NOBODY, McpHost, McpLimits, SamplingAnswer, SamplingRequest, TokenStore
from antiphon.tools.mcp.config import Sample
from antiphon.tools.registry import NO_TOOLS, tool_names, tool_set

if TYPE_CHECKING:  # most servers have none of them
    from antiphon.tools.mcp import ClientServers, McpServer


# Sampling for MCP servers: a text by one of our models, for the servers that the operator allows it.

WHOLE = (FinishReason.STOP_EOS, FinishReason.STOP_SEQUENCE)
ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def sampler(get: Callable[[str], Awaitable[Model]], name: str) -> Sample:
    """Texts by the model of that name, which ``get`` loads. They raise what it, planning and the engine raise."""

    async def sample(request: SamplingRequest) -> SamplingAnswer:
        model = await get(name)
        plan = await prepare_turn(model, turn_request(request))
        async with aclosing(run_turn(plan)) as events:
            reply = (await collect(events))[0]
        text = "\n\n".join(message.text for message in reply.messages if visible_to_user(message))
        return SamplingAnswer(text, model.name, complete=reply.reason in WHOLE)

    return sample


def turn_request(request: SamplingRequest) -> TurnRequest:
    """The server's texts as messages of a conversation of its own: it sees no other."""
    system = (Message(role=Role.SYSTEM, text=request.system),) if request.system else ()
    texts = (Message(role=ROLES[message.role], text=message.text) for message in request.messages)
    return TurnRequest(
        conversation=Conversation(messages=(*system, *texts)),
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        stop=request.stop,
        tool_choice=ToolChoice("none"),
    )


BUILTINS = ("browser", "python")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """``names``: built-ins, paths of Python files, and tools of packages.

    ``corpus``: a folder of pages instead of the web. ``searxng`` is the address of a search service for the web.
    ``python_packages``: what sandboxed code may import. ``mcp_tokens``: by which we are signed in to MCP servers.
    """

    names: tuple[str, ...] = ()
    mcp: Path | None = None
    mcp_limits: McpLimits = field(default_factory=McpLimits)
    mcp_tokens: TokenStore | None = None
    corpus: Path | None = None
    web: bool = False
    searxng: str | None = None
    python_packages: Path | None = None
    limits: ToolLimits = field(default_factory=ToolLimits)


def tool_settings(config: ToolsConfig) -> ToolSettings:
    """The settings that a configuration's ``[tools]`` table gives."""

    def path(text: str) -> Path | None:
        return Path(text).expanduser() if text else None

    tokens = path(config.mcp_tokens)
    return ToolSettings(
        names=tuple(name.strip() for name in config.names.split(",") if name.strip()),
        mcp=path(config.mcp),
        mcp_limits=McpLimits(sessions=config.mcp_sessions, idle=config.mcp_idle_timeout),
        mcp_tokens=TokenStore(tokens) if tokens else None,
        corpus=path(config.pages),
        web=config.web,
        searxng=config.search or None,
        python_packages=path(config.packages),
    )


def client_servers(config: ToolsConfig) -> ClientServers | None:
    """The MCP servers that clients may name; None where they may name none. Raises `ConfigError`."""
    words = [word.strip() for word in config.client_mcp_networks.split(",") if word.strip()]
    try:
        networks = tuple(ipaddress.ip_network(word) for word in words)
    except ValueError as error:
        raise ConfigError(f"tools.client_mcp_networks: {error}", code="mcp_config") from error
    if not config.client_mcp:
        return None
    require("mcp", "mcp", "tools.client_mcp")
    from antiphon.tools.mcp import ClientServers

    return ClientServers(networks)


@asynccontextmanager
async def open_toolbox(
    settings: ToolSettings, *, tools: Mapping[str, ToolFactory] = NO_TOOLS, host: McpHost = NOBODY
) -> AsyncIterator[Toolbox]:
    """The tools that ``settings`` name, open until the block is left; ``tools`` are factories by name for it.

    ``host`` answers what MCP servers ask.

    A name is a built-in's, else one of ``tools``, else one that an installed package publishes as ``antiphon.tools``.
    Raises `ConfigError` for what cannot be opened.
    """
    async with AsyncExitStack() as stack:
        sets: list[ToolSet] = []
        for name in dict.fromkeys(settings.names):
            sets.append(await stack.enter_async_context(aclosing(_open(name, settings, tools))))
        if settings.mcp is not None:
            require("mcp", "mcp", "tools.mcp")
            from antiphon.tools.mcp import McpToolSet

            for name, server in mcp_servers(settings.mcp).items():
                connected = await McpToolSet.connect(
                    name, server, settings.mcp_limits, host=host, tokens=settings.mcp_tokens
                )
                sets.append(await stack.enter_async_context(aclosing(connected)))
        try:
            toolbox = Toolbox(sets, settings.limits)
        except ValueError as error:
            raise ConfigError(str(error), code="tool_names") from error
        yield toolbox


def _open(name: str, settings: ToolSettings, tools: Mapping[str, ToolFactory]) -> ToolSet:
    if name.endswith(".py"):
        return functions_of(Path(name))
    match name:
        case "python":
            from antiphon.tools.python import Bubblewrap, PythonTool, SandboxLimits

            return PythonTool(Bubblewrap(SandboxLimits(packages=settings.python_packages)))
        case "browser":
            return _browser(settings)
    found = tool_set(name, tools)
    if found is None:
        hint = f"{near(name, (*BUILTINS, *tool_names(tools)))} Or the path of a Python file."
        raise ConfigError(f"unknown tool {name!r}", code="tool_unknown", hint=hint)
    return found


def _browser(settings: ToolSettings) -> ToolSet:
    # Here and not above: most servers have no browser, and its client and its reader of pages are slow to import.
    from antiphon.tools.browser import Browser, Corpus, SearxNG, Web

    if settings.web:
        return Browser(Web(search=SearxNG(settings.searxng) if settings.searxng else None))
    here = Path(__file__).parent.parent
    shipped, cloned = here / "pages", here.parent.parent / "docs"  # Antiphon's own documentation
    return Browser(Corpus(settings.corpus or (shipped if shipped.is_dir() else cloned)))


def functions_of(path: Path) -> FunctionToolSet:
    """The tools of a Python file. Raises `ConfigError` where one cannot be a tool, or there is none."""
    module = load_module(path)
    try:
        found = FunctionToolSet.of_module(module)
    except (TypeError, ValueError, NameError, AttributeError, MsgspecError) as error:
        hint = f"{WANTED} A name that begins with _ is left out."
        raise ConfigError(f"{path} cannot be tools: {error}", code="tool_file", hint=hint) from error
    if not found.tools:
        hint = "A function that the file defines, whose name does not begin with _, is a tool."
        raise ConfigError(f"{path} has no public function", code="tool_file", hint=hint)
    return found


def load_module(path: Path) -> ModuleType:
    """Runs a Python file that the operator named. Raises `ConfigError` when it is not there or fails."""
    spec = importlib.util.spec_from_file_location(f"antiphon_tools_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        what = f"{path} is not a Python file" if path.is_file() else f"there is no file {path}"
        beside = [str(other) for other in path.parent.glob("*.py")]
        hint = near(str(path), beside) if beside else None
        raise ConfigError(what, code="tool_file", hint=hint)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} failed: {type(error).__name__}: {error}", code="tool_file") from error
    return module


def mcp_servers(path: Path) -> dict[str, McpServer]:
    """The servers of the file that MCP clients share. Raises `ConfigError`."""
    from antiphon.tools.mcp import read_mcp_config

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {words_of(error)}", code="mcp_config") from error
    try:
        return read_mcp_config(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", code=error.code, hint=error.hint) from None
