"""The conversation layer for language models: exact prompts, constrained replies, streamed and served.

>>> import antiphon
>>> with antiphon.open_model("smollm2") as model:           # doctest: +SKIP
...     print(model.chat("What is the capital of Japan?").text)

Everything here is imported when it is first used; the packages below (`antiphon.conversation`, `antiphon.formats`, …)
have the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exports import exports

if TYPE_CHECKING:
    from antiphon.conversation import Conversation, Message, Role
    from antiphon.errors import AntiphonError
    from antiphon.library.app import App, open_app
    from antiphon.library.model import AsyncChatModel, Delta, Reply
    from antiphon.library.opening import ChatModel, open_model
    from antiphon.library.options import ChatOptions
    from antiphon.library.text import Prompt, convert, parse, read_chat, render, validate
    from antiphon.version import __version__ as __version__
else:
    __getattr__ = exports(
        __name__,
        {
            "conversation": "Conversation Message Role",
            "errors": "AntiphonError",
            "library.app": "App open_app",
            "library.model": "AsyncChatModel Delta Reply",
            "library.opening": "ChatModel open_model",
            "library.options": "ChatOptions",
            "library.text": "Prompt convert parse read_chat render validate",
            "version": "__version__",
        },
    )

__all__ = [
    "AntiphonError",
    "App",
    "AsyncChatModel",
    "ChatModel",
    "ChatOptions",
    "Conversation",
    "Delta",
    "Message",
    "Prompt",
    "Reply",
    "Role",
    "convert",
    "open_app",
    "open_model",
    "parse",
    "read_chat",
    "render",
    "validate",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
