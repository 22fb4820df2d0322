"""Which form an input is in, by its first characters; a JSON value by its keys."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from antiphon.conversation import FUNCTIONS, Channel, Conversation, Loss, Message, Role, TextPart, ToolSpec
from antiphon.conversation.calls import NAMELESS, make_answer, make_call
from antiphon.errors import ParseError, Position, utf8_words
from antiphon.formats.harmony import read_message, write_message
from antiphon.structs import ready
from antiphon.tokens import well_formed

from .form import Written, taken_function, unread, without_media
from .harmony import as_harmony
from .json_text import Entry, Repeated, entries, temporary

ENOUGH = 65_536
"""So many bytes always suffice to detect the form."""
HINT = "Name its form (--from): openchatml, harmony, harmony-ids, harmony-json, chat, responses or sharegpt."
_OPENCHATML = re.compile(r"---\s*\n|version\s*:|(?s:.*?)(?:<\|literal\|>|<<\||\b(?:call_id|intent)=)")


def detect(head: bytes) -> str:
    """``openchatml``, ``harmony``, ``harmony-ids``, or ``json``. Raises `ParseError`."""
    text = head[:ENOUGH].decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if re.match(r"\[?\s*\d[\d\s,]*", text) and "<|" not in text:
        return "harmony-ids"
    if text[:1] in ("{", "["):
        return "json"
    if text.startswith("<|start|>"):
        return "openchatml" if _OPENCHATML.match(text) else "harmony"
    if _OPENCHATML.match(text) or "<|start|>" in text:
        return "openchatml"
    if not text:
        raise ParseError("this is empty", code="unknown_form")
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            raise ParseError(f"this is no text: {utf8_words(error)}", code="unknown_form") from None
    raise ParseError("this looks like no form of a conversation that is known here", code="unknown_form", hint=HINT)


def form_of(data: bytes) -> str:
    """The form that a whole input is in, by the name that reads it. Raises `ParseError`, also where JSON is none."""
    form = detect(data)
    return survey(entries(io.BytesIO(data))).form if form == "json" else form


@dataclass(slots=True)
class Survey:
    """Survey of a JSON text: its members, of which a long list is (), and the shapes of the lists' elements."""

    members: Repeated = field(default_factory=Repeated)
    is_list: bool = False
    any_item: bool = False
    any_harmony: bool = False
    all_roles: bool = True

    def note(self, element: Any) -> None:
        self.any_item = self.any_item or (isinstance(element, dict) and isinstance(element.get("type"), str))
        self.any_harmony = self.any_harmony or _is_harmony(element)
        self.all_roles = self.all_roles and isinstance(element, dict) and "role" in element

    @property
    def form(self) -> str:
        """``harmony-json``, ``chat``, ``responses`` or ``sharegpt``. Raises `ParseError`."""
        if "input" in self.members or "output" in self.members or (self.is_list and self.any_item):
            return "responses"
        if self.is_list or self._is_list("messages"):
            if self.any_harmony:
                return "harmony-json"
            if self.all_roles:
                return "chat"
        if self._is_list("conversations"):
            return "sharegpt"
        raise ParseError("this JSON is no conversation that is known here", code="unknown_form", hint=HINT)

    def require(self, path: str) -> None:
        """Raises `ParseError` when there is no such list."""
        if not (self.is_list or self._is_list(path)):
            raise _wrong(path, "is not a list")

    @property
    def tools(self) -> list[Any]:
        """Raises `ParseError` where they are no list."""
        tools = self.members.get("tools") or []
        if not isinstance(tools, list):
            raise _wrong("tools", "is not a list")
        return tools

    def _is_list(self, path: str) -> bool:
        return path in self.members and isinstance(self.members[path], list | tuple)


def _wrong(path: str, problem: str) -> ParseError:
    return ParseError(f"{path} {problem}", code="wrong_value", position=Position(path=path))


