"""The grammar of a Harmony reply: of what follows ``<|start|>assistant``."""

from __future__ import annotations

from typing import assert_never

from antiphon.conversation import Channel, Message, ToolSpec
from antiphon.errors import Position, UnsupportedError
from antiphon.grammar import AnyText, EndOfTurn, Grammar, Repeat, ReplyShape, chain, choice, optional
from antiphon.tokens import Control

from .controls import CALL, CHANNEL, CONSTRAIN, CONTROLS, END, MESSAGE, RETURN, START
from .header_writer import Dialect


class HarmonyGrammar:
    """Builds the grammar of replies of one shape. ``literal``: controls are spelled out as text (`literal`)."""

    def __init__(self, shape: ReplyShape, *, dialect: Dialect, literal: bool) -> None:
        self._shape = shape
        self._dialect = dialect
        self._literal = literal
        self._avoid = tuple(map(self._mark, CONTROLS))

    def reply(self, opened: Message | None = None) -> Grammar:
        """The whole reply; or the rest of it, when the prompt left the message ``opened`` for the model to continue."""
        if opened is None:
            return chain(self._thoughts(), self._outcome())
        if opened.channel == "final":
            return self._continued_answer()
        return chain(self._text(END), self._next(), self._thoughts(least=0), self._outcome())

    def _thoughts(self, least: int | None = None) -> Grammar:
        """Analysis and preambles in any order and number; spelled out, one analysis at most."""
        reasoning = self._shape.reasoning
        least_analysis = (1 if reasoning == "required" else 0) if least is None else least
        thought = [self._message("analysis")] if reasoning != "off" else []
        if self._literal:
            return chain(*(Repeat(analysis, least_analysis, 1) for analysis in thought))
        announced = [self._message("commentary")] if self._may_announce else []
        kinds = [*thought, *announced]
        return chain(*thought * least_analysis, Repeat(choice(*kinds))) if kinds else chain()

    @property
    def _may_announce(self) -> bool:
        return self._shape.preambles and bool(self._shape.callable or self._shape.builtin_calls())

    def _message(self, channel: str) -> Grammar:
        return chain(self._mark(CHANNEL), channel, self._mark(MESSAGE), self._text(END), self._next())

    def _next(self) -> Grammar:
        return chain(self._mark(START), "assistant")

    def _outcome(self) -> Grammar:
        """The answer, or a call: HAR-42, inference stops at the first."""
        calls = [self._call(tool) for tool in self._shape.callable]
        calls += [self._builtin(to, body) for to, body in self._shape.builtin_calls(self._avoid)]
        announced = [optional(self._message("commentary"))] if self._may_announce and self._literal else []
        called = [chain(*announced, choice(*calls))] if calls else []
        if self._shape.must_call:
            return chain(*called)
        return choice(chain(self._mark(CHANNEL), "final", self._answer()), *called)

    def _call(self, tool: ToolSpec) -> Grammar:
        body = self._shape.arguments(tool, self._avoid)
        head = chain(self._to(tool.recipient, "commentary"), " ", self._mark(CONSTRAIN), "json")
        return chain(head, self._mark(MESSAGE), body, EndOfTurn(self._mark(CALL)))

    def _to(self, recipient: str, channel: str) -> Grammar:
        """The recipient before or after the channel, the dialect's own place first; spelled out, there alone."""
        before = chain(f" to={recipient}", self._mark(CHANNEL), channel)
        after = chain(self._mark(CHANNEL), f"{channel} to={recipient}")
        match self._dialect:
            case "a":
                return before if self._literal else choice(before, after)
            case "b" if channel == Channel.COMMENTARY:
                return after if self._literal else choice(after, before)
            case "b":
                return before if self._literal else choice(before, after)
            case dialect:
                assert_never(dialect)

    def _builtin(self, recipient: str, body: Grammar | None) -> Grammar:
        """A call of ``browser`` or ``python``, on the analysis channel (HAR-99 … HAR-107); code is free text."""
        head = chain(self._to(recipient, "analysis"), optional(chain(" code")), self._mark(MESSAGE))
        if body is not None:
            return chain(head, body, EndOfTurn(self._mark(CALL)))
        if not self._literal:
            return chain(head, self._text(None), EndOfTurn(CALL))
        return chain(head, self._text(CALL), optional(EndOfTurn()))

    def _answer(self) -> Grammar:
        answer = self._shape.answer(self._avoid)
        if answer is None:
            return chain(self._mark(MESSAGE), self._free_answer())
        return chain(self._mark(MESSAGE), answer, self._end())

    def _continued_answer(self) -> Grammar:
        if self._shape.response_format.kind != "text" or self._shape.must_call:
            raise UnsupportedError(
                "a response format cannot constrain an answer that the prompt began",
                position=Position(path="response_format"),
                hint="Leave out the last assistant message.",
            )
        return self._free_answer()

    def _free_answer(self) -> Grammar:
        """Spelled out, an answer may also end as a history's messages do, or with the model's own end token."""
        if not self._literal:
            return chain(self._text(None), self._end())
        spelled = choice(self._text(RETURN), self._text(END))
        return choice(chain(spelled, optional(EndOfTurn())), chain(self._text(None), EndOfTurn()))

    def _end(self) -> Grammar:
        return choice(EndOfTurn(self._mark(RETURN)), EndOfTurn()) if self._literal else EndOfTurn(RETURN)

    def _text(self, until: Control | None) -> AnyText:
        limit = self._shape.max_reasoning if until is END else self._shape.max_text
        return AnyText(None if until is None else self._mark(until), self._avoid, limit, escaped=self._literal)

    def _mark(self, control: Control) -> Control | str:
        return control.spelling if self._literal else control
