"""Finds how a model writes its replies, and says where that is from and what of it is proven."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from antiphon.tokens import Control

from .atoms import TAG, Atoms, closes
from .derive import derive
from .description import (
    PLAIN,
    CallForm,
    Members,
    Pairs,
    Region,
    ReplyDescription,
    Slot,
    Value,
    has_long_literals,
    spelled_call,
)
from .probe import NAMES, Probe, Render
from .proof import Cuts, Proof, prove

# Ways of writing replies that are known by name, for what a template does not say: rows of ``families.json``.

_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "reasoning": lambda value: Region(**value),
    "content": lambda value: Region(**value),
    "section": lambda value: Region(**value),
    "members": lambda value: Members(**value),
    "head": lambda value: tuple(Slot(**slot) for slot in value),
    "pairs": lambda value: Pairs(**_values(value)),
    "values": lambda value: tuple(Value(**each) for each in value),
    "layout": tuple,
    "ends": tuple,
}


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """``markers``: the template's text has all of them, or one of ``either``, and none of ``unless``.

    ``fills``: what such replies have besides calls; ``calls``: their forms, the family's own first.
    """

    name: str
    markers: tuple[str, ...]
    either: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    fills: ReplyDescription = msgspec.field(default_factory=ReplyDescription)
    calls: tuple[CallForm, ...] = ()

    def fits(self, source: str, spellings: Collection[str] = ()) -> bool:
        """``spellings``: of the vocabulary, which may have markers beside those that the template's text has."""
        here = [marker in source for marker in self.markers]
        marked = any(here) and all(each or marker in spellings for each, marker in zip(here, self.markers, strict=True))
        either = any(marker in source for marker in self.either)
        return (marked or either) and not any(marker in source for marker in self.unless)


def families_of(source: str, spellings: Collection[str] = ()) -> Iterator[Family]:
    """The families that a template may be of, by the markers in its text and in the vocabulary."""
    return (family for family in _families() if family.fits(source, spellings))


def trained_calls(found: Found, spellings: Collection[str]) -> Found:
    """The description with the calls of the families that its vocabulary is of, behind its own."""
    own = [_beginning(form) for form in found.description.calls]
    forms = [form for family in families_in(spellings) for form in family.calls]
    added = [form for form in forms if not form.bare and _beginning(form) not in own]
    if not added:
        return found
    notice = f"calls are read too as the vocabulary has them: {', '.join(found.evidence.vocabulary)}"
    description = replace(found.description, calls=(*found.description.calls, *added))
    return replace(found, description=description, warnings=(*found.warnings, notice))


def families_in(spellings: Collection[str]) -> list[Family]:
    """The families with calls whose markers are control tokens of a vocabulary: its model was trained on these."""
    return [
        family
        for family in _families()
        if family.calls and set(family.markers) <= set(spellings) and not set(family.unless) & set(spellings)
    ]


def family_named(name: str) -> Family:
    """The family of that name. Raises KeyError for one that is not in the table."""
    return {family.name: family for family in _families()}[name]


def completed(found: ReplyDescription, family: Family) -> ReplyDescription:
    """A description with what the family knows beyond it; its other forms of calls are only read.

    Of forms that nothing marks, only where the template's own is one: else an answer that begins so would be a call.
    """
    known = family.fills
    marked, bare = [_beginning(form) for form in found.calls], any(form.bare for form in found.calls)
    added = tuple(form for form in family.calls if (bare or not form.bare) and _beginning(form) not in marked)
    return replace(
        found,
        reasoning=found.reasoning or known.reasoning,
        content=found.content or known.content,
        calls=(*found.calls, *added) if found.calls else family.calls,
        layout=tuple(dict.fromkeys((*found.layout, *known.layout))),
        ends=tuple(dict.fromkeys((*found.ends, *known.ends))),
    )


