"""The sources that tell how a model writes calls: what its template writes and tells the model, and its vocabulary."""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from .atoms import TAG, closes
from .description import CallForm, Members, Pairs, Region, Slot, Value

_OBJECT = re.compile(
    r'\{\s{0,40}"(?P<name>\w{0,20}name|function)"\s{0,9}:\s{0,9}(?P<value>[^{},\n]{1,80}),\s{0,40}'
    r'"(?P<arguments>(?!description"|type")\w{1,40})"\s{0,9}:[^\n}]{0,60}}{0,2}'
)
_LISTED = re.compile(r"\[[A-Za-z_]\w{0,60}\([A-Za-z_]\w{0,60}=[^\n\])]{0,60}[\])]{0,2}")
_TAGGED = re.compile(r"<[\w:]{0,20}(?:function=|invoke name=|function name=|parameter=|arg_key>)[^\n]{0,60}")
_MARK = re.compile(rf"(?P<mark>{TAG})?\s*(?:```\w*\s*)?(?P<list>\[)?\s*\Z")
_NEAR = 160
"""Characters before an example in which its mark stands."""
_TAG = re.compile(TAG)
_PYTHON = Pairs(values=(Value(before="=", reads="literal"),), separator=", ", python=True)


class Example(msgspec.Struct, frozen=True):
    """A call that a template shows to its model, as it stands there. ``form`` None: in tags, whose values it hides."""

    text: str
    form: CallForm | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A call as each source has it; empty where one is silent.

    ``history``: as the template writes it, ``instructions``: as it shows one to the model, ``vocabulary``: the control
    tokens that a family of models writes calls with.
    """

    history: str = ""
    instructions: str = ""
    vocabulary: tuple[str, ...] = ()


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
    return Example(found.group()) if found is not None else None


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
    """Whether calls of that form are of another kind than the example: an object, a list as in Python, tags."""
    shown = example.form
    if shown is None:
        return _kind(form) != "tags"
    if _kind(form) != _kind(shown):
        return True
    return not set(_marks(shown)) <= set(_marks(form))


def _marks(form: CallForm) -> list[str]:
    return _TAG.findall((form.section.open if form.section is not None else "") + form.open)


def _kind(form: CallForm) -> str:
    if form.members is not None or form.open.endswith('{"name": "'):
        return "object"
    return "list" if form.pairs is not None and not form.pairs.key else "tags"


_BEFORE = {"name": "NAME", "call_id": "ID", "index": "NUMBER"}


def spelled_call(form: CallForm) -> str:
    """A call of that form with an argument, the values by their names."""
    section = form.section or Region()
    head = "".join(_BEFORE[slot.reads] + slot.after for slot in form.head)
    return section.open + form.open + head + _arguments(form) + form.close + section.close


def _arguments(form: CallForm) -> str:
    if form.members is not None:
        name, arguments = form.members.name, form.members.arguments
        return f'{{"{name}": "NAME", "{arguments}": {{…}}}}' if name else '{"NAME": {…}}'
    if form.pairs is None:
        return "{…}"
    value = form.pairs.values[0]
    return f"{form.pairs.key}KEY{value.before}VALUE{value.after}"
