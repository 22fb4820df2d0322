"""Tools that a message of a transcript declares (§16.2), for forms that list tools beside their messages; and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from antiphon.conversation import FUNCTIONS, Conversation, Loss, Message, Role, ToolSpec
from antiphon.formats.openchatml import read_arguments, read_declaration
from antiphon.formats.openchatml.body import CallArguments
from antiphon.formats.openchatml.declaration_writer import spell_tools
from antiphon.formats.openchatml.declarations import AUTHORS, TITLE

from .form import Written


@dataclass(frozen=True, slots=True)
class Lift:
    """A message whose functions are listed elsewhere; ``rest`` is what else it says, None for nothing."""

    message: Message
    rest: Message | None
    losses: tuple[Loss, ...]

    def parts(self, parts: Sequence[Written]) -> list[Written]:
        """The output's parts for ``rest``, as those of the message."""
        if self.rest is None:
            return [*parts, Written("", (self.message,), (), self.losses, expected=())]
        *before, last = parts
        return [*before, replace(last, messages=(self.message,), ambiguous=self.losses, expected=(self.rest,))]


class Lifted:
    """The functions that the messages so far declare, each as it was declared last."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolSpec] = {}
        self._number = -1

    def with_tools(self, about: Conversation) -> Conversation:
        """The conversation with these functions among its tools."""
        return replace(about, tools=tuple(({tool.recipient: tool for tool in about.tools} | self._tools).values()))

    def lift(self, message: Message) -> Lift | None:
        """The message without its functions; None where it has none, or declares what a list of them cannot say."""
        self._number += 1
        if message.role not in AUTHORS or TITLE not in message.text or message.parts:
            return None
        declared = read_declaration(message.text)
        if declared.unread or [namespace.name for namespace in declared.namespaces] != [FUNCTIONS]:
            return None
        [functions] = declared.namespaces
        if functions.description or not functions.tools:
            return None
        self._tools |= {tool.recipient: tool for tool in functions.tools}
        rest = replace(message, text=declared.rest) if declared.rest else None
        same = message.role is Role.DEVELOPER and rest is None and spell_tools(functions.tools) == message.text
        spelled = Loss(f"messages[{self._number}].text", TITLE, "tools", "spelling")
        return Lift(message, rest, () if same else (spelled,))


def as_declared(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools as a reader gets them from a message that declares them."""
    namespaces = read_declaration(spell_tools(tools)).namespaces if tools else ()
    return tuple(tool for namespace in namespaces for tool in namespace.tools)


class CheckedCalls:
    """Whether all calls are what declared functions take: a strict reader refuses a transcript in which one is not."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.recipient: tool for tool in as_declared(tools)}
        self.fit = True

    def note(self, message: Message) -> None:
        recipient = message.recipient or ""
        if not message.is_call or not recipient.startswith(f"{FUNCTIONS}."):
            return
        tool = self._tools.get(recipient)
        self.fit = self.fit and tool is not None and isinstance(read_arguments(message, tool), CallArguments)