def survey(entries: Iterable[Entry]) -> Survey:
    """Reads all of a JSON text, and stores the members that are not long."""
    found = Survey()
    for key, index, value in entries:
        if key is None:
            found.is_list = index is not None or isinstance(value, list)
        elif index is None:
            if key in found.members:
                found.members.before += ((key, found.members[key]),)
            found.members[key] = value
        else:
            found.members[key] = ()
        if index is not None and key in (None, "messages"):
            found.note(value)
    return found


def _is_harmony(element: Any) -> bool:
    if not isinstance(element, dict):
        return False
    content = element.get("content")
    typed = isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in ("system_content", "developer_content") for part in content
    )
    return typed or any(key in element for key in ("channel", "recipient", "content_type"))


# Forms that are one JSON value: read and written message by message.

Json = dict[str, Any]


class JsonReader(Protocol):
    """Makes messages of the elements of one list of a JSON text."""

    path: str
    """The name of the list."""
    about: Conversation
    unread: list[Loss]
    """Parts of the text that no conversation has a place for, since the list was last cleared."""

    def begin(self) -> Sequence[Message]:
        return ()

    def read(self, element: Any, index: int) -> Sequence[Message]:
        """Raises `ParseError` with the path of what is wrong."""
        ...

    def end(self) -> Sequence[Message]:
        return ()


class JsonSource:
    """Reads one JSON value, twice, from a temporary file: what a writer needs first may come last in it.

    ``reader`` makes the reader for what `survey` found in the text.
    """

    def __init__(self, reader: Callable[[Survey], JsonReader]) -> None:
        self._reader = reader
        self._file = temporary(self)
        self.about = Conversation()
        self.ready = False
        self.repairs: list[str] = []
        self.unread: list[Loss] = []

    def feed(self, chunk: bytes) -> list[Message]:
        self._file.write(chunk)
        return []

    def close(self) -> Iterator[Message]:
        self._file.seek(0)
        reader = self._reader(survey(entries(self._file)))
        self.about = reader.about
        return self._messages(reader)

    def _messages(self, reader: JsonReader) -> Iterator[Message]:
        self._file.seek(0)
        with self._file as file:
            yield from self._with_unread(reader, reader.begin())
            for key, index, element in entries(file):
                if index is not None and key in (None, reader.path):
                    yield from self._with_unread(reader, reader.read(element, index))
            yield from self._with_unread(reader, reader.end())

    def _with_unread(self, reader: JsonReader, messages: Sequence[Message]) -> Sequence[Message]:
        self.unread += reader.unread
        reader.unread = []
        return messages


def well_formed_json(value: Json) -> Json:
    """The value with U+FFFD for what is no UTF-8, which JSON cannot carry."""
    text = json.dumps(value, ensure_ascii=False)
    whole = well_formed(text)
    return value if whole == text else json.loads(whole)


class JsonList:
    """The text of a JSON object with one long list, element by element."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._any = False

    def opening(self) -> str:
        return "{" + f'"{self._key}": ['

    def element(self, value: object) -> str:
        separator, self._any = ("," if self._any else ""), True
        return f"{separator}\n{json.dumps(value, ensure_ascii=False)}"

    def closing(self, more: Mapping[str, object]) -> str:
        rest = "".join(f",\n{json.dumps(key)}: {json.dumps(value)}" for key, value in more.items())
        return ("\n" if self._any else "") + f"]{rest}}}\n"


class HarmonyJsonReader(JsonReader):
    """Reads the reference's JSON."""

    path = "messages"

    def __init__(self, survey: Survey) -> None:
        survey.require(self.path)
        self.about = Conversation(verbatim=True)
        self.unread = list(unread("", survey.members, {self.path: survey.members.get(self.path)}))

    def read(self, element: Any, index: int) -> Sequence[Message]:
        message = read_message(msgspec.to_builtins(element), f"$.messages[{index}]")
        self.unread += unread(f"{self.path}[{index}]", element, write_message(message))
        return (as_harmony(message),)


class HarmonyJsonTarget:
    """Writes the reference's JSON, one message a line."""

    def __init__(self) -> None:
        self._list = JsonList("messages")

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        return Written(self._list.opening()), Conversation(verbatim=True)

    def write(self, message: Message) -> list[Written]:
        value = well_formed_json(write_message(without_media(message)))
        return [Written(self._list.element(value), (message,), (as_harmony(read_message(value)),))]

    def close(self, about: Conversation) -> list[Written]:
        return [Written(self._list.closing({}))]


