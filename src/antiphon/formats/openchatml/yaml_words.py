"""What the YAML library reports about a header, in words that say what to mend."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

WORDS = (
    (
        "expected ',' or ']'",
        "a list in [ ] is not closed, or a comma lacks in it",
        "Write [a, b]; quote words with [ ] { } , : # in them.",
    ),
    (
        "expected ',' or '}'",
        "a mapping in { } is not closed, or a comma lacks in it",
        "Write {key: value, other: value}.",
    ),
    ("could not find expected ':'", "a key has no colon behind it", "Write key: value, one to a line."),
    (
        "mapping values are not allowed",
        "there is a second colon in a value, or a key is indented too far",
        'Quote a value that has ": " in it.',
    ),
    (
        "cannot start any token",
        "a value begins with a character that YAML reserves, or with a tab",
        "Quote the value; indent with spaces, not tabs.",
    ),
    ("tab character", "a tab stands where the indentation needs spaces", "Indent with spaces."),
    ("unexpected end of stream", "a quotation mark is not closed", 'Close it with the same mark: "…".'),
    ("unexpected document indicator", "a quotation mark is not closed", 'Close it with the same mark: "…".'),
    (
        "unknown escape character",
        "there is an unknown escape behind a backslash",
        r'In "…" a backslash is written \\; in ' "'…' it is itself.",
    ),
    ("hexdecimal number", "an escape behind a backslash is not finished", r'In "…" a backslash is written \\.'),
    (
        "did not find expected key",
        "a line does not fit the indentation of those above it",
        "Keys of one mapping begin in one column.",
    ),
    (
        "'-' indicator",
        "a line does not fit the list above it",
        "The items of one list begin in one column, each with a dash.",
    ),
    ("block sequence entries", "a list begins where no list may stand", "A list begins on the line below its key."),
    ("<document start>", "the header goes on where YAML ends", "A header is one mapping: key: value, one to a line."),
    (
        "expected a single document",
        "the header has two YAML documents",
        "Only one --- opens the header, and one closes it.",
    ),
    ("node content", "a value lacks", "Write a value behind the colon, the dash or the comma."),
    ("alphabetic or numeric", "an anchor or an alias has no name", "Quote a value that begins with & or *."),
    ("directive", "a line begins with %, which YAML reserves", "Quote a value that begins with %."),
    ("block scalar", "a text block (| or >) is malformed", "Its lines are indented by spaces, deeper than its key."),
    ("simple key", "a key is too long, or not on one line", "Write key: value, one to a line."),
)
"""A part of the library's message, what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """What is wrong with a header, in which line and column of it (both from 0), and what to do."""

    message: str
    line: int
    column: int
    hint: str | None = None


def yaml_problem(error: yaml.MarkedYAMLError, text: str) -> YamlProblem:
    """The library's error in our words, at a place in ``text`` that is no blank."""
    problem = " ".join(part for part in (error.context, error.problem) if part)
    known = next(((message, hint) for part, message, hint in WORDS if part in problem), None)
    message, hint = known or (error.problem or error.context or "the YAML is malformed", None)
    marks = [mark for mark in (error.problem_mark, error.context_mark) if mark is not None]
    last = len(text.rstrip().splitlines()) - 1
    mark = next((mark for mark in marks if mark.line <= last), None)
    if mark is not None:
        return YamlProblem(message, mark.line, mark.column, hint)
    return YamlProblem(message, max(last, 0), _first_word(text, last), hint)


def _first_word(text: str, line: int) -> int:
    if line < 0:
        return 0
    found = re.search(r"\S", text.rstrip().splitlines()[line])
    return found.start() if found else 0
