"""What replies and prompts of a format can have."""

from __future__ import annotations

from dataclasses import replace

from antiphon.conversation import Conversation, Message, Role, ToolSpec
from antiphon.errors import AntiphonError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony

_TOOL = ToolSpec(name="f", description="", parameters={"type": "object", "properties": {}})


def reasons(format: Format) -> bool:
    """Whether replies in the format have reasoning that is told from the answer."""
    replies = getattr(format, "replies", None)
    return isinstance(format, Harmony) or getattr(replies, "reasoning", None) is not None


def offers_tools(format: Format) -> bool:
    """Whether tools can be offered in the format: a prompt with one says so."""
    question = Conversation((Message(role=Role.USER, text="?"),))
    try:
        return list(format.render(replace(question, tools=(_TOOL,)))) != list(format.render(question))
    except AntiphonError:
        return False
