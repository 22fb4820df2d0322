"""Other names of models: a word, or a pattern of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def goes_by(alias: str, name: str) -> bool:
    """Whether ``name`` is the alias, or one of those that it stands for: ``claude-*`` is every name that begins so."""
    first, *others = alias.split("*")
    if not others:
        return name == alias
    *middle, last = others
    if not name.startswith(first):
        return False
    place = len(first)
    for part in middle:
        found = name.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return len(name) - len(last) >= place and name.endswith(last)


def named_by(name: str, aliases: Mapping[str, Iterable[str]]) -> str | None:
    """The model with an alias that is ``name``, else with the longest pattern that it fits; None: there is none."""
    found = [(alias, own) for own, given in aliases.items() for alias in given if goes_by(alias, name)]
    if not found:
        return None
    return max(found, key=lambda one: (one[0] == name, len(one[0].replace("*", ""))))[1]
