"""A vocabulary from its parts: its controls, the bytes of its other ids, and a function that encodes text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from .pieces import Control, Strip, well_formed
from .slices import EncodeUpTo


class _Pieces(dict[int, bytes | Control]):
    """Piece of each id, worked out at the first use: most of a vocabulary is never seen."""

    def __init__(self, size: int, controls: Mapping[Control, int], bytes_of: Callable[[int], bytes]) -> None:
        super().__init__((id, control) for control, id in controls.items())
        self._size = size
        self._bytes_of = bytes_of

    def __missing__(self, id: int) -> bytes | Control:
        if not 0 <= id < self._size:
            return b""  # not stored: ids outside must not make the table grow
        piece = self[id] = self._bytes_of(id)
        return piece


class TableTokenizer:
    """A `Tokenizer` from its parts. Every vocabulary that is not a test's is one of these.

    ``bytes_of`` gives the bytes of any id below ``size`` that is not a control; ``encode`` the ids of a text.
    ``following`` encodes text that goes on after text, and where ``begins_once`` after controls too; None: as all
    text. ``strips`` are what controls take of the texts beside them. ``fewest`` tells how many a text has at least;
    None: its length tells nothing. ``in_words``: a text may be cut as `between_matches` does, which changes no id.
    """

    def __init__(
        self,
        name: str,
        size: int,
        *,
        controls: Mapping[Control, int],
        bytes_of: Callable[[int], bytes],
        encode: EncodeUpTo,
        following: EncodeUpTo | None = None,
        begins_once: bool = False,
        strips: Mapping[Control, Strip] = MappingProxyType({}),
        fewest: Callable[[str], int] | None = None,
        in_words: bool = False,
    ) -> None:
        self.name = name
        self.size = size
        self.controls = MappingProxyType(dict(controls))
        # The dictionary's own method: what streams calls it for every id, and it costs a fifth of a method in Python.
        self.piece: Callable[[int], bytes | Control] = _Pieces(size, controls, bytes_of).__getitem__
        self._encode = encode
        self._following = following
        self._begins_once = begins_once
        self.strips = strips
        self._fewest = fewest
        self.in_words = in_words

    def __repr__(self) -> str:
        return f"<TableTokenizer {self.name}: {self.size} ids, {len(self.controls)} controls>"

    def encode(self, text: str) -> list[int]:
        return self._encode(well_formed(text)) if text else []

    def encode_up_to(self, text: str, limit: int) -> list[int]:
        ids = self._encode(well_formed(text), limit) if text else []
        del ids[limit + 1 :]
        return ids

    def encode_following(self, text: str, *, control: bool = False) -> list[int] | None:
        if self._following is None or not text or (control and not self._begins_once):
            return None
        return self._following(well_formed(text))

    def fewest(self, text: str) -> int:
        return 0 if self._fewest is None else self._fewest(text)

    def control_id(self, control: Control) -> int | None:
        return self.controls.get(control)


def text_only(encode: EncodeUpTo, controls: Mapping[Control, int]) -> EncodeUpTo:
    """``encode`` with a check: no id that it gives is a control's, whatever the text spells.

    A library may still find a control in plain text (a vocabulary that looks whole words up, a normaliser, an engine
    that parses some of its tokens always). Then the text is cut inside every control spelling, so that none is whole,
    and if a normaliser can still make one, into characters.
    """
    forbidden = frozenset(controls.values())

    def encode_text(text: str, limit: int | None = None) -> list[int]:
        ids = encode(text, limit)
        if forbidden.isdisjoint(ids):
            return ids
        for parts in (_cut_inside(text, controls), text):
            ids = _joined(parts, encode, limit)
            if forbidden.isdisjoint(ids):
                return ids
        return [id for id in ids if id not in forbidden]  # one character that is a control by itself

    return encode_text


def _joined(parts: Iterable[str], encode: EncodeUpTo, limit: int | None) -> list[int]:
    ids: list[int] = []
    for part in parts:
        ids += encode(part)
        if limit is not None and len(ids) > limit:
            break
    return ids


def _cut_inside(text: str, controls: Iterable[Control]) -> list[str]:
    """The text in parts, none of which contains a whole spelling: cut behind the first character of each."""
    spellings = [control.spelling for control in controls if len(control.spelling) > 1]
    inside = "|".join(f"(?<={re.escape(s[0])})(?={re.escape(s[1:])})" for s in spellings)
    return re.split(inside, text) if inside else [text]


_TAG = re.compile(r"[<\[｟〈].*[>\]｠〉]", re.DOTALL)
_HTML = re.compile(
    r"</?(?:table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|b|i|u|s|sub|sup|code|pre|p|br|ul|ol|li)>"
)


def is_structure(spelling: str) -> bool:
    """Whether an added token that its file does not flag as special is a control for us.

    What looks like a tag is (``<think>``, ``<tool_call>``, ``[INST]``): templates build structure with it, so a user's
    text must not. What does not is text (runs of blanks, rare letters), and so are the HTML elements that some
    vocabularies have as one token.
    """
    return bool(_TAG.fullmatch(spelling)) and not _HTML.fullmatch(spelling)