# ShareGPT's JSON, of data sets: ``from`` is the author, ``value`` the text.

SPEAKERS = {
    "system": Role.SYSTEM, "human": Role.USER, "user": Role.USER, "gpt": Role.ASSISTANT, "chatgpt": Role.ASSISTANT,
    "assistant": Role.ASSISTANT, "observation": Role.TOOL, "tool": Role.TOOL,
}  # fmt: skip


class ShareGptReader(JsonReader):
    """Reads ``conversations``, with ``system`` and ``tools`` beside them; a ``function_call`` is JSON in a text."""

    path = "conversations"

    def __init__(self, survey: Survey) -> None:
        survey.require(self.path)
        members = survey.members
        self._system = members.get("system") if isinstance(members.get("system"), str) else None
        tools = _json_of(members.get("tools"), "tools") or []
        if not isinstance(tools, list):
            raise _wrong("tools", "is not a list")
        self.about = Conversation(
            tools=tuple(read_function(tool, f"tools[{i}]") for i, tool in enumerate(msgspec.to_builtins(tools)))
        )
        taken = {self.path: members.get(self.path), "system": self._system, "tools": members.get("tools")}
        self.unread = list(unread("", members, taken))
        for i, (tool, spec) in enumerate(zip(tools, self.about.tools, strict=True)):
            self.unread += unread(
                f"tools[{i}]", tool, {"type": "function", "function": taken_function(spec)} | taken_function(spec)
            )
        self._calls: list[str] = []

    def begin(self) -> Sequence[Message]:
        return (Message(role=Role.SYSTEM, text=self._system),) if self._system else ()

    def read(self, element: Any, index: int) -> Sequence[Message]:
        path = f"{self.path}[{index}]"
        speaker, value = (element.get(key) if isinstance(element, dict) else None for key in ("from", "value"))
        if not isinstance(value, str):
            raise _wrong(f"{path}.value", "is no text")
        self.unread += unread(path, element, {"from": speaker, "value": value})
        if speaker == "function_call":
            return self._called(_json_of(value, f"{path}.value"), f"{path}.value")
        role = SPEAKERS.get(str(speaker))
        if role is None:
            raise _wrong(f"{path}.from", f"is {speaker!r:.60}, not one of function_call, {', '.join(SPEAKERS)}")
        if role is Role.TOOL:
            return (make_answer(self._calls.pop(0) if self._calls else NAMELESS, None, (TextPart(value),)),)
        return (Message(role=role, text=value, channel=Channel.FINAL if role is Role.ASSISTANT else None),)

    def _called(self, value: Any, path: str) -> Sequence[Message]:
        """A call, or a list of them, which are answered in their order."""
        calls = value if isinstance(value, list) else [value]
        messages = []
        for call in calls:
            if not isinstance(call, dict) or not isinstance(call.get("name"), str):
                raise _wrong(path, "is no call with a name")
            arguments = call.get("arguments", {})
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            messages.append(make_call(f"{FUNCTIONS}.{call['name']}", text, None))
            self.unread += unread(path, call, {"name": call["name"], "arguments": arguments})
        self._calls += [message.recipient or "" for message in messages]
        return messages


def _json_of(value: Any, path: str) -> Any:
    """The value of a JSON text; another value is itself."""
    try:
        return json.loads(value) if isinstance(value, str) and value else value
    except (ValueError, RecursionError):
        raise _wrong(path, "is no JSON") from None


def read_function(value: Any, path: str) -> ToolSpec:
    """Reads a function tool, with or without ``type`` around it. Raises `ParseError`."""
    function = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(function, dict):
        raise _wrong(path, "is no function")
    try:
        given = {name: function.get(name) for name in ("name", "description", "parameters", "strict")}
        return msgspec.convert({name: value for name, value in given.items() if value is not None}, ready(ToolSpec))
    except msgspec.ValidationError as error:
        raise _wrong(path, f"is no function: {error}") from None
