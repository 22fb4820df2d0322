"""The reference's JSON form of a conversation (``harmony-json``, R-04) ⇄ `Conversation`, without loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from antiphon.conversation import (
    ChannelConfig,
    Conversation,
    DeveloperContent,
    End,
    Message,
    OpaquePart,
    Part,
    ReasoningEffort,
    Role,
    SystemContent,
    TextPart,
    ToolNamespace,
    ToolSpec,
)
from antiphon.errors import FormatError, ParseError, Position, json_words

from .controls import CONSTRAIN

MARK = CONSTRAIN.spelling
EFFORTS = {"Low": ReasoningEffort.LOW, "Medium": ReasoningEffort.MEDIUM, "High": ReasoningEffort.HIGH}


def read_conversation(source: str | bytes | Mapping[str, Any]) -> Conversation:
    """A conversation of the reference, verbatim. Raises `ParseError` with the path of what is wrong."""
    data = _loads(source) if isinstance(source, (str, bytes)) else source
    messages = _field(_mapping(data, "$"), "messages", "$")
    if not isinstance(messages, list):
        raise _wrong("$.messages", "a list of messages", messages)
    return Conversation(tuple(read_message(m, f"$.messages[{i}]") for i, m in enumerate(messages)), verbatim=True)


def read_message(data: Any, path: str = "$") -> Message:
    """One message of the reference. What is null is absent; unknown fields are ignored, as the reference does."""
    fields = _mapping(data, path)
    role = _role(_field(fields, "role", path), f"{path}.role")
    content_type = _text(fields, "content_type", path)
    recipient = _text(fields, "recipient", path)
    constrained = content_type is not None and content_type.startswith(MARK)
    text, parts = _content(_field(fields, "content", path), f"{path}.content")
    return Message(
        role=role,
        text=text,
        parts=parts,
        name=_text(fields, "name", path),
        channel=_text(fields, "channel", path),
        recipient=recipient,
        content_type=content_type.removeprefix(MARK) if content_type is not None else None,
        constrained=constrained,
        end=End.CALL if role is Role.ASSISTANT and recipient is not None else End.END,
    )


def write_conversation(conversation: Conversation) -> dict[str, Any]:
    """The reference's form. Raises `FormatError` for a part that it cannot represent."""
    return {"messages": [write_message(message) for message in conversation.messages]}


def write_message(message: Message) -> dict[str, Any]:
    """One message; a single text is a plain string, as the reference writes it."""
    content_type = message.content_type
    if content_type is not None and message.constrained:
        content_type = MARK + content_type
    fields = {
        "role": message.role.value,
        "name": message.name,
        "content": [_write_part(part) for part in message.parts] if message.parts else message.text,
        "channel": message.channel,
        "recipient": message.recipient,
        "content_type": content_type,
    }
    return _present(fields)


def _content(data: Any, path: str) -> tuple[str, tuple[Part, ...]]:
    if isinstance(data, str):
        return data, ()
    if not isinstance(data, list):
        raise _wrong(path, "a string or a list of content", data)
    parts = tuple(_part(item, f"{path}[{i}]") for i, item in enumerate(data))
    return "".join(part.text for part in parts if isinstance(part, TextPart)), parts


def _part(data: Any, path: str) -> Part:
    fields = _mapping(data, path)
    match _field(fields, "type", path):
        case "text":
            text = _field(fields, "text", path)
            if not isinstance(text, str):
                raise _wrong(f"{path}.text", "a string", text)
            return TextPart(text)
        case "system_content":
            return _system_content(fields, path)
        case "developer_content":
            return DeveloperContent(
                instructions=_text(fields, "instructions", path), tools=_tools(fields.get("tools"), f"{path}.tools")
            )
        case other:
            raise _wrong(f"{path}.type", "text, system_content or developer_content", other)


def _system_content(fields: Mapping[str, Any], path: str) -> SystemContent:
    effort = fields.get("reasoning_effort")
    if effort is not None and (not isinstance(effort, str) or effort not in EFFORTS):
        raise _wrong(f"{path}.reasoning_effort", "Low, Medium or High", effort)
    return SystemContent(
        identity=_text(fields, "model_identity", path),
        reasoning_effort=EFFORTS[effort] if effort is not None else None,
        start_date=_text(fields, "conversation_start_date", path),
        knowledge_cutoff=_text(fields, "knowledge_cutoff", path),
        channels=_channels(fields.get("channel_config"), f"{path}.channel_config"),
        tools=_tools(fields.get("tools"), f"{path}.tools"),
    )