def whole(found: ReplyDescription, family: Family) -> ReplyDescription:
    """The family's own description, with the anchor and the ends that were found."""
    known = family.fills
    return ReplyDescription(
        anchor=found.anchor,
        reasoning=known.reasoning or found.reasoning,
        content=known.content,
        calls=family.calls,
        layout=known.layout,
        ends=found.ends or known.ends,
    )


def _beginning(form: CallForm) -> tuple[str, str, bool, int]:
    section = form.section.open.strip().rstrip("[") if form.section is not None else ""
    return section, form.open.strip(), form.members is not None, len(form.head)


@cache
def _families() -> tuple[Family, ...]:
    rows = json.loads(files(__package__).joinpath("families.json").read_text("utf-8"))
    return tuple(_family(row) for row in rows)


def _family(row: Mapping[str, Any]) -> Family:
    return Family(
        name=row["name"],
        markers=tuple(row["markers"]),
        either=tuple(row.get("or", ())),
        unless=tuple(row.get("unless", ())),
        fills=ReplyDescription(**_values(row.get("fills", {}))),
        calls=tuple(CallForm(**_values(form)) for form in row.get("calls", ())),
    )


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _PARTS[key](value) if key in _PARTS else value for key, value in row.items()}


# What tells how a model writes calls beside its history: the example that it is shown, and its vocabulary.

_OBJECT = re.compile(
    r'\{\s{0,40}"(?P<name>\w{0,20}name|function)"\s{0,9}:\s{0,9}(?P<value>[^{},\n]{1,80}),\s{0,40}'
    r'"(?P<arguments>(?!description"|type")\w{1,40})"\s{0,9}:[^\n}]{0,60}}{0,2}'
)
_LISTED = re.compile(r"\[[A-Za-z_]\w{0,60}\([A-Za-z_]\w{0,60}=[^\n\])]{0,60}[\])]{0,2}")
_TAGGED = re.compile(r"(<[\w:]{0,20}(?:function=|invoke name=|function name=|parameter=|arg_key>))[^\n]{0,60}")
_MARK = re.compile(rf"(?P<mark>{TAG})?\s*(?:```\w*\s*)?(?P<list>\[)?\s*\Z")
_NEAR = 160
"""Characters before an example in which its mark stands."""
_TAG = re.compile(TAG)
_PYTHON = Pairs(values=(Value(before="=", reads="literal"),), separator=", ", python=True)


class Example(msgspec.Struct, frozen=True):
    """A call that a template shows to its model, as it is there. ``form`` None: in tags that begin as ``tag``."""

    text: str
    form: CallForm | None = None
    tag: str = ""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A call as each source has it; empty where one is silent.

    ``history``: as the template writes it, ``instructions``: as it shows one to the model, ``vocabulary``: the control
    tokens that a family of models writes calls with. ``unread``: calls as the instructions show them are not read.
    """

    history: str = ""
    instructions: str = ""
    vocabulary: tuple[str, ...] = ()
    unread: bool = False


def example_in(instructions: str, offered: str) -> Example | None:
    """The first example of a call in a prompt. ``offered``: the beginning of the offered tools' names."""
    objects = (found for found in _OBJECT.finditer(instructions) if offered not in found["value"])
    if (found := next(objects, None)) is not None:
        members = Members(name=found["name"], arguments=found["arguments"])
        return _marked(instructions, found, CallForm(members=members, separator=", "))
    if (found := _LISTED.search(instructions)) is not None:
        head = (Slot(reads="name", after="("),)
        return _marked(instructions, found, CallForm(close=")", separator=", ", head=head, pairs=_PYTHON))
    found = _TAGGED.search(instructions)
    return Example(found.group(), tag=found[1]) if found is not None else None


