"""A description of replies from the text of a user's file. Reading the file is the caller's business."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from antiphon.errors import TemplateError, near
from antiphon.structs import ready

from . import CallForm, Pairs, ReplyDescription
from .description import MOST_LITERAL, has_long_literals
from .response_template import from_response_template

_HINT = "Its fields are those of a reply description, or of a response template of version 1."


def load_replies(text: str, kind: Literal["json", "toml"]) -> ReplyDescription:
    """The description that the text has: in its own fields, or as a response template, which is known by ``fields``.

    Raises `TemplateError` that names the key at which it is wrong.
    """
    try:
        value = json.loads(text) if kind == "json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"no {kind.upper()}: {error}", code="bad_replies", hint=_HINT) from None
    if isinstance(value, Mapping) and "fields" in value:
        return from_response_template(value)
    try:
        found = msgspec.convert(value, ready(ReplyDescription))
    except msgspec.ValidationError as error:
        raise TemplateError(str(error), code="bad_replies", hint=_HINT) from None
    if unknown := _unknown(value, msgspec.to_builtins(found), "$"):
        raise TemplateError(f"unknown key {unknown[0]!r}", code="bad_replies", hint=f"{unknown[1]} {_HINT}")
    if fault := _fault(found):
        raise TemplateError(fault, code="bad_replies", hint=_HINT)
    return found


def _unknown(given: Any, known: Any, path: str) -> tuple[str, str] | None:
    """The first key that a description does not have, and the names like it; None where it has them all."""
    if isinstance(given, Mapping):
        pairs = [(f"{path}.{key}", value, known.get(key)) for key, value in given.items()]
        wrong = [where for key, (where, _, _) in zip(given, pairs, strict=True) if key not in known]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        pairs = [(f"{path}[{i}]", value, known[i]) for i, value in enumerate(given)]
        wrong = []
    else:
        return None
    if wrong:
        return wrong[0], near(wrong[0].rpartition(".")[2], known)
    return next(filter(None, (_unknown(value, made, where) for where, value, made in pairs)), None)


def _fault(found: ReplyDescription) -> str:
    """Why a description of the right types describes nothing that can be read."""
    if has_long_literals(found):
        return f"a literal has more than {MOST_LITERAL} characters"
    faults = (
        _faults_of_regions(found),
        *(_faults_of_form(form, f"$.calls[{i}]") for i, form in enumerate(found.calls)),
    )
    return next((fault for each in faults for fault in each), "")


def _faults_of_regions(found: ReplyDescription) -> Iterator[str]:
    for name, region in (("reasoning", found.reasoning), ("content", found.content)):
        if region is not None and not (region.open.strip() or region.close.strip()):
            yield f"$.{name}: a region needs an open or a close that is more than blanks"
    for name, texts in (("layout", found.layout), ("ends", found.ends)):
        yield from (f"$.{name}[{i}]: a text is needed" for i, text in enumerate(texts) if not text.strip())


def _faults_of_form(form: CallForm, path: str) -> Iterator[str]:
    if form.members is None and not any(slot.reads == "name" or slot.pattern for slot in form.head):
        yield f"{path}: without members it needs a head that reads the name"
    if form.members is None and not (form.open.strip() or (form.section and form.section.open.strip())):
        yield f"{path}: a name in markup needs an open, or a section with one"
    if form.pairs is not None:
        yield from _faults_of_pairs(form.pairs, f"{path}.pairs")


def _faults_of_pairs(pairs: Pairs, path: str) -> Iterator[str]:
    if not pairs.values:
        yield f"{path}.values: one at least is needed"
    for i, value in enumerate(pairs.values):
        if not value.before:
            yield f"{path}.values[{i}].before: what parts a key from its value is needed"
        if not value.after and value.reads != "literal":
            yield f"{path}.values[{i}].after: what ends a value is needed, but for a literal"
        if value.reads == "nested" and not (pairs.key.strip() and "{key}" in value.after):
            yield f"{path}.values[{i}]: nested values need a key's literal, and {{key}} in what ends them"
