"""Settings of tools that run here, in the words of OpenAI's: what cannot be honoured is refused by its name."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.conversation import ToolSpec
from antiphon.wire.built_in import DOMAINS, impossible
from antiphon.wire.errors import refused

from .schema import McpFilter, ResponsesTool


def check_settings(tool: ResponsesTool, path: str) -> list[str]:
    """The paths of settings that change nothing. Raises `RequestError` at one that would, and cannot be had."""
    if tool.filters and any(tool.filters.values()):
        raise impossible(f"{path}.filters", DOMAINS)
    ignored = [name for name in ("search_context_size", "user_location") if getattr(tool, name) is not None]
    container = tool.container
    if isinstance(container, str):
        raise impossible(f"{path}.container", 'a container is that of its responses; send {"type": "auto"}.')
    if container is not None:
        if container.file_ids:
            raise impossible(f"{path}.container.file_ids", "code here reads no files of the client.")
        if container.network_policy and container.network_policy.get("type") != "disabled":
            raise impossible(f"{path}.container.network_policy", "code here has no network.")
        ignored += ["container.memory_limit"] if container.memory_limit is not None else []
    return [f"{path}.{name}" for name in ignored]


def allowed_of(tool: ResponsesTool, specs: Sequence[ToolSpec], path: str) -> list[ToolSpec]:
    """Those of a server's tools that are allowed, by default all. Raises `RequestError` for an unknown one."""
    allowed, path = tool.allowed_tools, f"{path}.allowed_tools"
    if isinstance(allowed, McpFilter):
        if allowed.read_only:
            raise impossible(f"{path}.read_only", "it is not known which tools only read.")
        allowed, path = allowed.tool_names, f"{path}.tool_names"
    if allowed is None:
        return list(specs)
    by_name = {spec.name.removeprefix(f"{tool.server_label}__"): spec for spec in specs}
    for i, name in enumerate(allowed):
        if name not in by_name:
            raise refused(f"{path}[{i}]", f"the server has no tool {name[:64]!r}.")
    return [spec for name, spec in by_name.items() if name in allowed]
