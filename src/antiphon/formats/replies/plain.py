"""Pieces that are more text of the open message, whatever comes behind them: nearly all of a reply."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.conversation import TextDelta

from .marks import SYMBOL

_MOST = 8192
_MOST_LONG = 16


class PlainTexts(dict[str, TextDelta | None]):
    """The event of each piece that is plain in one place of a reply, None for the others; filled as pieces are met.

    ``special`` finds what is not plain there, ``spell`` is how the message has the text. All replies of a description
    share a table. It keeps short pieces only, so many at most: the tokens that recur.
    """

    def __init__(self, special: Callable[[str], object], spell: Callable[[str], str] = str) -> None:
        super().__init__()
        self._special = special
        self._spell = spell

    def __missing__(self, piece: str) -> TextDelta | None:
        plain = piece and (piece.isascii() or not SYMBOL.search(piece)) and not self._special(piece)
        delta = TextDelta(self._spell(piece)) if plain else None
        if len(piece) <= _MOST_LONG:
            if len(self) >= _MOST:
                self.clear()
            self[str(piece)] = delta
        return delta
