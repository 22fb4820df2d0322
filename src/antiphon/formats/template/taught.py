"""Tool calls for a model whose template has no way to say them: the prompt teaches one form, in plain text.

The form is the commonest: one JSON object between tags. Its reader and its grammar are those of the description.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from antiphon.formats.replies import CallForm, Members
from antiphon.formats.replies.describe import Found

from .chat import ChatCall, ChatMessage

TAUGHT_CALL = CallForm(open="<tool_call>\n", close="\n</tool_call>", separator="\n", members=Members())
WARNING = (
    "tool calls are taught, not trained: the template has no way to say them, so prompts that offer tools explain one"
)
_TEACHING = """# Tools

These functions may be called. Each line describes one:

{tools}

To call one, write its name and its arguments as one JSON object between these tags, and nothing behind it:

<tool_call>
{{"name": "the function's name", "arguments": {{"an argument's name": "its value"}}}}
</tool_call>

Several calls stand one after the other, each between tags of its own. Results come back between <tool_response> tags.
Where no function is needed, answer in plain words."""


def teach_tool_calls(found: Found) -> Found:
    """The description with the form of calls that the prompt teaches."""
    description = replace(found.description, calls=(TAUGHT_CALL,))
    return replace(found, description=description, warnings=(*found.warnings, WARNING), taught=True)


def taught_chat(chat: Sequence[ChatMessage], offered: Sequence[Mapping[str, Any]]) -> list[ChatMessage]:
    """The conversation with its calls and their results as text, and the tools that are offered in the system text.

    Results that follow each other, and a user's text behind them, are one text of the user's.
    """
    written: list[ChatMessage] = []
    if offered:
        teaching = _TEACHING.format(
            tools="\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in offered)
        )
        given = chat[0].content if chat and chat[0].role == "system" else ""
        written = [ChatMessage(role="system", content=f"{given}\n\n{teaching}" if given else teaching)]
        chat = chat[1:] if chat and chat[0].role == "system" else chat
    after_result = False
    for message in chat:
        is_result = message.role == "tool"
        text = f"<tool_response>\n{message.content}\n</tool_response>" if is_result else message.content
        if after_result and message.role in ("tool", "user") and not message.parts:
            written[-1] = replace(written[-1], content=f"{written[-1].content}\n{text}")
        elif is_result:
            written.append(ChatMessage(role="user", content=text))
        elif message.calls:
            parts = [message.content] if message.content else []
            written.append(replace(message, content="\n".join([*parts, *map(_call, message.calls)]), calls=()))
        else:
            written.append(message)
        after_result = is_result
    return written


def _call(call: ChatCall) -> str:
    name = json.dumps(call.name, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {name}, "arguments": {call.arguments or "{}"}}}\n</tool_call>'
