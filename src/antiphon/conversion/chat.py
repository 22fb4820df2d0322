"""OpenAI's chat JSON, written: turns bundled as chat messages are."""

from __future__ import annotations

import msgspec

from antiphon.api.chat.bundle import ChatElement, ChatMessageWriter, has_format, own_functions, settings_json
from antiphon.conversation import Conversation, Message, Settings
from antiphon.conversation.calls import OpenCalls
from antiphon.errors import ParseError, RenderError

from .chat_reader import read_message
from .declared import Lifted
from .form import Written
from .json_forms import JsonList, well_formed_json
from .request import CHAT, carried_request, written_request


class ChatTarget:
    """Writes the body of a chat request. The frames of a turn wait until their chat message is whole."""

    def __init__(self) -> None:
        self._list = JsonList("messages")
        self._writer = ChatMessageWriter()
        self._lifted = Lifted()

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        carried = Conversation(
            tools=tuple(own_functions(about.tools)),
            settings=Settings(reasoning_effort=about.settings.reasoning_effort),
            response_format=about.response_format if has_format(about.response_format) else None,
            extra=carried_request(about, CHAT),
        )
        return Written(self._list.opening()), carried

    def write(self, message: Message) -> list[Written]:
        lift = self._lifted.lift(message)
        if lift is None:
            return list(map(self._written, self._writer.write(message)))
        elements = self._writer.close() if lift.rest is None else self._writer.write(lift.rest)
        return lift.parts(list(map(self._written, elements)))

    def close(self, about: Conversation) -> list[Written]:
        more = written_request(about, CHAT) | settings_json(self._lifted.with_tools(about))
        return [*map(self._written, self._writer.close()), Written(self._list.closing(more))]

    def _written(self, element: ChatElement) -> Written:
        value = well_formed_json(element.value)
        return Written(
            self._list.element(value), element.messages, read_back(msgspec.structs.replace(element, value=value))
        )


def read_back(element: ChatElement) -> tuple[Message, ...]:
    """The messages that a reader gets from a chat message behind those before it."""
    try:
        return read_message(element.value, 0, OpenCalls(filter(None, [element.answers])))
    except ParseError as error:
        raise RenderError(f"chat JSON cannot say this: {error.message}", code=error.code) from None
