"""The grammar of replies, written from the description that the reader reads by."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum, auto
from typing import assert_never

import msgspec
from msgspec.structs import replace

from antiphon.conversation import ToolSpec
from antiphon.errors import Position, UnsupportedError
from antiphon.formats.other_calls.grammar import STRICT_BEGINNING, text_with_calls
from antiphon.grammar import (
    AnyText,
    Chain,
    Choice,
    ControlToken,
    EndOfTurn,
    Grammar,
    Literal,
    Regex,
    Repeat,
    ReplyShape,
    choice,
    optional,
)
from antiphon.tokens import Control

from .call_grammar import CallGrammar, Spelled, joined
from .compiled import CompiledDescription, Role
from .description import Region, ReplyDescription

# Where a reply stands that the prompt has begun.


class State(Enum):
    NOTHING = auto()
    REASONING = auto()
    REASONED = auto()
    """Reasoning was closed, or is behind what the prompt said."""
    CONTENT = auto()


class PromptState(msgspec.Struct, frozen=True):
    """``has_text``: a part of the answer is there. ``opened``: nothing but a mark that another one begins with."""

    state: State = State.NOTHING
    has_text: bool = False
    opened: str = ""


def prompt_state(description: CompiledDescription, begun: str) -> PromptState:
    """The state behind ``begun``, as `CompiledDescription.begun` finds it. `UnsupportedError` inside a call."""
    state, at = State.NOTHING, 0
    if any(mark != begun and mark.startswith(begun) for mark in description.top.literals if begun in description.roles):
        return PromptState(opened=begun)
    while True:
        start, end = description.top.find(begun, at, last=True)
        if end == start:
            break
        state, at = _behind(description.roles[begun[start:end]], state), end
    text = bool(begun[at:].strip()) and state is not State.REASONING
    return PromptState(State.REASONED if text and state is State.NOTHING else state, text)


def _behind(roles: set[Role], state: State) -> State:
    if Role.REASONING_CLOSE in roles and state is not State.CONTENT:
        return State.REASONED
    if Role.REASONING_OPEN in roles:
        return State.REASONING
    if Role.CONTENT_OPEN in roles:
        return State.CONTENT
    if Role.SECTION_OPEN in roles or Role.CALL_OPEN in roles:
        raise UnsupportedError("a call that was begun cannot be constrained", position=Position(path="messages"))
    return State.REASONED if Role.CONTENT_CLOSE in roles else state


# What may follow where the prompt has written the beginning of a mark that several things begin with.


def rest_after_prefix(grammar: Grammar, opened: Control | str) -> Grammar | None:
    """The rest of what begins with ``opened``; None where nothing does."""
    match grammar:
        case Literal(text) if isinstance(opened, str) and text.startswith(opened):
            return Literal(text.removeprefix(opened))
        case ControlToken(control) if control == opened:
            return Literal("")
        case Choice(options):
            found = [rest for option in options if (rest := rest_after_prefix(option, opened)) is not None]
            return choice(*found) if found else None
        case Chain((first, *rest)):
            return _chain_after_prefix(first, Chain(tuple(rest)), opened)
        case Repeat(item, _, most) if most == 1:
            return rest_after_prefix(item, opened)
        case _:
            return None


def _chain_after_prefix(first: Grammar, rest: Chain, opened: Control | str) -> Grammar | None:
    begun = rest_after_prefix(first, opened)
    ways = [joined(begun, rest)] if begun is not None else []
    if isinstance(first, Repeat) and not first.least and (left_out := rest_after_prefix(rest, opened)) is not None:
        ways.append(joined(left_out))
    return choice(*ways) if len(ways) > 1 else ways[0] if ways else None


_BLANK_LINES = Regex(r"\n{1,4}")


def reply_grammar(
    shape: ReplyShape,
    description: ReplyDescription,
    *,
    controls: Collection[Control],
    stops: Sequence[Control | str] = (),
    begun: str = "",
) -> Grammar:
    """Reasoning in its region, then the answer or calls in the model's own spelling.

    ``begun`` is what the prompt says of the reply, as `CompiledDescription.begun` finds it. A mark that is a control of
    ``controls`` counts only as one.

    Errors: `UnsupportedError` for calls or reasoning that the model has no way to write, and for an answer of a form
    where the prompt has begun another; what `ReplyShape.callable` and its schemas raise.
    """
    compiled = CompiledDescription(description, controls, stops)
    return _ReplyGrammar(shape, description, compiled, controls).reply(prompt_state(compiled, begun))


class _ReplyGrammar:
    def __init__(
        self,
        shape: ReplyShape,
        description: ReplyDescription,
        compiled: CompiledDescription,
        controls: Collection[Control],
    ) -> None:
        self._shape = shape
        self._description = description
        self._decode = compiled.alphabet.decode
        self._spelled = Spelled(controls, description.literals)
        self._layouts = [joined(*self._spelled.pieces(text)) for text in description.layout]
        regions = (description.reasoning, description.content)
        closes = {region.close.strip() for region in regions if region is not None}
        ends = dict.fromkeys((*description.ends, *compiled.stops))
        self._ends = [self._spelled.pieces(end) for end in [end for end in ends if str(end) not in closes] or ends]
        self._avoid = tuple(sorted(mark for mark in compiled.top.literals if not compiled.alphabet.symbols & {*mark}))
        self._calls = CallGrammar(shape, description.calls[0], self._spelled) if description.calls else None
        opening = compiled.alphabet.encode(description.calls[0].open).strip() if description.calls else ""
        self._shared = bool(opening) and any(
            mark != opening and mark.startswith(opening) for mark in compiled.top.literals
        )
        """Calls begin as another region does, and are told from it by the tool's name alone."""

    def reply(self, begun: PromptState) -> Grammar:
        if begun.opened:
            return self._opened(begun.opened)
        match begun.state:
            case State.REASONING:
                return joined(self._thought(), self._outcome())
            case State.CONTENT:
                return self._rest_of_answer(begun)
            case State.REASONED if self._shape.reasoning != "required":
                return self._outcome(begun)
            case _:
                return self._from_the_beginning(begun)

    def _opened(self, opened: str) -> Grammar:
        """A reply of whose first mark the prompt has written the beginning."""
        rest: Grammar | None = self._from_the_beginning(PromptState())
        for piece in self._spelled.pieces(self._decode(opened)):
            rest = rest and rest_after_prefix(rest, piece)
        if rest is None:
            raise UnsupportedError("the prompt has begun a reply of another form", position=Position(path="messages"))
        return rest

    def _from_the_beginning(self, begun: PromptState) -> Grammar:
        outcome = self._outcome(begun)
        region = self._description.reasoning
        if region is None or not region.open:
            if self._shape.reasoning == "required":
                raise UnsupportedError("this model has no way to reason apart", position=Position(path="reasoning"))
            return outcome
        opened = joined(self._mark(region.open), self._thought())
        match self._shape.reasoning:
            case "off":
                return outcome
            case "optional":
                return joined(optional(opened), outcome)
            case "required":
                return joined(opened, outcome)
            case mode:
                assert_never(mode)

    def _thought(self) -> Grammar:
        """The reasoning behind its opening, and its close. Blanks beside the marks are no reasoning."""
        region = self._description.reasoning or Region()
        limit, must = self._shape.max_reasoning, self._shape.reasoning == "required"
        text = replace(AnyText(None, self._avoid, limit), nonblank=must)
        blanks = [optional(_BLANK_LINES)] if must else []
        if not region.close:
            return joined(*blanks, text)
        return joined(*blanks, *self._until(text, region.close.strip()), *self._between(region))

    def _outcome(self, begun: PromptState | None = None) -> Grammar:
        """An answer, or calls, before which a text may stand."""
        tools, calls = self._shape.callable, self._calls
        if begun is not None and begun.has_text:
            self._require_free_answer()
        if not tools or calls is None:
            if self._shape.must_call:
                raise UnsupportedError(
                    "this model's template has no way to call tools", position=Position(path="tool_choice")
                )
            return self._answer(self._free_text())
        if self._shape.must_call:
            return self._called(calls, tools)
        if self._holds_others(calls):
            held = text_with_calls(self._shape, tools)
            return choice(joined(held, self._end()), joined(held, *calls.opening, calls.rest(tools), self._end()))
        text = self._free_text(strict=any(tool.strict for tool in tools) and not calls.unmarked)
        return choice(self._answer(text, calls.unmarked), *self._announced(calls, tools, text))

    def _free_text(self, *, strict: bool = False) -> AnyText:
        """``strict``: it does not begin as a call in another form than the trained one does."""
        limit = self._shape.max_text
        not_begun = STRICT_BEGINNING if strict and self._shape.held and limit is None else ""
        return AnyText(None, self._avoid, limit, not_begun=not_begun)

    def _holds_others(self, calls: CallGrammar) -> bool:
        """Whether calls in other forms are to be whole; not where free text must avoid what is spelled out."""
        if not self._shape.held or not self._shape.other_calls or self._shape.response_format.kind != "text":
            return False
        content, ends = self._description.content, [end[0] for end in self._ends]
        plain = not self._avoid and (content is None or not content.open) and not self._shared
        opened = not calls.unmarked and calls.opening and isinstance(calls.opening[0], Control)
        bounded = self._shape.max_text is not None or not self._shape.preambles
        return bool(opened) and plain and not bounded and all(isinstance(end, Control) for end in ends)

    def _called(self, calls: CallGrammar, tools: Sequence[ToolSpec]) -> Grammar:
        """The calls and the end. An opening that is shared is one lexeme with each tool's name."""
        if not self._shared:
            return joined(optional(self._blanks(calls.lead)), *calls.opening, calls.rest(tools), self._end())
        return choice(
            *(
                joined(blank, *calls.opening, calls.rest(tools, first=[tool]), self._end())
                for tool in tools
                for blank in ("", " ")
            )
        )

    def _announced(self, calls: CallGrammar, tools: Sequence[ToolSpec], free: AnyText) -> list[Grammar]:
        """Calls with or without a text before them; none stands before calls that have no mark of their own."""
        direct = self._called(calls, tools)
        if not self._shape.preambles or self._shape.response_format.kind != "text" or calls.unmarked:
            return [direct]
        # An object is read as the answer, and a call that is spelled out in one of its strings as its text.
        spelled = all(isinstance(piece, str) for piece in calls.opening)
        text = replace(free, not_first="{" if spelled else "")
        called = joined(calls.rest(tools), self._end())
        announced: list[Grammar] = [direct if self._shared else joined(*self._until(text, calls.opening), called)]
        content = self._description.content
        if content is not None and content.open and content.close:
            announced.append(joined(self._wrapped(content, text), *self._between(content), direct))
        if content is not None and content.open and (not content.close or self._closes_reply(content)):
            announced.append(joined(self._mark(content.open), *self._until(text, calls.opening), called))
        return announced

    def _answer(self, free: AnyText, unmarked: str = "") -> Grammar:
        """The answer with its end. One that begins as an unmarked call does would be read as that."""
        form = self._shape.answer(self._avoid, any_whitespace=True)
        content = self._description.content
        wrapped = [] if content is None or not content.open else [self._ended(content, form or free)]
        if form is not None:
            return wrapped[0] if wrapped else joined(form, self._end())
        plain = self._text_to_end(replace(free, not_first=unmarked))
        return choice(plain, *wrapped) if wrapped else plain

    def _rest_of_answer(self, begun: PromptState) -> Grammar:
        """An answer whose region the prompt has opened."""
        content = self._description.content or Region()
        form = self._shape.answer(self._avoid, any_whitespace=True)
        if self._shape.must_call or (form is not None and begun.has_text):
            self._require_free_answer()
        return self._ended(content, form or AnyText(None, self._avoid, self._shape.max_text), opened=True)

    def _require_free_answer(self) -> None:
        if self._shape.must_call or self._shape.response_format.kind != "text":
            raise UnsupportedError("a reply that was begun goes on as it was begun", position=Position(path="messages"))

    def _ended(self, content: Region, inside: Grammar, *, opened: bool = False) -> Grammar:
        """The content's region and the end of the reply, which its close may be."""
        whole = self._wrapped(content, inside, opened=opened)
        if not self._closes_reply(content):
            return joined(whole, self._end())
        return joined(whole, *self._behind(self._spelled.pieces(content.close.strip())))

    def _wrapped(self, content: Region, inside: Grammar, *, opened: bool = False) -> Grammar:
        before = [] if opened else [self._mark(content.open)]
        close = content.close.strip()
        if not close:
            return joined(*before, inside)
        if isinstance(inside, AnyText):
            return joined(*before, *self._until(inside, close))
        return joined(*before, inside, self._mark(content.close))

    def _between(self, region: Region) -> list[Grammar]:
        """The layout behind a region before the next, required where the region's close may be the reply's."""
        between: list[Grammar] = [optional(self._blanks(region.close))]
        if self._layouts:
            layout = choice(*self._layouts)
            between.append(layout if self._closes_reply(region) else optional(layout))
        return between

    def _mark(self, literal: str) -> Grammar:
        """A literal, before which a model may leave out the blanks."""
        texts = dict.fromkeys((literal.rstrip(), literal.strip(), *([f" {literal.strip()}"] if self._shared else [])))
        ways = [joined(*self._spelled.pieces(text)) for text in texts]
        return choice(*ways) if len(ways) > 1 else ways[0]

    def _blanks(self, literal: str = "") -> Grammar:
        """Blank lines, or the literal's own blanks at its ends."""
        own = {literal[: len(literal) - len(literal.lstrip())], literal[len(literal.rstrip()) :]}
        return choice(_BLANK_LINES, *sorted(blanks for blanks in own if blanks.strip("\n")))

    def _end(self) -> Grammar:
        """One of the ends: the model's own by id, or one that the description names; layout may stand before it."""
        ends = choice(EndOfTurn(), *(joined(*end, *self._behind(end)) for end in self._ends))
        regions = (self._description.reasoning, self._description.content)
        if not self._layouts or any(region is not None and self._closes_reply(region) for region in regions):
            return ends
        return joined(optional(choice(*self._layouts)), ends)

    def _behind(self, end: Sequence[Control | str]) -> list[Grammar]:
        """The control that an engine may add to an end that the model spelled out."""
        return [optional(EndOfTurn())] if isinstance(end[-1], str) else []

    def _text_to_end(self, text: AnyText) -> Grammar:
        """A free text and its end; a spelled-out end is found in it."""
        controls = [end for end in self._ends if isinstance(end[0], Control)]
        spelled = [joined(*self._until(text, end), optional(EndOfTurn())) for end in self._ends if end not in controls]
        by_token = choice(EndOfTurn(), *(joined(*end, *self._behind(end)) for end in controls))
        return choice(joined(text, by_token), *spelled) if spelled else joined(text, by_token)

    def _until(self, text: AnyText, closing: str | Sequence[Control | str]) -> list[Grammar | Control | str]:
        """The text, its close, and what is behind that in the close."""
        pieces = self._spelled.pieces(closing) if isinstance(closing, str) else tuple(closing)
        return [replace(text, until=pieces[0]), *pieces[1:]]

    def _closes_reply(self, region: Region) -> bool:
        return region.close.strip() in self._description.ends
