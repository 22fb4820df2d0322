"""The grammar of a Harmony reply: of what follows ``<|start|>assistant``."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from antiphon.conversation import Channel, Message
from antiphon.errors import Position, UnsupportedError
from antiphon.grammar import (
    AnyText,
    EndOfTurn,
    Grammar,
    Json,
    Literal,
    Repeat,
    ReplyShape,
    Shared,
    chain,
    choice,
    optional,
)
from antiphon.grammar.grammar import Lexeme
from antiphon.grammar.rules import GAP
from antiphon.tokens import Control

from .controls import CALL, CHANNEL, CONSTRAIN, CONTROLS, END, MESSAGE, RETURN, START

CALL_CHANNELS = (Channel.COMMENTARY.value, Channel.ANALYSIS.value)
"""Functions are called on the former and built-ins on the latter, but models do both the other way round as well."""
JSON_TYPES: tuple[str, ...] = ("json", "code")
"""The types by which models announce arguments in JSON: ``code`` is that of built-ins, which they carry over."""
CODE_TYPES: tuple[str, ...] = ("code",)
"""The types by which models announce free text: code."""
_GAP = optional(Lexeme(GAP, but_empty=True))
"""Blanks and a line break beside the object."""


class HarmonyGrammar:
    """Builds the grammar of replies of one shape. ``literal``: controls are spelled out as text (`literal`).

    A header is admitted in each of the ways in which models that were trained on Harmony write it, whichever of them a
    dialect renders: HAR-84, HAR-85.
    """

    def __init__(self, shape: ReplyShape, *, literal: bool) -> None:
        self._shape = shape
        self._literal = literal
        self._avoid = tuple(map(self._mark, CONTROLS))

    def reply(self, opened: Message | None = None) -> Grammar:
        """The whole reply; or the rest of it, when the prompt left the message ``opened`` for the model to continue."""
        if opened is None:
            return chain(self._thoughts(), self._outcome())
        if opened.channel == "final":
            return self._continued_answer()
        return chain(self._body(opened.channel), self._next(), self._thoughts(least=0), self._outcome())

    def _thoughts(self, least: int | None = None) -> Grammar:
        """Analysis and preambles in any order and number; spelled out or bounded, one analysis at most."""
        reasoning = self._shape.reasoning
        least_analysis = (1 if reasoning == "required" else 0) if least is None else least
        thought = [self._message("analysis")] if reasoning != "off" else []
        announced = [self._message("commentary")] if self._may_announce and not self._literal else []
        if self._literal or self._shape.max_reasoning is not None:
            return chain(*(Repeat(analysis, least_analysis, 1) for analysis in thought), *map(Repeat, announced))
        kinds = [*thought, *announced]
        return chain(*thought * least_analysis, Repeat(choice(*kinds))) if kinds else chain()

    @property
    def _may_announce(self) -> bool:
        return self._shape.preambles and bool(self._shape.callable or self._shape.builtin_calls())

    def _message(self, channel: str) -> Grammar:
        return chain(self._mark(CHANNEL), channel, self._mark(MESSAGE), self._body(channel), self._next())

    def _body(self, channel: str | None) -> Grammar:
        """A message before the outcome. Only thoughts have the bound of thoughts."""
        limit = self._shape.max_text if channel == "commentary" else self._shape.max_reasoning
        return replace(self._text(END), limit=limit)

    def _next(self) -> Grammar:
        return chain(self._mark(START), "assistant")

    def _outcome(self) -> Grammar:
        """The answer, or a call: HAR-42, inference stops at the first."""
        announced = [optional(self._message("commentary"))] if self._may_announce and self._literal else []
        calls = self._calls()
        called = [chain(*announced, choice(*calls))] if calls else []
        if self._shape.must_call:
            return chain(*called)
        return choice(chain(self._mark(CHANNEL), "final", self._answer()), *called)

    def _calls(self) -> list[Grammar]:
        """A call, its recipient before the channel or after it, its type marked or bare or left out.

        What calls have in common is written once, so that a tool adds its name, twice, and its arguments.
        """
        channel = Shared(chain(self._mark(CHANNEL), choice(*CALL_CHANNELS)))
        opened = {types: self._opened(types) for types in (JSON_TYPES, CODE_TYPES)}
        calls = [(f" to={recipient}", opened[types], Shared(body)) for recipient, types, body in self._bodies()]
        if not calls:
            return []
        before = [chain(to, channel, opening, body) for to, opening, body in calls]
        return [*before, chain(channel, choice(*(chain(to, opening, body) for to, opening, body in calls)))]

    def _opened(self, types: tuple[str, ...]) -> Shared:
        """The rest behind channel and recipient: a type or none, and the beginning of the content."""
        return Shared(chain(self._type(*types), self._mark(MESSAGE)))

    def _type(self, *types: str) -> Grammar:
        """One of the types, bare or marked, or none."""
        blank = optional(Literal(" "))
        return optional(chain(choice(" ", chain(blank, self._mark(CONSTRAIN), blank)), choice(*types)))

    def _bodies(self) -> Iterator[tuple[str, tuple[str, ...], Grammar]]:
        """Yields recipients, the types of the content, and the content with its end; code is free text."""
        for tool in self._shape.callable:
            yield tool.recipient, JSON_TYPES, self._arguments(self._shape.arguments(tool, self._avoid))
        for recipient, arguments in self._shape.builtin_calls(self._avoid):  # HAR-99 … HAR-107
            if arguments is not None:
                yield recipient, JSON_TYPES, self._arguments(arguments)
            elif self._literal:
                yield recipient, CODE_TYPES, chain(self._text(CALL), optional(EndOfTurn()))
            else:
                yield recipient, CODE_TYPES, chain(self._text(None), EndOfTurn(CALL))

    def _arguments(self, json: Json) -> Grammar:
        return chain(_GAP, replace(json, any_whitespace=True), _GAP, EndOfTurn(self._mark(CALL)))

    def _answer(self) -> Grammar:
        """The answer behind its channel. One that is JSON, or may be, may have its type."""
        answer, form = self._shape.answer(self._avoid, any_whitespace=True), self._shape.response_format
        typed = [self._type("json")] if form.is_json or answer is None else []
        gaps = [_GAP] if form.is_json and not form.compact else []
        body = self._free_answer() if answer is None else chain(*gaps, answer, *gaps, self._end())
        return chain(*typed, self._mark(MESSAGE), body)

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
        closer = None if until is None else self._mark(until)
        return AnyText(closer, self._avoid, self._shape.max_text, escaped=self._literal)

    def _mark(self, control: Control) -> Control | str:
        return control.spelling if self._literal else control
