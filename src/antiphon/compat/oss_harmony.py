"""`oss-harmony` over Antiphon: the names of `openai_harmony`, for programs that install the fork, such as vLLM.

It installs the module `openai_harmony` too; calls are rendered in its dialect (b).
"""

from __future__ import annotations

from .openai_harmony import (
    Author,
    ChannelConfig,
    Content,
    Conversation,
    DeveloperContent,
    HarmonyEncoding,
    HarmonyEncodingName,
    HarmonyError,
    Message,
    ReasoningEffort,
    RenderConversationConfig,
    RenderOptions,
    Role,
    StreamableParser,
    StreamState,
    SystemContent,
    TextContent,
    ToolDescription,
    ToolNamespaceConfig,
)
from .openai_harmony import load_harmony_encoding as load


def load_harmony_encoding(name: str | HarmonyEncodingName) -> HarmonyEncoding:
    """The encoding by name; read once a process. Raises ValueError."""
    return load(name, dialect="b")


__all__ = [
    "Author",
    "ChannelConfig",
    "Content",
    "Conversation",
    "DeveloperContent",
    "HarmonyEncoding",
    "HarmonyEncodingName",
    "HarmonyError",
    "Message",
    "ReasoningEffort",
    "RenderConversationConfig",
    "RenderOptions",
    "Role",
    "StreamState",
    "StreamableParser",
    "SystemContent",
    "TextContent",
    "ToolDescription",
    "ToolNamespaceConfig",
    "load_harmony_encoding",
]
