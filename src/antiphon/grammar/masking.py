"""The rest of one call: a matcher for a format, a shape and a vocabulary."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from antiphon.errors.extras import extra
from antiphon.tokens import Tokenizer

from .grammar import Grammar
from .shape import ReplyShape

if TYPE_CHECKING:  # llguidance is an extra
    from .following import Matcher


class HasGrammar(Protocol):
    """Any `antiphon.formats.Format`."""

    def grammar(self, shape: ReplyShape) -> Grammar: ...


def matcher(format: HasGrammar, shape: ReplyShape, tokenizer: Tokenizer, end_ids: Collection[int]) -> Matcher:
    """A matcher for one reply, whose ``mask()`` any engine can lay over its logits. Needs the extra ``local``.

    ``end_ids`` are the model's own end tokens. Building the vocabulary takes a quarter of a second for a real model;
    who calls it more than once makes a `Vocabulary` and uses `compile_grammar`.

    Errors: `RequestError` for a shape that cannot be enforced, with its place.
    """
    with extra("local", "a grammar"):
        from .compiler import Vocabulary, compile_grammar

    return compile_grammar(format.grammar(shape), Vocabulary(tokenizer, end_ids)).matcher()
