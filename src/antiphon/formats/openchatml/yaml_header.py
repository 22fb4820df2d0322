"""A transcript's YAML header as text (§2): where it ends, and read under limits."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import yaml

from antiphon.errors import Position, RenderError
from antiphon.errors.place import Place

from .document import VERSION, DocumentHeader
from .finding import E_HEADER, Finding, RuleName
from .spelling import BLANK, START

# What the YAML library reports about a header, in words that say what to mend.

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
    ("'-' indicator", "a line does not fit the list above it",
     "The items of one list begin in one column, each with a dash."),
    ("block sequence entries", "a list begins where no list may stand", "A list begins on the line below its key."),
    ("<document start>", "the header goes on where YAML ends", "A header is one mapping: key: value, one to a line."),
    ("expected a single document", "the header has two YAML documents", "Only one --- opens the header, and one closes it."),  # noqa: E501
    ("node content", "a value lacks", "Write a value behind the colon, the dash or the comma."),
    ("alphabetic or numeric", "an anchor or an alias has no name", "Quote a value that begins with & or *."),
    ("directive", "a line begins with %, which YAML reserves", "Quote a value that begins with %."),
    ("block scalar", "a text block (| or >) is malformed", "Its lines are indented by spaces, deeper than its key."),
    ("simple key", "a key is too long, or not on one line", "Write key: value, one to a line."),
)  # fmt: skip
"""A part of the library's message, what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """A fault of a header, its line and column there (both from 0), and a hint."""

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
    lines = text.rstrip().splitlines()
    mark = next((mark for mark in marks if mark.line < len(lines)), None)
    if mark is not None:
        return YamlProblem(message, mark.line, mark.column, hint)
    last = "".join(lines[-1:])
    return YamlProblem(message, max(len(lines) - 1, 0), len(last) - len(last.lstrip()), hint)


MAX_HEADER = 65_536
"""Characters of YAML that a header may have."""
MAX_DEPTH = 16
"""Levels of nesting that a header may have."""

FENCE = re.compile(rf"\A[{BLANK}]*---[ \t]*\r?\n")
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
        fence = FENCE.match(self.text)
        if fence is None:
            return
        limit = len(self.text) if self.frames_at is None else self.frames_at
        close = _CLOSE.search(self.text, max(fence.end(), self._searched), limit)
        if close and (close.group(1) or last):
            self.frames_at, self.yaml_end = close.end(), close.start()


def frames_behind(text: str) -> int:
    """The offset of the frames in a text whose header is overlong; -1 when it has none."""
    at = text.find(f"\n{START}")
    return at + 1 if at >= 0 else -1


class _FormError(yaml.MarkedYAMLError):
    """YAML that is well-formed, and has no place in a header."""


_TAG = "tag:yaml.org,2002:"
CORE = [
    (f"{_TAG}null", re.compile(r"(?:~|null|Null|NULL)?\Z")),
    (f"{_TAG}bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
    (f"{_TAG}int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")),
    (f"{_TAG}float", re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)"
                                r"|\.(?:nan|NaN|NAN))\Z")),
]  # fmt: skip
"""The core schema of YAML 1.2: the kinds of values without quotes. What is none of them is text."""
_BREAKS_OF_1_1 = "\x85\u2028\u2029"
"""Line breaks of YAML 1.1, characters like any other in 1.2."""


class CoreLoader(yaml.CSafeLoader):
    """Plain data of YAML 1.2 only, over a library that reads 1.1: duplicate keys are refused, ``<<`` is text."""

    def __init__(self, text: str) -> None:
        self._meant: dict[int, int | str | None] = {}
        if not frozenset(_BREAKS_OF_1_1).isdisjoint(text):
            unused = (code for code in range(0xE000, 0xF8FF) if chr(code) not in text)
            self._meant = dict(zip(unused, _BREAKS_OF_1_1, strict=False))
            text = text.translate({ord(str(char)): code for code, char in self._meant.items()})
        super().__init__(text)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        text: str = super().construct_scalar(node)
        return text.translate(self._meant)

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

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        text = self.construct_scalar(node)
        if node.tag.endswith("int"):
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        return float(re.sub(r"\.(?=[iInN])", "", text))


CoreLoader.yaml_implicit_resolvers = {None: CORE}
CoreLoader.add_constructor(f"{_TAG}int", CoreLoader.construct_number)
CoreLoader.add_constructor(f"{_TAG}float", CoreLoader.construct_number)


def read_otherwise(text: str) -> Iterator[tuple[int, int]]:
    """Finds values without quotes that readers of YAML 1.1 take for another kind: ``no``, ``012``, a day."""
    older: Any = yaml.SafeLoader("")
    core: Any = CoreLoader("")
    for token in yaml.scan(text, Loader=yaml.CSafeLoader):
        if isinstance(token, yaml.ScalarToken) and token.plain:
            tags = {one.resolve(yaml.ScalarNode, token.value, (True, False)) for one in (older, core)}
            if len(tags) > 1 or (tags == {f"{_TAG}int"} and token.value.lstrip("+-")[:1] == "0" != token.value):
                yield token.start_mark.index, token.end_mark.index


