"""Derives how arguments are written as keys and values."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from .atoms import Atoms
from .description import Pairs, Value
from .probe import Call, called

SAMPLES = {
    "zqka": "zqva",
    "zqkb": 417,
    "zqkc": 2.75,
    "zqkd": True,
    "zqke": None,
    "zqkf": [418, "zqvf"],
    "zqkg": {"zqin": "zqvg"},
    "zqkh": "a<zqvh&b\n'c",
    "zqki": "zqvi",
}
"""A value of each kind, and a string that some templates wrap or escape."""


class PairsProbe(msgspec.Struct, frozen=True):
    write: Callable[[tuple[Call, ...]], str]
    atoms: Atoms


class WrittenPairs(msgspec.Struct, frozen=True, kw_only=True):
    """``quote`` stands round strings in a literal; ``key`` before each key, with its blanks."""

    pairs: Pairs
    quote: str
    key: str

    def behind(self, text: str, call: Call) -> int:
        """How much of the text behind a call's last string belongs to that."""
        after = self.quote + self.pairs.values[0].after.replace("{key}", list(call.arguments)[-1])
        return len(after) if text.startswith(after) else len(self.quote)


def derive_pairs(probe: PairsProbe) -> WrittenPairs | None:
    """The pairs; None where two arguments are not written one after the other."""
    text = probe.write(called(1, {"zqka": "zqva", "zqkb": "zqvb"}))
    places = _in_order(text, ["zqka", "zqva", "zqkb", "zqvb"])
    if places is None:
        return None
    name = max(text.rfind("zqfna", 0, places[0]), text.rfind("zqid00001", 0, places[0]))
    head = text[name : places[0]]
    before = text[places[0] + 4 : places[1]]
    between, behind = text[places[1] + 4 : places[2]], text[places[3] + 4 :]
    quote, base = _quoting(probe, before, between)
    literal = base is not None
    between, behind = between.removeprefix(quote), behind.removeprefix(quote)
    key = probe.atoms.suffix([head, between.replace("zqka", "{key}")]).lstrip()
    gap = between[: len(between) - len(key)].replace("zqka", "{key}")
    after = "" if literal else probe.atoms.prefix([gap, behind.replace("zqkb", "{key}")])
    separator = gap[len(after) :]
    first = Value(before=base if base is not None else before, after=after, reads="literal" if literal else "schema")
    if not key and first.after in ("", '"', "'"):
        assigns, quote = first.before.removesuffix(first.after), quote or first.after
        first, separator = Value(before=assigns, reads="literal"), separator or ", "
    odd = quote if quote not in ("'", '"') else ""
    pairs = Pairs(key=key, values=(first,), separator=separator, quote=odd)
    return WrittenPairs(pairs=_with_kinds(probe, pairs, gap + key), quote=quote, key=key)


def _in_order(text: str, words: list[str]) -> list[int] | None:
    places: list[int] = []
    for word in words:
        at = text.find(word, places[-1] if places else 0)
        if at < 0:
            return None
        places.append(at)
    return places


def _quoting(probe: PairsProbe, before: str, between: str) -> tuple[str, str | None]:
    """What stands round strings and not round numbers, and what then stands before every value."""
    text = probe.write(called(1, {"zqka": 417, "zqkb": "zqvb"}))
    places = _in_order(text, ["zqka", "417", "zqkb"])
    if places is None:
        return "", None
    number, gap = text[places[0] + 4 : places[1]], text[places[1] + 3 : places[2]]
    quote = before.removeprefix(number) if before.startswith(number) else ""
    return (quote, number) if quote and between == quote + gap else ("", None)


def _with_kinds(probe: PairsProbe, pairs: Pairs, gap: str) -> Pairs:
    """The forms of values of other kinds than a plain string, and whether they are Python's."""
    text = probe.write(called(1, SAMPLES))
    keys = [key for key in SAMPLES if key in text]
    places = _in_order(text, keys)
    if places is None:
        return pairs
    first = pairs.values[0]
    found: dict[str, Value] = {}
    python = False
    for key, start, stop in zip(keys, places, places[1:], strict=False):
        written = text[start + len(key) : stop]
        core = written.removesuffix(gap.replace("{key}", key))
        python = python or (SAMPLES[key] is True and core.endswith("True"))
        value = _value_of(SAMPLES[key], core, first)
        if value is not None and value.before != first.before:
            found.setdefault(value.before, value)
    nested = f"zqin{first.before}" in text and "{key}" in first.after
    kinds = _typed(first, found, nested=nested)
    return replace(pairs, values=kinds, python=python)


def _typed(first: Value, found: dict[str, Value], *, nested: bool) -> tuple[Value, ...]:
    """The first form with the others. Where others are JSON, the first is a string's."""
    if first.reads == "literal":
        return (first,)
    if nested:
        return (replace(first, reads="nested"),)
    if any(value.reads == "json" for value in found.values()):
        first = replace(first, reads="text")
    return (first, *found.values())


def _value_of(sample: object, written: str, first: Value) -> Value | None:
    """How one value is written, where it is written otherwise than a plain string."""
    if written.startswith(first.before) and not (
        isinstance(sample, str) and sample in written[len(first.before) + 1 :]
    ):
        return None
    spelled = (sample,) if isinstance(sample, str) else (json.dumps(sample), str(sample))
    for text in spelled:
        before, found, behind = written.rpartition(text)
        if found and isinstance(sample, str):
            return Value(before=before, after=behind + first.after)
        if found and not behind:
            return Value(before=before, after=first.after, reads="json")
    return None
