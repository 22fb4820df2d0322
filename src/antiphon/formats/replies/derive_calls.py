"""Derives how calls are written: one JSON value, a name in markup, or arguments in markup too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from .atoms import Atoms, closes
from .description import CallForm, Pairs, Region, Value
from .probe import Call, Head, What, Written, called, head_of, located, members_of, slots_of

# Derives how arguments are written as keys and values.

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
    """The quote round strings and not round numbers, and the text that then stands before every value."""
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


_NUMBERED = re.compile(r"(\d{1,9})(\D{0,40})\Z")
_IDS_BEFORE = ('id="', "id='", "id=", "id:")

Write = Callable[[tuple[Call, ...]], str]
"""The text of a reply with these calls, behind the prompt's anchor; empty where the template refuses."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The reply round the calls. ``lead`` takes off what stands before any call (empty reasoning, an
    empty answer), ``tail`` what ends the reply: it gives what is before that, and whether there was an end."""

    lead: Callable[[str], str]
    tail: Callable[[str], tuple[str, bool]]


def derive_form(write: Write, around: Surroundings, atoms: Atoms) -> tuple[CallForm, str] | None:
    """The form, and what follows the last call; None where the template writes no calls."""
    return _FormProbe(write, around, atoms).form()


class _FormProbe:
    def __init__(self, write: Write, around: Surroundings, atoms: Atoms) -> None:
        self._write = write
        self._around = around
        self._atoms = atoms
        self._one = write(called())
        self._calls = called()
        self._text = self._one

    def form(self) -> tuple[CallForm, str] | None:
        if "zqva" not in self._one:
            return None
        first = self._located(self._one, self._calls)
        if not first:
            return None
        for count in (3, 2):
            self._calls = called(count)
            self._text = self._write(self._calls)
            if all(call.arguments.keys() <= set(re.findall("zqk[abc]", self._text)) for call in self._calls):
                break
        else:
            self._calls, self._text = called(), self._one
        written = self._located(self._text, self._calls)
        if len(written) != len(self._calls):
            self._calls, self._text, written = called(), self._one, first
        one = written[0]
        if one.arguments is None:
            return self._pairs_form(written)
        if one.value is not None and one.arguments[0] <= one.start:
            return self._round(written, CallForm(members=members_of(self._calls[0], [each.value for each in written])))
        return self._headed(written, [self._head(one, call) for one, call in zip(written, self._calls, strict=True)])

    def _headed(self, written: list[Written], heads: list[Head], pairs: Pairs | None = None) -> tuple[CallForm, str]:
        """The form of calls with a head before their arguments, and the text behind the last of them."""
        written, heads = self._with_counts(written, heads)
        written, id_behind = self._with_late_ids(written, heads)
        form, tail = self._round(written, CallForm(pairs=pairs, id_behind=id_behind))
        slots, prefix = slots_of(heads, form.open)
        return replace(form, head=slots, open=form.open[: len(form.open) - len(prefix)]), tail

    def _located(self, text: str, calls: tuple[Call, ...]) -> list[Written]:
        """The calls in the text, in order; nothing where one is missing."""
        found: list[Written] = []
        for call in calls:
            one = located(text, call, found[-1].end if found else 0)
            if one is None:
                return []
            found.append(one)
        return found

    def _head(self, one: Written, call: Call) -> Head:
        """The values before the arguments, each with the text behind it."""
        start, stop = one.start, one.arguments[0] if one.arguments else one.end
        return head_of(self._text[start:stop], call)

    def _pairs_form(self, written: list[Written]) -> tuple[CallForm, str] | None:
        found = derive_pairs(PairsProbe(self._write, self._atoms))
        if found is None:
            return None
        heads, ends = list[Head](), list[Written]()
        for one, call in zip(written, self._calls, strict=True):
            heads.append(head_of(self._text[one.start : one.end].partition(next(iter(call.arguments)))[0], call))
            ends.append(replace(one, end=one.end + found.behind(self._text[one.end :], call)))
        form, tail = self._headed(ends, heads, found.pairs)
        return self._without_arguments(form, found.key), tail

    def _with_counts(self, written: list[Written], heads: list[Head]) -> tuple[list[Written], list[Head]]:
        """Calls that begin with their number, or with an id that is one, where the text before each ends so."""
        starts = [0, *(one.end for one in written)]
        before = [self._text[start : one.start] for start, one in zip(starts, written, strict=False)]
        found = [_NUMBERED.search(text) for text in before]
        numbers = [int(each.group(1)) for each in found if each is not None]
        behind = {each.group(2) for each in found if each is not None}
        if len(numbers) < 2 or len(numbers) < len(before) or len(behind) > 1 or numbers[1] != numbers[0] + 1:
            return written, heads
        what: What = "call_id" if before[0][: found[0].start() if found[0] else 0].endswith(_IDS_BEFORE) else "index"
        moved = [
            replace(one, start=one.start - len(f"{number}{next(iter(behind))}"))
            for one, number in zip(written, numbers, strict=True)
        ]
        return moved, [[(what, next(iter(behind))), *head] for head in heads]

    def _with_late_ids(self, written: list[Written], heads: list[Head]) -> tuple[list[Written], str]:
        """Calls up to their ids, where these come behind the arguments, and what stands before each id."""
        stops = [*(one.start for one in written[1:]), len(self._text)]
        places = [
            self._text.find(call.call_id, one.end, stop)
            for one, call, stop in zip(written, self._calls, stops, strict=True)
        ]
        before = {self._text[one.end : at] for one, at in zip(written, places, strict=True)}
        if (
            min(places) < 0
            or len(before) > 1
            or not "".join(before).strip()
            or any(h[0] == "call_id" for h in heads[0])
        ):
            return written, ""
        ends = [at + len(call.call_id) for at, call in zip(places, self._calls, strict=True)]
        return [replace(one, end=end) for one, end in zip(written, ends, strict=True)], before.pop()

    def _without_arguments(self, form: CallForm, key: str) -> CallForm:
        """The key's opening off the head's end, and blanks where a call without arguments has them."""
        *before, last = form.head
        last = replace(last, after=last.after[: len(last.after) - len(key)] if key else last.after)
        form = replace(form, head=(*before, last))
        pairs = form.pairs
        if pairs is None or not pairs.key:
            return form
        none = self._write(called(1, {}))
        value = pairs.values[0]
        core = value.after.rstrip()
        blanks = value.after[len(core) :]
        if blanks and last.after + form.close not in none and last.after + blanks + form.close in none:
            values = tuple(replace(each, after=each.after.rstrip()) for each in pairs.values)
            pairs = replace(pairs, values=values, separator=blanks + pairs.separator)
            return replace(form, close=blanks + form.close, pairs=pairs)
        return form

    def _round(self, written: list[Written], form: CallForm) -> tuple[CallForm, str]:
        """The form with what stands round each call and all of them."""
        before = self._around.lead(self._text[: written[0].start])
        behind = self._text[written[-1].end :]
        last, ended = self._around.tail(behind)
        between = [self._text[one.end : two.start] for one, two in pairwise(written)]
        if not between:
            return replace(form, open=before, close=last if ended else self._own_close(last)), behind
        opening = self._atoms.suffix([before, *between]).lstrip()
        closing = self._atoms.prefix([*between, last]).rstrip()
        closing = closing[: max(0, min(map(len, between)) - len(opening))].rstrip()
        separator = between[0][len(closing) : len(between[0]) - len(opening)]
        head, foot = before[: len(before) - len(opening)], last[len(closing) :]
        if not ended:
            foot = self._without_end(foot, head + opening)
        section = Region(open=head, close=foot) if head.strip() else None
        return replace(form, open=opening, close=closing, separator=separator, section=section), behind[
            len(closing + foot) :
        ]

    def _own_close(self, text: str) -> str:
        """Behind a single call, where nothing says what ends the reply: its last tag does, if there are several."""
        return self._without_end(text, "") if len(self._atoms.tags(text)) > 1 else text

    def _without_end(self, text: str, opening: str) -> str:
        """The text without its last tag, unless that closes what was opened."""
        tags = self._atoms.tags(text)
        if not tags or any(closes(tag, tags[-1]) for tag in self._atoms.tags(opening)):
            return text.rstrip()
        return text.rpartition(tags[-1])[0].rstrip()
