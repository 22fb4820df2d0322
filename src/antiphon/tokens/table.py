"""A vocabulary as one table: what each id is, and a function that encodes ordinary text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from .pieces import Control, well_formed

EncodeText = Callable[[str], list[int]]
"""Ids of a text without lone surrogates. Safe to call from several threads."""


class TableTokenizer:
    """A `Tokenizer` from its table. Every vocabulary that is not a test's is one of these."""

    def __init__(self, name: str, table: Sequence[bytes | Control], encode: EncodeText) -> None:
        self.name = name
        self.size = len(table)
        self.controls: Mapping[Control, int] = controls_of(table)
        self._table = tuple(table)
        self._encode = encode

    def __repr__(self) -> str:
        return f"<TableTokenizer {self.name}: {self.size} ids, {len(self.controls)} controls>"

    def encode(self, text: str) -> list[int]:
        return self._encode(well_formed(text))

    def piece(self, id: int) -> bytes | Control:
        return self._table[id] if 0 <= id < self.size else b""

    def control_id(self, control: Control) -> int | None:
        return self.controls.get(control)


def controls_of(table: Sequence[bytes | Control]) -> dict[Control, int]:
    """The controls of a table; of equal spellings the first counts."""
    controls: dict[Control, int] = {}
    for id, piece in enumerate(table):
        if isinstance(piece, Control):
            controls.setdefault(piece, id)
    return controls


def text_only(encode: EncodeText, table: Sequence[bytes | Control]) -> EncodeText:
    """``encode`` held to its word: no id that it gives is a control's, whatever the text spells.

    A library may still find a control in plain text (a vocabulary that looks whole words up, a normaliser, an engine
    that parses some of its tokens always). Then the text is cut inside every control spelling, so that none is whole,
    and if a normaliser can still make one, into characters.
    """
    forbidden = frozenset(id for id, piece in enumerate(table) if isinstance(piece, Control))
    spellings = sorted({piece.spelling for piece in table if isinstance(piece, Control)})
    inside = re.compile("|".join(f"(?<={re.escape(s[0])})(?={re.escape(s[1:])})" for s in spellings if len(s) > 1))

    def encode_text(text: str) -> list[int]:
        ids = encode(text)
        if forbidden.isdisjoint(ids):
            return ids
        for parts in (inside.split(text), text):
            ids = [id for part in parts if part for id in encode(part)]
            if forbidden.isdisjoint(ids):
                return ids
        return [id for id in ids if id not in forbidden]  # one character that is a control by itself

    return encode_text


_TAG = re.compile(r"[<\[｟〈].*[>\]｠〉]", re.DOTALL)
_HTML = re.compile(
    r"</?(?:table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|b|i|u|s|sub|sup|code|pre|p|br|ul|ol|li)>"
)


def is_structure(spelling: str) -> bool:
    """Whether an added token that its file does not flag as special is a control for us.

    What looks like a tag is (``<think>``, ``<tool_call>``, ``[INST]``): templates build structure with it, so a user's
    text must not. What does not is text (runs of blanks, rare letters), and so are the HTML elements that some
    vocabularies hold whole.
    """
    return bool(_TAG.fullmatch(spelling)) and not _HTML.fullmatch(spelling)
