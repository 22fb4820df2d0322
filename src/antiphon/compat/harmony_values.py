"""The values of `openai-harmony`: the same names, fields, defaults and fluent calls, and the same JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from importlib import import_module
from typing import Any, Self

from antiphon.conversation import Role, ToolNamespace
from antiphon.formats.harmony import BROWSER, PYTHON

from .models import Json, Mismatch, Model, Path

IDENTITY = "You are ChatGPT, a large language model trained by OpenAI."
CHANNELS = ("analysis", "commentary", "final")


class ReasoningEffort(StrEnum):
    """On the wire with a capital letter."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


class Author(Model):
    role: Role
    name: str | None = None

    @classmethod
    def new(cls, role: Role, name: str) -> Self:
        return cls(role=role, name=name)


class Content(Model):
    """Content of a message: a dictionary says by its ``type`` which content it is."""

    def to_dict(self) -> Json:
        raise NotImplementedError

    @classmethod
    def read(cls, raw: Mapping[str, object], path: Path, mismatches: list[Mismatch]) -> Model:
        if cls is not Content:
            return super().read(raw, path, mismatches)
        tag = raw.get("type")
        if isinstance(tag, str) and tag in CONTENTS:
            return CONTENTS[tag].read(raw, path, mismatches)
        words = {"discriminator": "'type'", "tag": str(tag), "expected_tags": ", ".join(map(repr, CONTENTS))}
        mismatches.append(Mismatch("union_tag_invalid", path, raw, words))
        return Content()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return _any_content(handler) if cls is Content else handler(source)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Json:
        found: Json = handler(schema)
        if cls is Content:
            kinds = zip(found.pop("oneOf"), CONTENTS, strict=True)
            found["oneOf"] = [
                {**kind, "properties": {"type": {"const": tag}}, "required": ["type"]} for kind, tag in kinds
            ]
        return found


class TextContent(Content):
    text: str

    def to_dict(self) -> Json:
        return {"type": "text", "text": self.text}


class ToolDescription(Model):
    name: str
    description: str
    parameters: dict[Any, Any] | None = None

    @classmethod
    def new(cls, name: str, description: str, parameters: Json | None = None) -> Self:
        return cls(name=name, description=description, parameters=parameters)

    def to_dict(self) -> Json:
        return _present(name=self.name, description=self.description, parameters=self.parameters)


class ChannelConfig(Model):
    valid_channels: list[str]
    channel_required: bool

    @classmethod
    def require_channels(cls, channels: list[str]) -> Self:
        return cls(valid_channels=channels, channel_required=True)

    def to_dict(self) -> Json:
        return {"valid_channels": self.valid_channels, "channel_required": self.channel_required}


class ToolNamespaceConfig(Model):
    name: str
    description: str | None = None
    tools: list[ToolDescription] = field(kw_only=True)

    @staticmethod
    def browser() -> ToolNamespaceConfig:
        return _namespace(BROWSER)

    @staticmethod
    def python() -> ToolNamespaceConfig:
        return _namespace(PYTHON)

    def to_dict(self) -> Json:
        tools = [tool.to_dict() for tool in self.tools]
        return _present(name=self.name, description=self.description, tools=tools)


class SystemContent(Content):
    model_identity: str | None = IDENTITY
    reasoning_effort: ReasoningEffort | None = ReasoningEffort.MEDIUM
    conversation_start_date: str | None = None
    knowledge_cutoff: str | None = "2024-06"
    channel_config: ChannelConfig | None = field(default_factory=lambda: ChannelConfig.require_channels([*CHANNELS]))
    tools: dict[str, ToolNamespaceConfig] | None = None

    @classmethod
    def new(cls) -> Self:
        return cls()

    def with_model_identity(self, model_identity: str) -> Self:
        self.model_identity = model_identity
        return self

    def with_reasoning_effort(self, reasoning_effort: ReasoningEffort) -> Self:
        self.reasoning_effort = ReasoningEffort(reasoning_effort)
        return self

    def with_conversation_start_date(self, conversation_start_date: str) -> Self:
        self.conversation_start_date = conversation_start_date
        return self

    def with_knowledge_cutoff(self, knowledge_cutoff: str) -> Self:
        self.knowledge_cutoff = knowledge_cutoff
        return self

    def with_channel_config(self, channel_config: ChannelConfig) -> Self:
        self.channel_config = channel_config
        return self

    def with_required_channels(self, channels: list[str]) -> Self:
        return self.with_channel_config(ChannelConfig.require_channels(channels))

    def with_tools(self, ns_config: ToolNamespaceConfig) -> Self:
        self.tools = {**(self.tools or {}), ns_config.name: ns_config}
        return self

    def with_browser_tool(self) -> Self:
        return self.with_tools(ToolNamespaceConfig.browser())

    def with_python_tool(self) -> Self:
        return self.with_tools(ToolNamespaceConfig.python())

    def to_dict(self) -> Json:
        return _present(
            model_identity=self.model_identity,
            reasoning_effort=self.reasoning_effort,
            conversation_start_date=self.conversation_start_date,
            knowledge_cutoff=self.knowledge_cutoff,
            channel_config=self.channel_config and self.channel_config.to_dict(),
            tools=_tools(self.tools),
            type="system_content",
        )

    @classmethod
    def from_dict(cls, raw: Json) -> Self:
        """Reads a dictionary. What is missing takes its default; what is null is not rendered."""
        return cls(**raw)


