"""Text in parts that are never cut: controls, tags, words. What two texts share is shared in whole parts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

TAG = r"<[^<>\n]{1,80}>|\[/?[A-Z][A-Z_ ]*\]|\[\|[^|\[\]\n]{1,40}\|\]"
_OPENS = (
    ("start", "end"),
    ("begin", "end"),
    ("open", "close"),
    ("START", "END"),
    ("BEGIN", "END"),
    ("prefix", "suffix"),
)


class Atoms:
    """Cuts texts into parts; ``controls`` are spelled by single tokens."""

    def __init__(self, controls: Collection[str] = ()) -> None:
        spellings = [re.escape(text) for text in sorted(filter(None, controls), key=len, reverse=True)]
        self._spellings = [*spellings, TAG]
        self._simple = re.compile("|".join(self._spellings))
        self._compile([])

    def _compile(self, composite: list[str]) -> None:
        self._tag = re.compile("|".join([*composite, *self._spellings]))
        self._part = re.compile("|".join([*composite, *self._spellings, r"\w+", "."]), re.DOTALL)

    def learn(self, texts: Iterable[str]) -> None:
        """Tags of several parts, ``<|open|>think<|sep|>``: two tags that stand round several words."""
        between: dict[tuple[str, str], set[str]] = {}
        for text in texts:
            for found in re.finditer(f"(?=({TAG})(\\w+)({TAG}))", text):
                if not found.group(2).startswith("zq"):
                    between.setdefault((found.group(1), found.group(3)), set()).add(found.group(2))
        pairs = [pair for pair, words in between.items() if len(words) > 2 and not closes(*pair)]
        self._compile([f"{re.escape(first)}\\w+{re.escape(second)}" for first, second in pairs])

    def parts(self, text: str) -> list[str]:
        return self._part.findall(text)

    def tags(self, text: str) -> list[str]:
        """The tags and controls in a text, in order."""
        return self._tag.findall(text)

    def is_tag(self, part: str) -> bool:
        return self._tag.fullmatch(part) is not None

    def prefix(self, texts: Iterable[str]) -> str:
        """The beginning that all the texts share."""
        shared: list[str] = []
        for parts in zip(*map(self.parts, texts), strict=False):
            if len(set(parts)) > 1:
                break
            shared.append(parts[0])
        return "".join(shared)

    def suffix(self, texts: Iterable[str]) -> str:
        """The end that all the texts share."""
        shared: list[str] = []
        for parts in zip(*(reversed(self.parts(text)) for text in texts), strict=False):
            if len(set(parts)) > 1:
                break
            shared.append(parts[0])
        return "".join(reversed(shared))

    def up_to_tag(self, text: str) -> str:
        """The text to its first tag, with that; all of it where it has none."""
        found = self._tag.search(text)
        return text[: found.end()] if found else text

    def without_pair(self, text: str) -> str:
        """The text without the tags at its end that open and close nothing between them."""
        parts = [part for part in self.parts(text) if part.strip()]
        if len(parts) < 2 or parts[-2] == parts[-1] or not self.is_tag(parts[-2]) or not closes(parts[-2], parts[-1]):
            return text
        return text[: text.rindex(parts[-2])]

    def is_composite(self, tag: str) -> bool:
        """Whether a tag has several parts."""
        return self._simple.fullmatch(tag) is None

    def mirrored(self, opening: str, text: str) -> str:
        """The beginning of the text that closes what ``opening`` opens, part by part; empty where it does not."""
        left = [part for part in self.parts(opening) if part.strip()]
        right = self.parts(text)
        taken = 0
        for part in left:
            while taken < len(right) and not right[taken].strip():
                taken += 1
            if taken == len(right) or not closes(part, right[taken]):
                return ""
            taken += 1
        is_close = left and "".join(left) != "".join(right[:taken]).strip()
        return "".join(right[:taken]) if is_close else ""


def closes(opening: str, closing: str) -> bool:
    """Whether two parts differ only in saying begin and end, if in anything."""
    if opening == closing or opening == closing.replace("/", "", 1):
        return True
    if any(opening.replace(begin, end, 1) == closing for begin, end in _OPENS if begin in opening):
        return True
    return opening.replace("|", "") == closing.replace("|", "")
