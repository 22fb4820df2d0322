"""A transcript's YAML header as text (§2): where it ends, and read under limits."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from antiphon.errors.place import Place

from .document import DocumentHeader
from .finding import E_HEADER, Finding, RuleName
from .spelling import BLANK, START
from .yaml_words import yaml_problem

MAX_HEADER = 65_536
"""Characters of YAML that a header may have."""
MAX_DEPTH = 16
"""Levels of nesting that a header may have."""

_FENCE = re.compile(rf"[{BLANK}]*---[ \t]*\r?\n")
_CLOSE = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?(\n|\Z)", re.MULTILINE)
_FRAME = re.compile("^" + re.escape(START.spelling), re.MULTILINE)
_FRAME_FIRST = re.compile(rf"[{BLANK}]*{re.escape(START.spelling)}")


class HeaderScanner:
    """Collects a transcript's first characters until it is known where its frames begin.

    That is behind a closing fence, or at the first line that begins with ``<|start|>`` (the header may name the
    controls elsewhere in a line). ``frames_at`` is where the frames begin, ``yaml_end`` where the header's text ends;
    ``overlong``: the header does not end within `MAX_HEADER` characters.
    """

    def __init__(self) -> None:
        self.text = ""
        self.bom = ""
        self.frames_at: int | None = None
        self.yaml_end = 0
        self.overlong = False
        self._searched = 0

    def feed(self, text: str, *, last: bool = False) -> bool:
        """Whether the frames are reached; more text is needed when not."""
        if not self.text and not self.bom and text.startswith("\ufeff"):
            self.bom, text = "\ufeff", text[1:]
        self.text += text
        self._search(last)
        self._searched = self.text.rfind("\n") + 1
        if self.frames_at is None and last:
            self.frames_at = self.yaml_end = len(self.text)
        self.overlong = (len(self.text) if self.frames_at is None else self.frames_at) > MAX_HEADER
        return self.frames_at is not None or self.overlong

    def _search(self, last: bool) -> None:
        frame = _FRAME_FIRST.match(self.text) or _FRAME.search(self.text, self._searched)
        if frame:
            self.frames_at = self.yaml_end = frame.end() - len(START.spelling)
        fence = _FENCE.match(self.text)
        if fence is None:
            return
        limit = len(self.text) if self.frames_at is None else self.frames_at
        close = _CLOSE.search(self.text, max(fence.end(), self._searched), limit)
        if close and (close.group(1) or last):
            self.frames_at, self.yaml_end = close.end(), close.start()


def frames_behind(text: str) -> int:
    """Where the frames begin in a text whose header is overlong; -1 when it has none."""
    at = text.find(f"\n{START}")
    return at + 1 if at >= 0 else -1


class _FormError(yaml.MarkedYAMLError):
    """YAML that is well-formed, and has no place in a header."""


class _PlainLoader(yaml.CSafeLoader):
    """Plain data only: duplicate keys are refused; dates, ``<<`` and ``=`` stay text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen if isinstance(key, yaml.ScalarNode) else True:
                problem = (
                    f"the key {key.value!r} stands twice" if isinstance(key, yaml.ScalarNode) else "a key is no word"
                )
                raise _FormError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=True)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":merge", ":value"))]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_header(text: str, start: Place) -> DocumentHeader | Finding:
    """The header that ``text`` is, without its closing fence; ``start`` is its place in the transcript."""
    try:
        _check_shape(text)
        loader = _PlainLoader(text)
        try:
            node = loader.get_single_node()
            fields = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        wrong = yaml_problem(error, text)
        rule: RuleName = "header-form" if isinstance(error, _FormError) else "header-yaml"
        return _finding(rule, wrong.message, text, start, wrong.line, wrong.column, wrong.hint)
    except (yaml.YAMLError, ValueError) as error:
        return _finding("header-yaml", f"the YAML is malformed: {error}".splitlines()[0], text, start)
    if not isinstance(fields, dict) or node is None:
        return _finding("header-form", "the header is not a mapping of keys", text, start)
    return _with_version(fields, node, text, start)


def _check_shape(text: str) -> None:
    """Refuses, before anything is built, what could grow: deep nesting, anchors and aliases, tags."""
    depth = 0
    event: Any
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        problem = None
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problem = "anchors and aliases have no place in a header"
        elif getattr(event, "tag", None):
            problem = "tags have no place in a header"
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            problem = f"the header is nested deeper than {MAX_DEPTH} levels" if depth > MAX_DEPTH else None
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if problem:
            raise _FormError(problem=problem, problem_mark=event.start_mark)


def _with_version(fields: dict[str, Any], node: yaml.Node, text: str, start: Place) -> DocumentHeader | Finding:
    """A-O28, A-O41: the version as written (2.10 is no float), of a major version that is read here."""
    entry = next(((k, v) for k, v in node.value if k.value == "version"), None)
    if entry is None:
        return _finding(
            "header-version-missing", "the header has no version", text, start, hint='Begin with version: "2.2".'
        )
    mark, version = entry[1].start_mark, entry[1].value
    if not isinstance(version, str):
        hint = 'Write version: "2.2".'
        return _finding("header-version", "the version is no word", text, start, mark.line, mark.column, hint)
    major, dot, minor = version.partition(".")
    if not (dot and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        wrong = f"the version {version!r} is not major.minor"
        return _finding("header-version", wrong, text, start, mark.line, mark.column)
    if major not in ("1", "2"):
        hint = "unsupported_version: this is a reader of versions 1 and 2."
        return _finding("header-version", f"unsupported version {version}", text, start, mark.line, mark.column, hint)
    return DocumentHeader(version, {str(key): value for key, value in fields.items() if key != "version"})


def _finding(
    rule: RuleName, message: str, text: str, start: Place, line: int = 0, column: int = 0, hint: str | None = None
) -> Finding:
    lines = text.split("\n")
    before = sum(len(above) + 1 for above in lines[:line]) + column
    place = Place(start.offset, start.line, start.column)
    place.pass_over(text[:before])
    return Finding(E_HEADER, message, place.position(), hint, text=text, rule=rule)
