"""The frames that introduce a prompt (§16.2): settings in a system frame, tools and answer form in a developer's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from antiphon.conversation import (
    Channel,
    Conversation,
    DeveloperContent,
    Message,
    OpaquePart,
    Part,
    ResponseFormat,
    Role,
    Settings,
    SystemContent,
    TextPart,
    ToolNamespace,
    ToolSpec,
)
from antiphon.errors import RenderError


def introduction(conversation: Conversation) -> Iterator[Message]:
    """The frames before the conversation's own: nothing where there is nothing to say."""
    if conversation.verbatim:
        return
    system = "\n\n".join(_system_sections(conversation.settings, bool(conversation.tools)))
    if system:
        yield Message(role=Role.SYSTEM, text=system)
    namespaces = [*conversation.builtins, *_namespaces(conversation.tools)]
    developer = "\n\n".join([*_tool_sections(namespaces), *_format_sections(conversation.response_format)])
    if developer:
        yield Message(role=Role.DEVELOPER, text=developer)


def text_of(message: Message) -> str:
    """The body of a message. Raises `RenderError` for a part that is no text (image, audio …)."""
    return "".join(map(_part_text, message.parts)) if message.parts else message.text


def _part_text(part: Part) -> str:
    match part:
        case TextPart(text):
            return text
        case SystemContent():
            effort, channels = part.reasoning_effort, part.channels.valid if part.channels else None
            lines = _facts(part.identity, part.knowledge_cutoff, part.start_date)
            tools = _tool_sections((part.tools or {}).values())
            return "\n\n".join([*lines, *_reasoning(effort), *tools, *_channels(channels, False)])
        case DeveloperContent():
            instructions = [] if part.instructions is None else [f"# Instructions\n\n{part.instructions}"]
            tools = _tool_sections((part.tools or {}).values())
            return "\n\n".join([*instructions, *tools, *_format_sections(part.response_format)])
        case OpaquePart(kind):
            raise RenderError(f"OpenChatML has no frame for a part of kind {kind!r}", hint="It carries text only.")


def _system_sections(settings: Settings, functions: bool) -> Iterator[str]:
    today = settings.current_date.isoformat() if settings.current_date else None
    yield from _facts(settings.identity, settings.knowledge_cutoff, today)
    yield from _reasoning(settings.reasoning_effort)
    yield from _channels(settings.channels, functions)


def _facts(identity: str | None, cutoff: str | None, today: str | None) -> list[str]:
    lines = [identity, cutoff and f"Knowledge cutoff: {cutoff}", today and f"Current date: {today}"]
    return ["\n".join(line for line in lines if line)] if any(lines) else []


def _reasoning(effort: str | None) -> list[str]:
    return [f"Reasoning: {effort}"] if effort else []


def _channels(channels: Iterable[str] | None, functions: bool) -> list[str]:
    if channels is None and not functions:
        return []
    names = ", ".join(tuple(Channel) if channels is None else channels)
    lines = [f"# Valid channels: {names}. Channel must be included for every message."]
    lines += ["Calls to these tools must go to the commentary channel: 'functions'."] if functions else []
    return ["\n".join(lines)]


def _namespaces(tools: Iterable[ToolSpec]) -> list[ToolNamespace]:
    groups: dict[str, list[ToolSpec]] = {}
    for tool in tools:
        groups.setdefault(tool.namespace, []).append(tool)
    return [ToolNamespace(name, None, tuple(group)) for name, group in groups.items()]


def _tool_sections(namespaces: Iterable[ToolNamespace]) -> list[str]:
    sections = [_namespace(namespace) for namespace in namespaces if namespace.tools or namespace.description]
    return ["# Tools", *sections] if sections else []


def _namespace(namespace: ToolNamespace) -> str:
    lines = [f"## {namespace.name}", *([namespace.description] if namespace.description else [])]
    for tool in namespace.tools:
        declared = {"name": tool.recipient, "description": tool.description, "parameters": tool.parameters}
        lines.append(json.dumps({k: v for k, v in declared.items() if v not in ("", None)}, ensure_ascii=False))
    return "\n".join(lines)


def _format_sections(form: ResponseFormat | None) -> list[str]:
    if form is None or form.kind == "text":
        return []
    title = f"## {form.name or form.kind}" + (f"\n\n// {form.description}" if form.description else "")
    match form.kind:
        case "json_schema":
            requirement = json.dumps(form.schema, ensure_ascii=False)
        case "regex":
            requirement = f"Text that matches {form.pattern}"
        case "choice":
            requirement = "One of: " + ", ".join(form.choices)
        case "grammar":
            requirement = f"Text of the grammar\n\n{form.grammar}"
        case _:
            requirement = "A JSON object."
    return [f"# Response Formats\n\n{title}\n\n{requirement}"]
