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
    EndOfTurn,
    Grammar,
    Json,
    Literal,
    ReplyShape,
    choice,
    optional,
)
from antiphon.tokens import Control

from .call_grammar import BLANKS, GAPS, CallGrammar, Spelled, joined, rest_after_prefix
from .compiled import CompiledDescription, Role
from .description import NO_HABITS, CallForm, Habits, Region, ReplyDescription

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


_MOST_BEFORE = 200
"""Characters of a text before a call that must be made: a model that talks on is brought to it."""


def reply_grammar(
    shape: ReplyShape,
    description: ReplyDescription,
    *,
    controls: Collection[Control],
    stops: Sequence[Control | str] = (),
    begun: str = "",
    habits: Habits = NO_HABITS,
) -> Grammar:
    """Reasoning in its region, then the answer or calls in the model's own spelling.

    ``begun`` is what the prompt says of the reply, as `CompiledDescription.begun` finds it. A mark that is a control of
    ``controls`` counts only as one.

    Errors: `UnsupportedError` for calls or reasoning that the model has no way to write, for a thought that is begun
    and that no mark ends where none may be, and for an answer of a form where the prompt has begun another; what
    `ReplyShape.callable` and its schemas raise.
    """
    compiled = CompiledDescription(description, controls, stops)
    return _ReplyGrammar(shape, description, compiled, controls, habits).reply(prompt_state(compiled, begun))


