"""Whether a name that nobody knows is a known one, misspelt.

>>> meant("temprature", ["temperature", "top_p"])
'temperature'
>>> meant("topP", ["temperature", "top_p"])
'top_p'
>>> meant("step", ["stop"])
>>> meant("x_request_id", ["request_id"])
"""

from __future__ import annotations

from collections.abc import Iterable

MOST_EXAMINED = 32
"""Unknown names of one request at most that are compared with the known ones."""
LONGEST = 64


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` misspells, the nearest and first one; None for a name of its own.

    Case, hyphens and underscores do not count. Else a known name of 5 to 8 characters may differ in one letter and a
    longer one in two (one put in, left out, changed, or two exchanged), but not in the first; a shorter one in none.
    """
    if len(name) > LONGEST:
        return None
    plain, nearest, least = _plain(name), None, 3
    for candidate in known:
        other = _plain(candidate)
        allowed = min(0 if len(candidate) < 5 else 1 if len(candidate) < 9 else 2, least - 1)
        if allowed >= 0 and _within(plain, other, allowed):
            nearest, least = candidate, _distance(plain, other)
    return nearest


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


def _within(a: str, b: str, most: int) -> bool:
    """Whether at most so many letters differ; most names are told apart by their letters alone."""
    if a[:1] != b[:1] or abs(len(a) - len(b)) > most or len(set(a) ^ set(b)) > 2 * most:
        return False
    return _distance(a, b) <= most


def _distance(a: str, b: str) -> int:
    """Letters to put in, leave out, change, or exchange with the next (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        earlier, before, row = before, row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[j] = min(row[j], earlier[j - 2] + 1)
    return row[-1]
