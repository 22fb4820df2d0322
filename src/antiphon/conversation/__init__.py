"""The nouns of a conversation: values only, no input or output. `antiphon.conversation.json` writes messages down."""

from .builtins import BROWSER, PYTHON, TRAINED, described
from .content import ChannelConfig, DeveloperContent, ReasoningEffort, SystemContent
from .conversation import Conversation, Settings
from .events import (
    Event,
    FinishReason,
    Incident,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    TextDelta,
    TokenLogprob,
    TurnEnded,
    Usage,
)
from .loss import Loss, LossKind
from .message import Channel, End, Intent, Message, OpaquePart, Part, Role, TextPart
from .tools import FUNCTIONS, JsonSchema, ResponseFormat, ToolChoice, ToolNamespace, ToolSpec, is_named, recipients_of
from .visibility import DebugCapability, require_visible, visible_to_user

__all__ = [
    "BROWSER",
    "Channel",
    "ChannelConfig",
    "Conversation",
    "DebugCapability",
    "DeveloperContent",
    "End",
    "Event",
    "FUNCTIONS",
    "FinishReason",
    "Incident",
    "Intent",
    "JsonSchema",
    "Loss",
    "LossKind",
    "Message",
    "MessageEnded",
    "MessageStarted",
    "OpaquePart",
    "PYTHON",
    "ParserEvent",
    "Part",
    "ReasoningEffort",
    "ResponseFormat",
    "Role",
    "Settings",
    "SystemContent",
    "TRAINED",
    "TextDelta",
    "TextPart",
    "TokenLogprob",
    "ToolChoice",
    "ToolNamespace",
    "ToolSpec",
    "TurnEnded",
    "Usage",
    "described",
    "is_named",
    "recipients_of",
    "require_visible",
    "visible_to_user",
]
