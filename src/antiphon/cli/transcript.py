"""Conversations as JSON, for files and pipes: the fields are those of `Message`, and absent ones are left out."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from datetime import date
from typing import Any

import msgspec

from antiphon.conversation import Conversation, Incident, OpaquePart, ReasoningEffort, Settings, ToolSpec
from antiphon.conversation.json import FullMessageJson, full_message_json, message_json, message_of
from antiphon.errors import ParseError, Position, json_words, near_field, utf8_words

from .terminal import say


class TranscriptMessage(FullMessageJson, frozen=True, forbid_unknown_fields=True):
    """One message of a transcript that is read: a field that is misspelled is an error."""


class SettingsForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    identity: str | None = None
    reasoning_effort: ReasoningEffort | None = None
    knowledge_cutoff: str | None = None
    current_date: date | None = None


class ToolForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    name: str
    description: str = ""
    parameters: dict[str, Any] | bool | None = None
    strict: bool | None = None
    namespace: str = "functions"


class TranscriptForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    messages: tuple[TranscriptMessage, ...]
    tools: tuple[ToolForm, ...] = ()
    settings: SettingsForm = SettingsForm()


class IncidentForm(msgspec.Struct, frozen=True, omit_defaults=True):
    code: str
    position: int
    text: str = ""


_FIELDS = (*TranscriptForm.__struct_fields__, *TranscriptMessage.__struct_fields__, *SettingsForm.__struct_fields__)


def read_transcript(text: str | bytes, *, chat: bool = False, place: str = "") -> Conversation:
    """The conversation of a transcript or a chat request: an object with ``messages``, or their list alone.

    ``chat``: it is a chat request, whatever it looks like. Fields of one that have no effect are named on stderr, with
    ``place``. Raises `ParseError` with the JSON path of what is wrong, and `RequestError` for a value that is not
    possible in a chat request.
    """
    try:
        text = text if isinstance(text, str) else text.removeprefix(BOM_UTF8)
        source = msgspec.json.decode(text)
        source = {"messages": source} if isinstance(source, list) else source
        if chat or is_chat_request(source):
            # Only here: a program that reads no request need not wait for the wire's readers.
            from antiphon.api.chat.conversation import conversation_of
            from antiphon.api.chat.schema import ChatRequest
            from antiphon.wire.json import decode

            body = msgspec.json.encode(source)  # a text keeps the spelling of a call's arguments
            msgspec.json.decode(body, type=ChatRequest)  # a field of another type is an error of the file, as below
            request, names = decode(body, ChatRequest)
            if names.ignored:
                say(f"warning: {place and f'{place}: '}{', '.join(names.ignored)}: not known, and ignored")
            with names.restored_in_errors():
                return conversation_of(request)
        form = msgspec.convert(source, TranscriptForm)
    except msgspec.ValidationError as error:
        from antiphon.wire.json import invalid

        message, _, path = str(error).partition(" - at `")
        message = message.replace("Invalid enum value", "unknown value")
        position = Position(path=path.rstrip("`") or "$")
        hint = invalid(str(error), TranscriptForm).hint or near_field(message, *_FIELDS)
        raise ParseError(message, code="transcript", position=position, hint=hint) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise not_json(text, error) from None
    return Conversation(
        messages=tuple(message_of(message) for message in form.messages),
        tools=tuple(ToolSpec(**msgspec.structs.asdict(tool)) for tool in form.tools),
        settings=Settings(**msgspec.structs.asdict(form.settings)),
    )


def not_json(text: str | bytes, error: Exception) -> ParseError:
    """The error of a text that is no JSON, at the line and column of what is wrong."""
    if not text.strip():
        return ParseError("not JSON: it is empty", code="transcript", hint='A conversation is {"messages": [...]}.')
    try:
        json.loads(text if isinstance(text, str) else text.decode("utf-8"))
    except json.JSONDecodeError as found:
        position = Position(line=found.lineno, column=found.colno)
        return ParseError(f"not JSON: {json_words(found)}", code="transcript", position=position)
    except RecursionError:
        return ParseError("not readable as JSON: it is nested too deeply", code="transcript")
    except UnicodeDecodeError as found:
        before = found.object[: found.start].decode()
        position = Position(line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))
        return ParseError(f"not JSON: {utf8_words(found)}", code="transcript", position=position)
    return ParseError(f"not readable as JSON: {error}", code="transcript")


def is_chat_request(source: object) -> bool:
    """Whether these are messages as chat APIs have them: with ``content``, not ``text``."""
    messages = source.get("messages") if isinstance(source, dict) else None
    return isinstance(messages, list) and any(
        isinstance(message, dict) and "content" in message for message in messages
    )


def incident_form(incident: Incident) -> IncidentForm:
    return IncidentForm(incident.code, incident.position, incident.text)


def transcript_json(conversation: Conversation) -> str:
    """The conversation's messages, as `read_transcript` reads them."""
    media = [any(isinstance(part, OpaquePart) for part in message.parts) for message in conversation.messages]
    form = {
        "messages": [
            full_message_json(message) if has else message_json(message)
            for message, has in zip(conversation.messages, media, strict=True)
        ]
    }
    return msgspec.json.format(msgspec.json.encode(form)).decode() + "\n"