def _marked(text: str, found: re.Match[str], form: CallForm) -> Example:
    """The example with the mark before it and the one that closes that, round a list of calls or one of them."""
    before = _MARK.search(text, max(0, found.start() - _NEAR), found.start())
    mark, bracket = (before["mark"] or "", before["list"]) if before is not None else ("", None)
    close = next((tag for tag in _TAG.findall(text, found.start()) if tag != mark and closes(mark, tag)), "")
    if form.pairs is not None or bracket:
        form = replace(form, section=Region(open=f"{mark}[", close=f"]{close}"))
    else:
        form = replace(form, open=mark, close=close, separator="\n")
    return Example(text[before.start() if before is not None and mark else found.start() : found.end()], form)


def contradicts(form: CallForm, example: Example) -> bool:
    """Whether calls of that form are of another kind than the example: objects, lists of them or of Python, tags."""
    shown = example.form
    if shown is None:
        return _kind(form) != "tags" or not any(example.tag in literal for literal in form.literals)
    if _kind(form) != _kind(shown) or (shown.section is not None and "[" not in (form.section or Region()).open):
        return True
    opens = [(each.section.open if each.section is not None else "") + each.open for each in (shown, form)]
    return not set(_TAG.findall(opens[0])) <= set(_TAG.findall(opens[1]))


def _kind(form: CallForm) -> str:
    if form.members is not None or form.open.endswith('{"name": "'):
        return "object"
    return "list" if form.pairs is not None and not form.pairs.key else "tags"


Origin = Literal["configured", "response_template", "derived", "family", "harmony", "raw"]
_ORIGINS = {
    "configured": "your own description",
    "response_template": "the response template of the model's files",
    "derived": "the chat template, from which it was derived",
    "family": "the table of families",
    "harmony": "Harmony, which the template writes",
    "raw": "nothing: replies are raw text",
}
_MOST_CANDIDATES = 5


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A model's replies. ``families``: the rows of the table that had a part in it. ``warnings``: sentences on what is
    not understood, or not read back as it is written."""

    description: ReplyDescription
    origin: Origin
    proof: Proof = msgspec.field(default_factory=Proof)
    families: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    taught: bool = False
    """Calls are not the model's own: prompts teach their form."""
    evidence: Evidence = Evidence()


class _Candidate(msgspec.Struct, frozen=True):
    description: ReplyDescription
    families: tuple[str, ...] = ()
    origin: Origin = "derived"


def describe(
    render: Render,
    source: str,
    *,
    controls: Collection[Control] = (),
    variables: Collection[str] = (),
    configured: ReplyDescription | None = None,
    response_template: ReplyDescription | None = None,
    cuts: Cuts = "sampled",
) -> Found:
    """Finds a description: the operator's, the model files', else the template's, completed by families.

    ``variables``: those that the template reads, of which some turn reasoning on. The first candidate that is proven in
    full is taken, else the one that proves most.
    """
    probe = Probe(render, variables)
    spellings = [control.spelling for control in controls]
    derived = derive(probe, Atoms(spellings), source)
    example = example_in(probe.instructions(), NAMES[0][:-1])
    given = _given(configured, response_template)
    best: tuple[int, _Candidate, Proof] | None = None
    for candidate in [given] if given else list(_candidates(derived, source, spellings, example))[:_MOST_CANDIDATES]:
        if has_long_literals(candidate.description):
            continue
        proof = prove(candidate.description, probe, controls, cuts=cuts)
        if best is None or _worth(proof) > best[0]:
            best = _worth(proof), candidate, proof
        if proof.complete:
            break
    if best is None or best[1].description == PLAIN:
        return Found(description=PLAIN, origin="raw", warnings=("the template says nothing of replies that is known",))
    found = _found(best[1], best[2])
    evidence = Evidence(
        history=spelled_call(derived.calls[0]) if derived.calls else "",
        instructions=example.text if example is not None else "",
        vocabulary=tuple(dict.fromkeys(marker for family in families_in(spellings) for marker in family.markers)),
        unread=example is not None and all(contradicts(form, example) for form in found.description.calls),
    )
    if example is None or not derived.calls or not contradicts(derived.calls[0], example):
        return replace(found, evidence=evidence)
    both = "the latter alone is read" if evidence.unread else "both are read"
    notice = f"the template shows calls as {example.text!r} and writes them as {evidence.history!r}: {both}"
    return replace(found, evidence=evidence, warnings=(*found.warnings, notice))


