"""State of a transcript: what its header and frames so far require of the next frame (§2, §8; A-O12 … A-O15)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count

from antiphon.conversation import Channel, Message, Role, ToolSpec
from antiphon.conversation.calls import OpenCalls

from .body import has_tool_calls, is_function
from .declarations import AUTHORS, TITLE, DeclaredTools, ToolDeclaration, read_declaration
from .document import Capabilities, DocumentHeader, HarmonyProfile
from .frame import Frame, Trivia
from .head import ToolNames

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class RuleState:
    """The demands of the header and the frames so far on the next one; `follow` takes each frame, once it is judged.

    ``taken`` are ids that `free_id` leaves alone. Memory: the call ids of the transcript, which are unique in all of it
    (A-O14).
    """

    def __init__(
        self, header: DocumentHeader | None, *, harmony: bool = False, tools: Mapping[str, ToolSpec] | None = None,
        warnings: bool = True, taken: Collection[str] = (),
    ) -> None:  # fmt: skip
        profile = header.harmony if header else HarmonyProfile()
        builtins = header.builtin_tools if header else ()
        self.harmony = harmony or profile.enabled
        self.whole_turns = harmony
        self.warnings = warnings
        self.require_channels = harmony or (profile.enabled and bool(profile.require_channels))
        self._tool_calls_in = profile.tool_calls_in if profile.enabled else (Channel.COMMENTARY,)
        self._builtins_in = profile.builtins_in
        self.legacy = header is not None and header.version.startswith("1.")
        self.capabilities = header.capabilities if header else Capabilities()
        self.limited = self.capabilities != Capabilities()
        self.names = ToolNames().declare(builtins)
        self.tools = DeclaredTools(builtins, tools or {})
        self.calls = OpenCalls()
        self._taken, self._number = taken, 0
        self.forms: set[bool] = set()
        """How the turn calls so far: with ``<|call|>`` (True), with JSON's ``tool_calls`` (False)."""
        self.last: Frame | None = None
        self._numbers: dict[str, Iterator[int]] = {}
        self._declared = ("", ToolDeclaration())

    def follow(self, frame: Frame) -> None:
        """Takes a judged frame; ``frame.message`` gets the ids and names that its text leaves out."""
        message = frame.message
        match message.role:
            case Role.ASSISTANT:
                self._follow_form(frame, form_of(message))
            case Role.TOOL:
                if not frame.head.is_unknown:
                    self._answer(frame)
            case role:
                self.forms.clear()
                if role in AUTHORS and TITLE in message.text:
                    self.tools.add(self.declaration(message.text).namespaces)
        self.last = frame

    def _follow_form(self, frame: Frame, form: bool | None) -> None:
        if form is None:
            return
        if form:
            if frame.message.call_id is None:
                _set_synthetic_id(frame, self.free_id())
            self.calls.follow(frame.message)
        if (not form) in self.forms:
            self.forms.clear()
        else:
            self.forms.add(form)

    def _answer(self, frame: Frame) -> None:
        message = frame.message
        if message.call_id is None:
            if (call_id := self.implied_id(message)) is None:
                return
            _set_synthetic_id(frame, call_id)
        called = self.calls.answer(frame.message.call_id or "")
        if called is not None and message.name is None:
            frame.message = replace(frame.message, name=called)

    def free_id(self) -> str:
        """An id by position for a call that has none (A-O12)."""
        while self.calls.used(id := f"call_{self._number}") or id in self._taken:
            self._number += 1
        return id

    def implied_id(self, message: Message) -> str | None:
        """The id with which a call or a reply is read that has none (A-O12, A-O15); None: it is a reply to nothing."""
        if message.role is Role.TOOL:
            return self.calls.oldest(message.name)
        return self.free_id()

    def call_channels(self, call: Message) -> tuple[str, ...]:
        """The channels on which such a tool is called, the usual one first."""
        return self._tool_calls_in if is_function(call) else self._builtins_in

    def author(self, message: Message) -> str | None:
        """The role to write for a tool's reply where it is no ``tool``: its name; else None.

        Where the header's capabilities exclude that role, and of a bare name that is in no namespace (A-O06).
        """
        name = message.name
        if message.role is not Role.TOOL or name is None:
            return None
        if self.capabilities.allows_role(Role.TOOL):
            return name if self.is_bare_author(message) else None
        return name if self.capabilities.allows_role(name) else None

    def is_bare_author(self, reply: Message) -> bool:
        """Whether the reply of a tool is under a bare name: one that says whom it answers may be (A-O06)."""
        name = reply.name or ""
        if name in set(Role):
            return False
        return reply.recipient is not None and _BARE.fullmatch(name) is not None and self.names.qualify(name) != name

    def numbers(self, call_id: str) -> Iterator[int]:
        """Numbers, from 2, for those that have an id of another call; each is given once."""
        return self._numbers.setdefault(call_id, count(2))

    def declaration(self, text: str) -> ToolDeclaration:
        """The tools under the ``# Tools`` of a text, which is read once."""
        if self._declared[0] != text:
            self._declared = (text, read_declaration(text))
        return self._declared[1]

    @property
    def needs_channel(self) -> bool:
        return self.require_channels and not self.legacy


def form_of(message: Message) -> bool | None:
    """How the message calls: True with ``<|call|>``, False with JSON's ``tool_calls``; None: it does not."""
    if message.role is not Role.ASSISTANT:
        return None
    if message.is_call:
        return True
    return False if has_tool_calls(message.text) else None


def _set_synthetic_id(frame: Frame, call_id: str) -> None:
    """Gives the message a call id that its text does not carry; written again, it is left out."""
    trivia = replace(frame.trivia or Trivia(), synthetic=call_id)
    frame.trivia = trivia
    frame.message = replace(frame.message, call_id=call_id, extra={**frame.message.extra, "openchatml": trivia})
