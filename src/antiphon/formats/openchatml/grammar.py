"""Replies in OpenChatML: the grammar of what follows ``<|start|>assistant`` (§6, §15)."""

from __future__ import annotations

from antiphon.conversation import Channel, Intent, Message, Role, ToolSpec
from antiphon.conversation.calls import make_call
from antiphon.errors import Position, UnsupportedError
from antiphon.grammar import AnyText, EndOfTurn, Grammar, Repeat, ReplyShape, chain, choice, optional
from antiphon.tokens import Control

from .head import head_pieces
from .spelling import CALL, CONTROLS, END, MESSAGE, RETURN, START


class OpenChatMLGrammar:
    """Writes the grammar of one shape. ``spelled``: the controls are text, and each frame ends its line."""

    def __init__(self, shape: ReplyShape, *, spelled: bool) -> None:
        self._shape = shape
        self._spelled = spelled
        self._avoid = tuple(map(self._mark, CONTROLS))

    def reply(self) -> Grammar:
        """Reasoning, a preamble, and the answer or a call; inference stops at the first call (§9)."""
        thought = self._frame(Channel.ANALYSIS)
        reasoning = self._shape.reasoning
        parts: list[Grammar] = []
        if reasoning != "off":
            parts.append(Repeat(thought, 1 if reasoning == "required" else 0, 1))
        calls = [self._call(tool, id) for tool in self._shape.callable for id in self._shape.ids[:1]]
        builtins = self._shape.builtin_calls(self._avoid)
        calls += [self._builtin(to, body, id) for to, body in builtins for id in self._shape.ids[:1]]
        if calls:
            preamble = [optional(self._frame(Channel.COMMENTARY, Intent.PREAMBLE))] if self._shape.preambles else []
            called = chain(*preamble, choice(*calls))
            return chain(*parts, called if self._shape.must_call else choice(self._final(), called))
        return chain(*parts, self._final())

    def continued(self) -> Grammar:
        """The rest of an answer whose head the prompt wrote. Error: the shape has calls, which have heads."""
        if self._shape.must_call:
            raise UnsupportedError(
                "this model's replies begin as answers, and cannot call tools", position=Position(path="tool_choice")
            )
        return self._answer()

    def _frame(self, channel: str, intent: str | None = None) -> Grammar:
        head = self._head(Message(role=Role.ASSISTANT, channel=channel, intent=intent))
        between = ["\n"] if self._spelled else []
        limit = self._shape.max_text if intent else self._shape.max_reasoning
        return chain(head, self._text(END, limit), *between, self._mark(START), Role.ASSISTANT.value)

    def _call(self, tool: ToolSpec, call_id: str) -> Grammar:
        return chain(
            self._head(make_call(tool.recipient, "", call_id)),
            self._shape.arguments(tool, self._avoid),
            EndOfTurn(self._mark(CALL)),
        )

    def _builtin(self, recipient: str, body: Grammar | None, call_id: str) -> Grammar:
        """A call of one of the server's own tools, on the analysis channel (HIP-1); code is free text."""
        kind = None if body is None else "json"
        call = make_call(recipient, "", call_id, kind=kind, channel=Channel.ANALYSIS)
        if body is not None:
            return chain(self._head(call), body, EndOfTurn(self._mark(CALL)))
        limit = self._shape.max_text
        if not self._spelled:
            return chain(self._head(call), self._text(None, limit), EndOfTurn(CALL))
        return chain(self._head(call), self._text(CALL, limit), optional(EndOfTurn()))

    def _final(self) -> Grammar:
        return chain(self._head(Message(role=Role.ASSISTANT, channel=Channel.FINAL)), self._answer())

    def _answer(self) -> Grammar:
        """Spelled out, an answer may also end as the transcript's messages do, or with the model's own end token."""
        ends = choice(EndOfTurn(self._mark(RETURN)), EndOfTurn()) if self._spelled else EndOfTurn(RETURN)
        constrained = self._shape.answer(self._avoid)
        if constrained is not None:
            return chain(constrained, ends)
        limit = self._shape.max_text
        if not self._spelled:
            return chain(self._text(None, limit), ends)
        spelled = choice(self._text(RETURN, limit), self._text(END, limit))
        return choice(chain(spelled, optional(EndOfTurn())), chain(self._text(None, limit), EndOfTurn()))

    def _head(self, message: Message) -> Grammar:
        """A head as the writer writes it, after the role, which the prompt has."""
        first, *rest = head_pieces(message)
        attributes = str(first).removeprefix(Role.ASSISTANT.value)
        marks = [self._mark(piece) if isinstance(piece, Control) else piece for piece in rest]
        return chain(attributes, *marks, self._mark(MESSAGE))

    def _text(self, until: Control | None, limit: int | None) -> AnyText:
        closer = None if until is None else self._mark(until)
        return AnyText(closer, self._avoid, limit, escaped=self._spelled)

    def _mark(self, control: Control) -> Control | str:
        return control.spelling if self._spelled else control