def _channels(data: Any, path: str) -> ChannelConfig | None:
    if data is None:
        return None
    fields = _mapping(data, path)
    valid, required = _field(fields, "valid_channels", path), _field(fields, "channel_required", path)
    if not isinstance(valid, list) or not all(isinstance(channel, str) for channel in valid):
        raise _wrong(f"{path}.valid_channels", "a list of strings", valid)
    if not isinstance(required, bool):
        raise _wrong(f"{path}.channel_required", "true or false", required)
    return ChannelConfig(tuple(valid), required)


def _tools(data: Any, path: str) -> dict[str, ToolNamespace] | None:
    if data is None:
        return None
    return {key: _namespace(value, f"{path}.{key}") for key, value in _mapping(data, path).items()}


def _namespace(data: Any, path: str) -> ToolNamespace:
    fields = _mapping(data, path)
    name = _name(fields, path)
    tools = _field(fields, "tools", path)
    if not isinstance(tools, list):
        raise _wrong(f"{path}.tools", "a list of tools", tools)
    members = tuple(_tool(tool, name, f"{path}.tools[{i}]") for i, tool in enumerate(tools))
    return ToolNamespace(name, _text(fields, "description", path), members)


def _tool(data: Any, namespace: str, path: str) -> ToolSpec:
    fields = _mapping(data, path)
    description = _field(fields, "description", path)
    if not isinstance(description, str):
        raise _wrong(f"{path}.description", "a string", description)
    return ToolSpec(_name(fields, path), description, fields.get("parameters"), namespace=namespace)


def _write_part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case SystemContent():
            effort = next((word for word, level in EFFORTS.items() if level is part.reasoning_effort), None)
            channels = part.channels
            config = channels and {"valid_channels": list(channels.valid), "channel_required": channels.required}
            fields = {
                "model_identity": part.identity,
                "reasoning_effort": effort,
                "conversation_start_date": part.start_date,
                "knowledge_cutoff": part.knowledge_cutoff,
                "channel_config": config,
                "tools": _write_tools(part.tools),
            }
            return {"type": "system_content", **_present(fields)}
        case DeveloperContent(response_format=None):
            fields = {"instructions": part.instructions, "tools": _write_tools(part.tools)}
            return {"type": "developer_content", **_present(fields)}
        case DeveloperContent() | OpaquePart():
            kind = "response_format" if isinstance(part, DeveloperContent) else part.kind
            raise FormatError(f"harmony-json cannot represent {kind!r}", code="unsupported_part")


def _write_tools(tools: Mapping[str, ToolNamespace] | None) -> dict[str, Any] | None:
    if tools is None:
        return None
    return {
        key: _present({
            "name": namespace.name,
            "description": namespace.description,
            "tools": [
                _present({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
                for tool in namespace.tools
            ],
        })
        for key, namespace in tools.items()
    }  # fmt: skip


def _loads(source: str | bytes) -> Any:
    try:
        return json.loads(source)
    except json.JSONDecodeError as error:
        at = Position(offset=error.pos, line=error.lineno, column=error.colno)
        raise ParseError(f"not JSON: {json_words(error)}", code="not_json", position=at) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"not readable as JSON: {error}", code="not_json") from None


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _mapping(data: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _wrong(path, "an object", data)
    return data


def _field(fields: Mapping[str, Any], key: str, path: str) -> Any:
    if key not in fields:
        raise ParseError(f"missing field `{key}`", code="missing_field", position=Position(path=path))
    return fields[key]


def _text(fields: Mapping[str, Any], key: str, path: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise _wrong(f"{path}.{key}", "a string", value)
    return value


def _name(fields: Mapping[str, Any], path: str) -> str:
    name = _field(fields, "name", path)
    if not isinstance(name, str):
        raise _wrong(f"{path}.name", "a string", name)
    return name


def _role(value: Any, path: str) -> Role:
    try:
        return Role(value)
    except ValueError:
        raise _wrong(path, f"one of {', '.join(Role)}", value) from None


def _wrong(path: str, expected: str, found: Any) -> ParseError:
    shown = json.dumps(found, default=repr)[:60]
    return ParseError(f"expected {expected}, found {shown}", code="wrong_value", position=Position(path=path))