class DeveloperContent(Content):
    instructions: str | None = None
    tools: dict[str, ToolNamespaceConfig] | None = None

    @classmethod
    def new(cls) -> Self:
        return cls()

    def with_instructions(self, instructions: str) -> Self:
        self.instructions = instructions
        return self

    def with_tools(self, ns_config: ToolNamespaceConfig) -> Self:
        self.tools = {**(self.tools or {}), ns_config.name: ns_config}
        return self

    def with_function_tools(self, tools: Sequence[ToolDescription]) -> Self:
        return self.with_tools(ToolNamespaceConfig("functions", tools=list(tools)))

    def to_dict(self) -> Json:
        return _present(instructions=self.instructions, tools=_tools(self.tools), type="developer_content")

    @classmethod
    def from_dict(cls, raw: Json) -> Self:
        return cls(**raw)


class Message(Model):
    author: Author
    content: list[Content] = field(default_factory=list)
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None

    @classmethod
    def from_author_and_content(cls, author: Author, content: str | Content) -> Self:
        return cls(author=author, content=[_as_content(content)])

    @classmethod
    def from_role_and_content(cls, role: Role, content: str | Content) -> Self:
        return cls.from_author_and_content(Author(role=role), content)

    @classmethod
    def from_role_and_contents(cls, role: Role, contents: Sequence[Content]) -> Self:
        return cls(author=Author(role=role), content=list(contents))

    def adding_content(self, content: str | Content) -> Self:
        self.content.append(_as_content(content))
        return self

    def with_channel(self, channel: str) -> Self:
        self.channel = channel
        return self

    def with_recipient(self, recipient: str) -> Self:
        self.recipient = recipient
        return self

    def with_content_type(self, content_type: str) -> Self:
        self.content_type = content_type
        return self

    def to_dict(self) -> Json:
        return {
            "role": self.author.role,
            "name": self.author.name,
            "content": [content.to_dict() for content in self.content],
            **_present(channel=self.channel, recipient=self.recipient, content_type=self.content_type),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: Json) -> Self:
        """Raises ValueError for an unknown role or kind of content."""
        raw = data["content"]
        items = [{"type": "text", "text": raw}] if isinstance(raw, str) else raw
        contents = [_content(item) for item in items]
        author = Author(Role(data["role"]), data.get("name"))
        return cls(author, contents, data.get("channel"), data.get("recipient"), data.get("content_type"))


class Conversation(Model):
    messages: list[Message] = field(default_factory=list)

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> Self:
        return cls(messages=list(messages))

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def to_dict(self) -> Json:
        return {"messages": [message.to_dict() for message in self.messages]}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, payload: str) -> Self:
        return cls([Message.from_dict(message) for message in json.loads(payload)["messages"]])


CONTENTS: dict[str, type[Content]] = {
    "text": TextContent,
    "system_content": SystemContent,
    "developer_content": DeveloperContent,
}
"""Each content by the ``type`` of its JSON."""
TAGS = {kind: tag for tag, kind in CONTENTS.items()}


def _as_content(content: str | Content) -> Content:
    return TextContent(text=content) if isinstance(content, str) else content


def _content(raw: Json) -> Content:
    kind = CONTENTS.get(raw.get("type", ""))
    if kind is None:
        raise ValueError(f"Unknown content variant: {raw}")
    return kind(**raw)


def _any_content(handler: Any) -> Any:
    """Pydantic's schema of a content of any kind, which is dumped with the ``type`` by which it is read."""
    core = import_module("pydantic_core.core_schema")
    kinds = {tag: handler.generate_schema(kind) for tag, kind in CONTENTS.items()}
    dump = core.wrap_serializer_function_ser_schema(
        lambda content, dump: {"type": TAGS[type(content)], **dump(content)},
        schema=core.tagged_union_schema(kinds, _tag),
    )
    return core.tagged_union_schema(kinds, _tag, serialization=dump)


def _tag(raw: Any) -> Any:
    return raw.get("type") if isinstance(raw, dict) else TAGS.get(type(raw))


def _namespace(trained: ToolNamespace) -> ToolNamespaceConfig:
    tools = [ToolDescription(t.name, t.description, t.parameters or None) for t in trained.tools]  # type: ignore[arg-type]  # never a bool here
    return ToolNamespaceConfig(trained.name, trained.description, tools=tools)


def _tools(tools: dict[str, ToolNamespaceConfig] | None) -> Json | None:
    return None if tools is None else {key: namespace.to_dict() for key, namespace in tools.items()}


def _present(**fields: Any) -> Json:
    return {key: value for key, value in fields.items() if value is not None}
