"""How an object is written as keys and values, where a model does not write JSON."""

from __future__ import annotations

from typing import Literal as OneOf

import msgspec

from antiphon.tokens import Control

Pieces = tuple[Control | str, ...]
"""A text some of whose parts are controls, which are tokens where the vocabulary has them."""


class ValueSpelling(msgspec.Struct, frozen=True, kw_only=True):
    """A value between ``before``, which follows the key, and ``after``.

    ``schema``: a string as it is, else a literal; ``text``: only strings, as they are; ``json``: a literal, of a string
    only where no form is ``text``; ``literal``: a literal that ends where it ends; ``nested``: members as tags of their
    own, whose closing tag has ``{key}`` for its name. No value spells a text of ``avoid``, which would end it.
    """

    before: Pieces = ()
    after: Pieces = ()
    reads: OneOf["schema", "text", "json", "literal", "nested"] = "schema"
    avoid: tuple[str, ...] = ()


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """``key``, a name, a value in one of the forms of ``values``, ``separator``, and so on.

    Literals are JSON's, or also Python's (``python``). With a ``quote`` strings stand between two of them with no
    escapes, names are bare, and members are sorted by name.
    """

    key: Pieces = ()
    values: tuple[ValueSpelling, ...]
    separator: Pieces = ()
    python: bool = False
    quote: Control | str = ""