class _ReplyGrammar:
    def __init__(
        self,
        shape: ReplyShape,
        description: ReplyDescription,
        compiled: CompiledDescription,
        controls: Collection[Control],
        habits: Habits,
    ) -> None:
        self._habits = habits
        self._shape = shape
        self._description = description
        self._decode = compiled.alphabet.decode
        self._spelled = Spelled(controls, description.literals)
        self._layouts = [joined(*self._spelled.pieces(text)) for text in description.layout]
        regions = (description.reasoning, description.content)
        closes = {region.close.strip() for region in regions if region is not None}
        ends = dict.fromkeys((*description.ends, *compiled.stops))
        self._all_ends = [self._spelled.pieces(end) for end in ends]
        self._ends = [self._spelled.pieces(end) for end in [end for end in ends if str(end) not in closes] or ends]
        self._avoid = tuple(sorted(mark for mark in compiled.top.literals if not compiled.alphabet.symbols & {*mark}))
        self._calls = CallGrammar(shape, description.calls[0], self._spelled) if description.calls else None
        first = description.calls[0] if description.calls else CallForm()
        opening = compiled.alphabet.encode((first.section and first.section.open) or first.open).strip()
        self._shared = bool(opening) and any(
            mark != opening and mark.startswith(opening) for mark in compiled.top.literals
        )
        """Calls begin as another region does, and are told from it by the tool's name alone."""

    def reply(self, begun: PromptState) -> Grammar:
        if begun.opened:
            return self._opened(begun.opened)
        match begun.state:
            case State.REASONING:
                thought = self._no_thought() if self._shape.reasoning == "off" else self._thought()
                return joined(thought, self._outcome())
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
            case "optional" | "off" if region.close:
                opening = self._mark(region.open)
                nothing = joined(optional(opening) if self._habits.unopened else opening, self._no_thought())
                thoughts = [opened, nothing] if self._shape.reasoning == "optional" else [nothing]
                return joined(optional(choice(*thoughts)), outcome)
            case "optional":
                return joined(optional(opened), outcome)
            case "off":
                return outcome
            case "required":
                return joined(opened, outcome)
            case mode:
                assert_never(mode)

    def _thought(self) -> Grammar:
        """The reasoning behind its opening, and its close. Blanks beside the marks are no reasoning."""
        region = self._description.reasoning or Region()
        limit, must = self._shape.max_reasoning, self._shape.reasoning == "required"
        text = replace(AnyText(None, self._avoid, limit), nonblank=must)
        blanks = [BLANKS] if must else []
        if not region.close:
            return joined(*blanks, text)
        return joined(*blanks, *self._until(text, region.close.strip()), *self._between(region))

    def _no_thought(self) -> Grammar:
        """The close of a thought in which nothing is said."""
        region = self._description.reasoning or Region()
        if not region.close:
            raise UnsupportedError(
                "the prompt has begun a thought, and this model has no mark that ends one",
                position=Position(path="reasoning"),
            )
        return joined(BLANKS, *self._spelled.pieces(region.close.strip()), *self._between(region))

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
            return choice(*self._announced(calls, tools, self._few_words()))
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
            return joined(BLANKS, *calls.opening, calls.rest(tools), self._end_of_calls())
        return choice(
            *(
                joined(blank, *calls.opening, calls.rest(tools, first=[tool]), self._end_of_calls())
                for tool in tools
                for blank in ("", " ")
            )
        )

    def _few_words(self) -> AnyText | None:
        """A text before a call that must be made; none where the template writes none."""
        most = self._shape.max_text or _MOST_BEFORE
        return (
            replace(self._free_text(), limit=min(most, _MOST_BEFORE)) if self._habits.text_beside == "before" else None
        )

    def _announced(self, calls: CallGrammar, tools: Sequence[ToolSpec], free: AnyText | None) -> list[Grammar]:
        """Calls with or without a text before them; none stands before calls that have no mark of their own."""
        direct = self._called(calls, tools)
        if free is None or not self._may_announce or calls.unmarked:
            return [direct]
        # An object is read as the answer, and a call that is spelled out in one of its strings as its text.
        spelled = all(isinstance(piece, str) for piece in calls.opening)
        text = replace(free, not_first="{" if spelled else "")
        called = joined(calls.rest(tools), self._end_of_calls())
        announced: list[Grammar] = [direct if self._shared else joined(*self._until(text, calls.opening), called)]
        content = self._description.content
        if content is not None and content.open and content.close:
            announced.append(joined(self._wrapped(content, text), *self._between(content), direct))
        if content is not None and content.open and (not content.close or self._closes_reply(content)):
            announced.append(joined(self._mark(content.open), *self._until(text, calls.opening), called))
        return announced

    def _answer(self, free: AnyText, unmarked: str = "") -> Grammar:
        """The answer with its end. One that begins as an unmarked call does would be read as that."""
        form = self._form()
        content = self._description.content
        wrapped = [] if content is None or not content.open else [self._ended(content, form or free)]
        if form is not None:
            return wrapped[0] if wrapped else joined(form, *self._ending())
        plain = self._text_to_end(replace(free, not_first=unmarked))
        return choice(plain, *wrapped) if wrapped else plain

    def _form(self) -> Grammar | None:
        """The form of the answer, if it has one."""
        form = self._shape.answer(self._avoid, any_whitespace=True)
        return joined(GAPS, form, GAPS) if isinstance(form, Json) and form.any_whitespace else form

    def _rest_of_answer(self, begun: PromptState) -> Grammar:
        """An answer whose region the prompt has opened, or calls within it or behind."""
        content = self._description.content or Region()
        form = self._form()
        if begun.has_text:
            self._require_free_answer()
        calls = self._called_within(content)
        if self._shape.must_call:
            if not calls:
                self._require_free_answer()
            return choice(*calls)
        return choice(self._ended(content, form or self._free_text(), opened=True), *calls)

    def _called_within(self, content: Region) -> list[Grammar]:
        """Calls in the answer's region, which may be closed behind them or before, with or without a text."""
        tools, calls = self._shape.callable, self._calls
        if not tools or calls is None or calls.unmarked:
            return []
        free = self._few_words() if self._shape.must_call else self._free_text()
        text = free if self._may_announce else None
        before = [BLANKS, *calls.opening] if text is None else self._until(text, calls.opening)
        close = content.close.strip()
        if not close:
            return [joined(*before, calls.rest(tools), self._end_of_calls())]
        closing = joined(BLANKS, *self._spelled.pieces(close))
        closed = [BLANKS, *self._spelled.pieces(close)] if text is None else self._until(text, close)
        return [
            joined(*before, calls.rest(tools), optional(closing), self._end_of_calls()),
            joined(*closed, *self._between(content), self._called(calls, tools)),
        ]

    def _require_free_answer(self) -> None:
        if self._shape.must_call or self._shape.response_format.kind != "text":
            raise UnsupportedError("a reply that was begun goes on as it was begun", position=Position(path="messages"))

    def _ended(self, content: Region, inside: Grammar, *, opened: bool = False) -> Grammar:
        """The content's region and the end of the reply, which its close may be."""
        whole = self._wrapped(content, inside, opened=opened)
        if not content.close.strip():
            return joined(whole, *self._ending())
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
        layout = choice(*self._layouts) if self._layouts else None
        if not self._closes_reply(region):
            return [BLANKS, *([optional(layout)] if layout else [])]
        own = region.close[len(region.close.rstrip()) :]
        return [*([optional(Literal(own))] if own else []), *([layout] if layout else [])]

    def _mark(self, literal: str) -> Grammar:
        """A literal, before which a model may leave out the blanks."""
        texts = dict.fromkeys((literal.rstrip(), literal.strip(), *([f" {literal.strip()}"] if self._shared else [])))
        ways = [joined(*self._spelled.pieces(text)) for text in texts]
        return choice(*ways) if len(ways) > 1 else ways[0]

    def _end_of_calls(self) -> Grammar:
        """The end behind calls, before which a text may stand where the template writes it there."""
        if self._calls is None or self._calls.unmarked:
            return joined(*self._ending())  # blanks behind such calls would be a text
        end = joined(BLANKS, *self._ending(self._all_ends))
        if self._habits.text_beside != "behind" or self._shape.must_call or not self._may_announce:
            return end
        return choice(end, joined(BLANKS, self._text_to_end(replace(self._free_text(), nonblank=True))))

    @property
    def _may_announce(self) -> bool:
        return self._shape.preambles and self._shape.response_format.kind == "text"

    def _end(self) -> Grammar:
        """Blanks and one of the ends."""
        return joined(BLANKS, *self._ending())

    def _ending(self, ends: Sequence[Sequence[Control | str]] = ()) -> list[Grammar]:
        """One of the ends: the model's own by id, or one that the description names; layout may stand before it."""
        end = choice(EndOfTurn(), *(joined(*each, *self._behind(each)) for each in ends or self._ends))
        regions = (self._description.reasoning, self._description.content)
        if not self._layouts or any(region is not None and self._closes_reply(region) for region in regions):
            return [end]
        return [optional(choice(*self._layouts)), end]

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