class DescriptionCache:
    """Descriptions by the template's text and the vocabulary's controls; drops the least recently used first."""

    def __init__(self, capacity: int = 32) -> None:
        self._capacity = capacity
        self._found: dict[str, Found] = {}

    def get(self, source: str, controls: Collection[Control], find: Callable[[], Found]) -> Found:
        """Returns the cached description, or caches the one that ``find`` makes."""
        spelled = "\0".join((source, *sorted(control.spelling for control in controls)))
        key = hashlib.sha256(spelled.encode("utf-8", "surrogatepass")).hexdigest()
        found = self._found.pop(key, None) or find()
        self._found[key] = found
        while len(self._found) > self._capacity:
            self._found.pop(next(iter(self._found)), None)
        return found


def _given(configured: ReplyDescription | None, response_template: ReplyDescription | None) -> _Candidate | None:
    if configured is not None:
        return _Candidate(configured, origin="configured")
    return _Candidate(response_template, origin="response_template") if response_template is not None else None


def _candidates(
    derived: ReplyDescription, source: str, spellings: Collection[str], example: Example | None
) -> Iterator[_Candidate]:
    """Yields the derived description completed, with the form of an example that contradicts it first; as it is; and
    each family's own."""
    families = list(families_of(source, spellings))
    filled, names = derived, list[str]()
    for family in families:
        more = completed(filled, family)
        names += [family.name] if more != filled else []
        filled = more
    found = bool(derived.calls or derived.reasoning or derived.content)
    origin: Origin = "derived" if found or not names else "family"
    if example is not None and all(contradicts(form, example) for form in filled.calls[:1]):
        begun = list(map(_beginning, filled.calls))
        shown = [form for form in (example.form,) if form is not None and _beginning(form) not in begun]
        yield _Candidate(replace(filled, calls=(*filled.calls, *shown)), tuple(names), origin)
    yield _Candidate(filled, tuple(names), origin)
    if names:
        yield _Candidate(derived)
    for family in families:
        if family.calls:
            yield _Candidate(whole(derived, family), (family.name,), "family")


def _worth(proof: Proof) -> int:
    return len(proof.proven) - len(proof.failed)


def _found(candidate: _Candidate, proof: Proof) -> Found:
    """Drops calls that are not read back, with a warning: a model claims only forms that are proven."""
    description = candidate.description
    warnings = [_not_read_back(proof.failures)] if proof.failed else []
    if proof.habits.unclosed:
        warnings.append("a thought is opened before an answer without one and not closed: both are written alike")
    if {"call", "one_argument"} <= {*proof.failures} and candidate.origin in ("derived", "family"):
        description = replace(description, calls=())
        warnings.append("calls are not understood, so none are read")
    elif not description.calls and "call" in proof.failures:
        warnings.append("calls are written in a way that is not understood")
    elif description.calls and "call" in proof.unwritten and candidate.origin in ("derived", "family"):
        names = ", ".join(candidate.families)
        source = f"the family ({names})" if names else "an example that the template shows"
        warnings.append(f"calls are known by {source} and not proven: the template writes none")
    return Found(
        description=description,
        origin=candidate.origin,
        proof=proof,
        families=candidate.families,
        warnings=tuple(warnings),
    )


def _not_read_back(shapes: Sequence[str]) -> str:
    if len(shapes) == 1:
        return f"{shapes[0]} is not read back as it is written"
    return f"{', '.join(shapes[:-1])} and {shapes[-1]} are not read back as they are written"


def origin_words(found: Found) -> str:
    """The source of a description, in words."""
    families = f" ({', '.join(found.families)})" if found.families else ""
    return _ORIGINS[found.origin] + families
