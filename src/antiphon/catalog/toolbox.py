"""The tools that the operator gives to the models of a server or a chat: built-ins, Python files, MCP servers."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from antiphon.conversation import ToolNamespace, ToolSpec
from antiphon.errors import ConfigError, near
from antiphon.tools import FunctionTools, Router, ToolLimits, ToolSet
from antiphon.tools.browser import Backend, Browser, Corpus, SearxNG, Web
from antiphon.tools.mcp import McpTools, read_mcp_config
from antiphon.tools.python import Bubblewrap, PythonTool, SandboxLimits

BUILTINS = ("browser", "python")
THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """``names``: built-ins and paths of Python files. ``corpus``: a folder of pages instead of the web.

    ``searxng`` is the address of a search service for the web. ``python_packages``: what sandboxed code may import.
    """

    names: tuple[str, ...] = ()
    mcp: Path | None = None
    corpus: Path | None = None
    web: bool = False
    searxng: str | None = None
    python_packages: Path | None = None
    limits: ToolLimits = field(default_factory=ToolLimits)


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tool sets that are open, and the router over all of them; close it once."""

    sets: tuple[ToolSet, ...]
    router: Router
    _threads: Executor

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(spec for tools in self.sets for spec in tools.specs)

    @property
    def builtins(self) -> tuple[ToolNamespace, ...]:
        return tuple(namespace for tools in self.sets for namespace in tools.builtins)

    async def aclose(self) -> None:
        for tools in self.sets:
            await tools.aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)


async def open_toolbox(settings: ToolSettings) -> Toolbox:
    """Opens what ``settings`` name. Raises `ConfigError` for what cannot be opened; then nothing stays open."""
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tool")
    sets: list[ToolSet] = []
    try:
        for name in dict.fromkeys(settings.names):
            sets.append(_open(name, settings, threads))
        if settings.mcp is not None:
            for name, server in read_mcp_config(_read(settings.mcp)).items():
                sets.append(await McpTools.connect(name, server))
        router = Router([tool for tools in sets for tool in tools.tools], settings.limits)
    except ValueError as error:
        await _close(sets, threads)
        raise ConfigError(str(error), code="tool_names") from error
    except BaseException:
        await _close(sets, threads)
        raise
    return Toolbox(tuple(sets), router, threads)


def _open(name: str, settings: ToolSettings, threads: Executor) -> ToolSet:
    if name.endswith(".py"):
        return FunctionTools.of_module(load_module(Path(name)), executor=threads)
    match name:
        case "python":
            return PythonTool(Bubblewrap(SandboxLimits(packages=settings.python_packages)))
        case "browser":
            return Browser(_backend(settings))
        case _:
            hint = f"{near(name, BUILTINS)} Or the path of a Python file."
            raise ConfigError(f"unknown tool {name!r}", code="tool_unknown", hint=hint)


def _backend(settings: ToolSettings) -> Backend:
    if settings.web:
        return Web(search=SearxNG(settings.searxng) if settings.searxng else None)
    return Corpus(settings.corpus or own_pages())


def own_pages() -> Path:
    """The small corpus that comes along: Antiphon's own documentation."""
    here = Path(__file__).parent.parent
    shipped, cloned = here / "pages", here.parent.parent / "docs"
    return shipped if shipped.is_dir() else cloned


def load_module(path: Path) -> ModuleType:
    """Runs a Python file that the operator named. Raises `ConfigError` when it is not there or fails."""
    spec = importlib.util.spec_from_file_location(f"antiphon_tools_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"{path} is not a Python file", code="tool_file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} failed: {type(error).__name__}: {error}", code="tool_file") from error
    return module


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", code="mcp_config") from error


async def _close(sets: Sequence[ToolSet], threads: Executor) -> None:
    for tools in sets:
        await tools.aclose()
    threads.shutdown(wait=False, cancel_futures=True)