def read_header(text: str, start: Place) -> DocumentHeader | Finding:
    """The header that ``text`` is, without its closing fence; ``start`` is its place in the transcript."""
    try:
        _check_shape(text)
        loader = CoreLoader(text)
        try:
            node = loader.get_single_node()
            fields = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        wrong = yaml_problem(error, text)
        rule: RuleName = "header-form" if isinstance(error, _FormError) else "header-yaml"
        return _finding(rule, wrong.message, text, start, wrong.line, wrong.column, wrong.hint)
    except UnicodeEncodeError:  # what is no UTF-8 stands in the text as surrogates
        return _finding("header-yaml", "the header has bytes that are no UTF-8", text, start)
    except (yaml.YAMLError, ValueError) as error:
        return _finding("header-yaml", f"the YAML is malformed: {error}".splitlines()[0], text, start)
    if not isinstance(fields, dict) or node is None:
        return _finding("header-form", "the header is not a mapping of keys", text, start)
    return _with_version(fields, node, text, start)


def _check_shape(text: str) -> None:
    """Refuses, before anything is built, what could grow: deep nesting, anchors and aliases, tags."""
    depth = 0
    event: Any
    for event in yaml.parse(text, Loader=CoreLoader):
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


# A transcript's header, written: whatever values it has, `read_header` gives the same ones back, or it is refused.

_BREAKS = frozenset("\n\r\x85\u2028\u2029")


class _Dumper(yaml.CSafeDumper):
    """Texts whose line breaks YAML would fold, and keys that would begin a frame, are in double quotes.

    So are those that YAML 1.1 or 1.2 would read as another kind of value.
    """


class _Quoted(str):
    __slots__ = ()


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_TAG}str", value, style=None if _BREAKS.isdisjoint(value) else '"')


_Dumper.yaml_implicit_resolvers = {**yaml.CSafeDumper.yaml_implicit_resolvers, None: CORE}
_Dumper.add_representer(str, _text)
_Dumper.add_representer(_Quoted, lambda dumper, value: dumper.represent_scalar(f"{_TAG}str", str(value), style='"'))


def spell_header(header: DocumentHeader) -> str:
    """The canonical header: fenced, the version quoted, the other keys in their order (A-O28, A-O29).

    Dates become their text, as they are read. Raises `RenderError` for what no header can hold, with its path.
    """
    fields = plain_fields(header)
    spelled = f'---\nversion: "{header.version}"\n{"".join(map(_entry, fields, fields.values()))}---\n'
    if fields or header.version != VERSION:
        _check(spelled, header.version, fields)
    return spelled


def plain_fields(header: DocumentHeader) -> dict[str, Any]:
    """The header's fields as a reader gives them: keys as text, plain values. Raises `RenderError` for any other."""
    return {str(key): _plain(value, str(key), 2) for key, value in header.fields.items()}


def _entry(key: str, value: Any) -> str:
    """One line for a scalar; below a key, collections of scalars are inline."""
    inline = None if isinstance(value, dict | list) else False
    first = _Quoted(key) if key.startswith(START.spelling) else key
    try:
        text: str = yaml.dump(
            {first: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=inline, width=120
        )
    except (yaml.YAMLError, ValueError) as error:
        raise _unwritable(key, str(error)) from None
    return text


def _plain(value: Any, path: str, depth: int) -> Any:
    """Plain data of the same meaning in containers of its own, so that YAML needs neither tags nor anchors."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return str(value)
        case datetime() | date():
            return value.isoformat()
        case Mapping() | list() | tuple() if depth > MAX_DEPTH:
            raise _unwritable(path, f"it is nested deeper than {MAX_DEPTH} levels")
        case Mapping():
            return {_plain(k, path, MAX_DEPTH + 1): _plain(v, f"{path}.{k}", depth + 1) for k, v in value.items()}
        case list() | tuple():
            return [_plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise _unwritable(path, f"a header has no {type(value).__name__}")


def _check(spelled: str, version: str, fields: dict[str, Any]) -> None:
    """That the header ends where it should and reads as it was meant."""
    scanner = HeaderScanner()
    scanner.feed(spelled, last=True)
    if scanner.overlong or scanner.frames_at != len(spelled):
        raise _unwritable("header", "it is too long")
    read = read_header(spelled[: scanner.yaml_end], Place())
    if isinstance(read, Finding):
        raise _unwritable("header", read.message)
    if read.version != version or not alike(read.fields, fields):
        raise _unwritable("header", "it would be read as something else")


def alike(one: Any, other: Any) -> bool:
    """Whether two values of a header are the same, of the same kinds and in the same order; NaN is itself."""
    return repr(one) == repr(other)


def _unwritable(path: str, problem: str) -> RenderError:
    return RenderError(f"the header cannot be written: {problem}", code=E_HEADER, position=Position(path=path))
