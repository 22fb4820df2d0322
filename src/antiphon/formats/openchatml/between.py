"""What stands between frames: blanks, which belong to the frame behind them, and text that has no place there."""

from __future__ import annotations

from .finding import Place

OUTSIDE = "text stands outside any frame"
BLANK = " \t\r\n"
MAX_ASIDE = 65_536
"""Characters outside frames that one finding holds."""


class Between:
    """``aside_at`` is where a run of text outside frames began, None when there is none; ``problem`` is its name."""

    __slots__ = ("_aside", "_blanks", "_expected", "_keep", "_length", "aside_at", "mended", "problem")

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._blanks: list[str] = []
        self._expected = ""
        self._aside: list[str] = []
        self._length = 0
        self.aside_at: Place | None = None
        self.problem = OUTSIDE
        self.mended = False
        """Something was set aside since the last frame."""

    def add(self, text: str, at: Place) -> int:
        """Takes text that stands at ``at``; how many characters, until the run is full."""
        blank = 0
        if self.aside_at is None:
            blank = len(text) - len(text.lstrip(BLANK))
            self.add_blanks(text[:blank])
        stray = text[blank : blank + max(0, MAX_ASIDE - self._length)]
        if stray:
            self.set_aside(stray, at.after(text[:blank]))
        return blank + len(stray)

    def add_blanks(self, blanks: str) -> None:
        if self._keep and blanks:
            self._blanks.append(blanks)

    def set_aside(self, text: str, at: Place, problem: str = OUTSIDE) -> None:
        """Text that no frame holds; ``problem`` says why, when a run of it begins."""
        if self.aside_at is None:
            self.aside_at, self.problem = at.copy(), problem
        self._aside.append(text)
        self._length += len(text)

    @property
    def is_full(self) -> bool:
        return self._length >= MAX_ASIDE

    @property
    def is_clean(self) -> bool:
        """Nothing was set aside since the last frame."""
        return self.aside_at is None and not self.mended

    def take_aside(self) -> str:
        """The text outside frames; the run is over then."""
        text = "".join(self._aside)
        self.aside_at, self._aside, self._length, self.mended = None, [], 0, True
        return text

    def take_blanks(self) -> str | None:
        """The blanks before a frame that ends now; None when they are as we write them.

        Blanks around what was set aside belong to it: they may not make sense without it.
        """
        blanks, expected, mended = self.blanks, self._expected, self.mended
        self._blanks, self._expected, self.mended = [], "\n", False
        return None if mended or not self._keep or blanks == expected else blanks

    @property
    def blanks(self) -> str:
        return "".join(self._blanks)
