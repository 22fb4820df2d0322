"""What a tagged reply may be, written from the same `ReplyTags` that the parser reads by."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import assert_never

from antiphon.conversation import ToolSpec
from antiphon.errors import Position, UnsupportedError
from antiphon.grammar import AnyText, EndOfTurn, Grammar, Repeat, ReplyShape, chain, choice, optional
from antiphon.tokens import Control

from .tags import CallTag, ReplyTags


def reply_grammar(
    shape: ReplyShape,
    tags: ReplyTags,
    *,
    controls: Collection[Control],
    stops: Sequence[Control | str] = (),
    begins_in_reasoning: bool = False,
) -> Grammar:
    """Reasoning between its tags, then the answer or calls; a marker that is a control counts only as one."""
    return _TaggedGrammar(shape, tags, controls, stops).reply(begins_in_reasoning)


class _TaggedGrammar:
    def __init__(
        self, shape: ReplyShape, tags: ReplyTags, controls: Collection[Control], stops: Sequence[Control | str]
    ) -> None:
        self._shape = shape
        self._tags = tags
        self._controls = frozenset(controls)
        self._calls = self._call_tag()
        words = [stop for stop in stops if isinstance(stop, str) and stop]
        self._avoid = tuple(self._marker(spelling) for spelling in sorted({*tags.spellings, *words}))

    def reply(self, begins_in_reasoning: bool) -> Grammar:
        outcome = self._outcome()
        reasoning = self._tags.reasoning
        if reasoning is None and self._shape.reasoning == "required":
            raise UnsupportedError("this model has no way to reason apart", position=Position(path="reasoning"))
        if reasoning is None:
            return outcome
        must = self._shape.reasoning == "required"
        thought = chain(self._thought(reasoning.close, must=must), optional(choice("\n\n", "\n")))
        if begins_in_reasoning:
            return chain(thought, outcome)
        opened = chain(self._marker(reasoning.open), thought)
        match self._shape.reasoning:
            case "off":
                return outcome
            case "optional":
                return chain(optional(opened), outcome)
            case "required":
                return chain(opened, outcome)
            case mode:
                assert_never(mode)

    def _outcome(self) -> Grammar:
        """An answer, or calls, which a few words may announce."""
        tools = self._shape.callable
        if not tools or self._calls is None:
            if self._shape.must_call:
                raise UnsupportedError(
                    "this model's template has no way to call tools", position=Position(path="tool_choice")
                )
            return self._answer()
        called = self._called(self._calls, tools)
        if self._shape.must_call:
            return called
        return choice(self._answer(), called)

    def _call_tag(self) -> CallTag | None:
        """The spelling of calls that this vocabulary's model was trained on: one with a control of its own, if any."""
        owned = [tag for tag in self._tags.calls if Control(tag.open) in self._controls]
        return next(iter((*owned, *self._tags.calls)), None)

    def _called(self, tag: CallTag, tools: Sequence[ToolSpec]) -> Grammar:
        most = len(self._shape.ids)
        one = choice(*(self._call(tag, tool) for tool in tools))
        if tag.style == "list":
            calls = chain(self._marker(tag.open), "[", one, *_more(chain(", ", one), most), "]")
        elif tag.style == "bare":
            calls = chain(one)
        else:
            framed = self._framed(tag, one)
            between = ["\n"] if tag.style == "object" and tag.close else []
            calls = chain(framed, *_more(chain(*between, framed), most))
        section = self._tags.section
        if section is not None:
            calls = chain(self._marker(section.open), calls, self._marker(section.close))
        return chain(calls, EndOfTurn())

    def _framed(self, tag: CallTag, call: Grammar) -> Grammar:
        """A call with its markers; objects have a line of their own between spelled tags, as models write them."""
        blank = ["\n"] if tag.style == "object" and tag.close.startswith("</") else []
        close = [self._marker(tag.close)] if tag.close else []
        before = [self._marker(tag.before_name)] if tag.before_name else []
        return chain(self._marker(tag.open), *before, *blank, call, *blank, *close)

    def _call(self, tag: CallTag, tool: ToolSpec) -> Grammar:
        arguments = self._shape.arguments(tool, self._avoid)
        if tag.style == "named":
            after = [self._marker(tag.after_name)] if tag.after_name else []
            return chain(tool.name, *after, arguments, tag.before_close)
        name = json.dumps(tool.name, ensure_ascii=False)
        return chain(f'{{"name": {name}, "{tag.arguments}": ', arguments, "}")

    def _answer(self) -> Grammar:
        form = self._shape.answer(self._avoid)
        if form is not None:
            return chain(form, EndOfTurn())
        return chain(self._text(None, self._shape.max_text), EndOfTurn())

    def _thought(self, close: str, *, must: bool) -> Grammar:
        """Readers take blanks between the tags for no thought, as models write them that do not want to think."""
        limit = self._shape.max_reasoning
        if not must:
            return self._text(close, limit)
        return chain(optional(choice("\n")), replace(self._text(close, limit), nonblank=True))

    def _text(self, until: str | None, limit: int | None) -> AnyText:
        return AnyText(None if until is None else self._marker(until), self._avoid, limit)

    def _marker(self, spelling: str) -> Control | str:
        control = Control(spelling)
        return control if control in self._controls else spelling


def _more(item: Grammar, most: int) -> list[Grammar]:
    """Further items after the first of at most ``most``."""
    return [Repeat(item, 0, most - 1)] if most > 1 else []
