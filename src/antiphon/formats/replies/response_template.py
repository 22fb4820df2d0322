"""Reply descriptions as the response templates of transformers (version 1).

The regular expressions of response templates, where they are literals with named groups between.

>>> read_pattern(r"<call>\\s*<function=(?P<name>[^>\\n]+)>")
[Text(text='<call>'), Blanks(), Text(text='<function='), Group(name='name'), Text(text='>')]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.errors import TemplateError

from .description import CallForm, Members, Pairs, Region, ReplyDescription, Slot, Value


class Text(msgspec.Struct, frozen=True):
    """Exactly this text."""

    text: str


class Blanks(msgspec.Struct, frozen=True):
    """Any number of blanks."""


class Group(msgspec.Struct, frozen=True):
    """A named group; what may stand in it is not kept."""

    name: str


class Maybe(msgspec.Struct, frozen=True):
    """This text, or nothing; blanks beside it are its own."""

    text: str


Part = Text | Blanks | Group | Maybe

_TOKEN = re.compile(
    r"(?P<blanks>(?:\\s|\\n|\n| )[*+?]\??|\[ ?\\n\\?t? ?\]\*)"
    r"|(?P<group>\(\?P<)|(?P<maybe>\(\?:)|(?P<escaped>\\.)|(?P<plain>[^\\.^$*+?{}\[\]|()])",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class NotLiteral(ValueError):
    """The pattern says more than literals and groups."""


def read_pattern(pattern: str) -> list[Part]:
    """The parts of the pattern. Raises `NotLiteral`."""
    parts: list[Part] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise NotLiteral(f"{pattern[at : at + 20]!r}")
        at = token.end()
        match token.lastgroup:
            case "group":
                end = _close(pattern, at)
                parts.append(Group(pattern[at : pattern.index(">", at)]))
                at = end
            case "maybe":
                end = _close(pattern, at)
                if pattern[end : end + 1] != "?":
                    raise NotLiteral(f"{pattern[at - 3 : end]!r}")
                parts.append(Maybe(_written(read_pattern(pattern[at : end - 1]))))
                at = end + 1
            case "blanks":
                parts.append(Blanks())
            case "escaped":
                _add(parts, _unescaped(token.group()[1]))
            case _:
                _add(parts, token.group())
    return parts


def _written(parts: list[Part]) -> str:
    if any(isinstance(part, (Group, Maybe)) for part in parts):
        raise NotLiteral("a group in a group")
    return "".join(part.text if isinstance(part, Text) else "\n" for part in parts)


def _add(parts: list[Part], text: str) -> None:
    last = parts[-1] if parts else None
    if isinstance(last, Text):
        parts[-1] = Text(last.text + text)
    else:
        parts.append(Text(text))


def _unescaped(char: str) -> str:
    if char.isalnum() and char not in _ESCAPES:
        raise NotLiteral(f"\\{char}")
    return _ESCAPES.get(char, char)


def _close(pattern: str, at: int) -> int:
    """Behind the bracket that closes the group whose inside begins at ``at``."""
    depth, in_set = 1, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char in "()":
            depth += 1 if char == "(" else -1
            if not depth:
                return at + 1
        at += 1
    raise NotLiteral("an open group")


_KEYS = {"version", "defaults", "fields", "start_anchor"}
_REGION_KEYS = {"open", "open_pattern", "close", "close_pattern", "content", "optional", "repeats", "join"}
_CALL_KEYS = _REGION_KEYS - {"join"} | {"content_args", "transform", "transform_each"}
_CALL_PARTS, _FUNCTION_PARTS = {"type", "id", "function", "name", "arguments"}, {"name", "arguments"}
_CONTENT_ARGS = {"json": {"unquoted_keys", "string_delims", "allow_non_json"}, "xml-inline": {"tag_pattern"}}
_REASONING = ("thinking", "reasoning_content", "reasoning")
_BRACKET = "{}"


def from_response_template(spec: object) -> ReplyDescription:
    """The description of what a ``response_template`` says. Raises `TemplateError` for what is none of version 1, and
    for what no description can say (a regular expression of more than literals and groups, say)."""
    fields = _fields(spec)
    assert isinstance(spec, Mapping)
    unknown = set(fields) - {*_REASONING, "content", "tool_calls"}
    if unknown:
        raise _refused(f"fields.{min(unknown)}", "a message has no such field")
    if spec.get("defaults", {"role": "assistant"}) != {"role": "assistant"}:
        raise _refused("defaults", "only the assistant's role is known")
    for name, field in fields.items():
        _check_field(name, field)
    reasoning = next((name for name in _REASONING if name in fields), None)
    content = fields.get("content", {})
    ends = tuple(_texts(content.get("close"), "fields.content.close"))
    return ReplyDescription(
        anchor=_only(spec.get("start_anchor"), "start_anchor"),
        reasoning=_region(fields[reasoning], f"fields.{reasoning}") if reasoning else None,
        content=_region(content, "fields.content") if _opens(content) else None,
        calls=(_call(_unended(fields["tool_calls"], ends)),) if "tool_calls" in fields else (),
        ends=() if _opens(content) else ends,
    )


def _fields(spec: object) -> dict[str, dict[str, Any]]:
    if not isinstance(spec, Mapping) or spec.get("version", 1) != 1 or set(spec) - _KEYS:
        raise _refused("version", "only objects of version 1 are known")
    if "start_anchor" not in spec:
        raise _refused("start_anchor", "one is needed, and as a text")
    fields = spec.get("fields")
    if not isinstance(fields, dict) or not fields or not all(isinstance(field, dict) for field in fields.values()):
        raise _refused("fields", "an object of fields is needed")
    return fields


def _check_field(name: str, field: Mapping[str, Any]) -> None:
    """Raises `TemplateError` for what a field says and no description can: nothing is left out in silence."""
    path, is_call = f"fields.{name}", name == "tool_calls"
    for key in field:
        if key not in (_CALL_KEYS if is_call else _REGION_KEYS):
            raise _refused(f"{path}.{key}", "this is not known")
    for side in ("open", "close"):
        if side in field and f"{side}_pattern" in field:
            raise _refused(f"{path}.{side}", "a literal and a pattern exclude each other")
    content = field.get("content", "text")
    if not is_call and content != "text":
        raise _refused(f"{path}.content", "a text is read as text")
    transform = field.get("transform", {})
    function = transform.get("function", {}) if isinstance(transform, Mapping) else None
    if not isinstance(function, Mapping) or set(transform) - _CALL_PARTS or set(function) - _FUNCTION_PARTS:
        raise _refused(f"{path}.transform", "a call has a type, an id, and a function with its name and arguments")
    args = field.get("content_args", {})
    known = _CONTENT_ARGS.get(content, set())
    if not isinstance(args, Mapping) or set(args) - known:
        raise _refused(f"{path}.content_args", f"for {content!r} these are known: {', '.join(sorted(known)) or 'none'}")


def _unended(field: dict[str, Any], ends: Sequence[str]) -> dict[str, Any]:
    """A call's field without a close that is the reply's end."""
    closes = _texts(field.get("close"), "fields.tool_calls.close")
    return field if not closes or set(closes) - set(ends) else {key: v for key, v in field.items() if key != "close"}


def _opens(field: Mapping[str, Any]) -> bool:
    return "open" in field or "open_pattern" in field


def _region(field: Mapping[str, Any], path: str) -> Region:
    return Region(open=_literal(field, "open", path), close=_literal(field, "close", path))


def _literal(field: Mapping[str, Any], side: str, path: str) -> str:
    """A region's mark: its literal, or its pattern where that is one."""
    if f"{side}_pattern" in field:
        parts = _parts(field[f"{side}_pattern"], f"{path}.{side}_pattern")
        if any(isinstance(part, Group) for part in parts):
            raise _refused(f"{path}.{side}_pattern", "a group is not expected here")
        return "".join(map(_text, parts))
    return _only(field.get(side), f"{path}.{side}")


def _call(field: Mapping[str, Any]) -> CallForm:
    path = "fields.tool_calls"
    paths = _transformed(field.get("transform"))
    opening = _parts(field["open_pattern"], f"{path}.open_pattern") if "open_pattern" in field else None
    if opening is None or not any(isinstance(part, Group) for part in opening):
        return _object_call(field, paths, path)
    section, head, open = _head(opening, paths, path)
    closing = _parts(field["close_pattern"], f"{path}.close_pattern") if "close_pattern" in field else []
    close = "".join(_text(part) for part in closing if not isinstance(part, Maybe))
    close = close or _only(field.get("close"), f"{path}.close")
    around = next((part.text for part in closing if isinstance(part, Maybe)), "")
    pairs = _pairs(field, path)
    if pairs is not None and not pairs.key:
        head = (*head[:-1], replace(head[-1], after=head[-1].after + _BRACKET[0]))
        close = _BRACKET[1] + close
    return CallForm(
        section=Region(open=section, close=around) if section or around else None,
        open=open,
        head=head,
        pairs=pairs,
        close=close,
    )


def _object_call(field: Mapping[str, Any], paths: Mapping[str, str], path: str) -> CallForm:
    if field.get("content") != "json":
        raise _refused(f"{path}.content", "a call without groups must be JSON")
    members = Members(
        name=paths.get("name", "name").removeprefix("content."),
        arguments=paths.get("arguments", "arguments").removeprefix("content."),
        call_id=paths.get("id", "").removeprefix("content."),
    )
    region = _region(field, path)
    if field.get("transform_each"):
        return CallForm(section=region, separator=", ", members=members)
    return CallForm(open=region.open, close=region.close, members=members)


def _head(parts: Sequence[Part], paths: Mapping[str, str], path: str) -> tuple[str, tuple[Slot, ...], str]:
    """The section's opening, the slots of the groups, and what stands before the first."""
    reads = {paths.get("name", "{name}").strip("{}"): "name", paths.get("id", "").strip("{}"): "call_id"}
    section = next((part.text for part in parts if isinstance(part, Maybe)), "")
    texts, slots = [""], []
    for part in parts:
        if isinstance(part, Group):
            if part.name not in reads:
                raise _refused(f"{path}.open_pattern", f"the group {part.name!r} is neither a name nor an id")
            slots.append(reads[part.name])
            texts.append("")
        elif not isinstance(part, Maybe):
            texts[-1] += _text(part)
    made = [
        Slot(reads="name" if kind == "name" else "call_id", after=after)
        for kind, after in zip(slots, texts[1:], strict=True)
    ]
    return section, tuple(made), texts[0]


def _pairs(field: Mapping[str, Any], path: str) -> Pairs | None:
    content, args = field.get("content", "text"), field.get("content_args", {})
    if content == "json":
        delimiters = args.get("string_delims") or [["", ""]]
        if not args.get("unquoted_keys"):
            return None
        return Pairs(values=(Value(before=":", reads="literal"),), separator=",", quote=str(delimiters[0][0]))
    if content != "xml-inline":
        raise _refused(f"{path}.content", f"arguments of kind {content!r} are not known")
    parts = _parts(args.get("tag_pattern"), f"{path}.content_args.tag_pattern")
    names = [part.name for part in parts if isinstance(part, Group)]
    if names != ["key", "value"]:
        raise _refused(f"{path}.content_args.tag_pattern", "a group key and then a group value are needed")
    texts = [""]
    for part in parts:
        if isinstance(part, Group):
            texts.append("")
        else:
            texts[-1] += _text(part)
    return Pairs(key=texts[0], values=(Value(before=texts[1], after=texts[2]),))


def _transformed(transform: object) -> dict[str, str]:
    """Returns the fields from which a transform takes the name, the arguments and the id."""
    function = transform.get("function", transform) if isinstance(transform, Mapping) else {}
    found = {}
    for key, source in (("name", function), ("arguments", function), ("id", transform)):
        value = source.get(key) if isinstance(source, Mapping) else None
        if isinstance(value, str):
            found[key] = value.strip("{}")
    return found


def _parts(pattern: object, path: str) -> list[Part]:
    try:
        return read_pattern(pattern if isinstance(pattern, str) else "")
    except NotLiteral as error:
        raise _refused(path, f"only literals, blanks and named groups are read, not {error}") from None


def _text(part: Part) -> str:
    return part.text if isinstance(part, (Text, Maybe)) else "\n" if isinstance(part, Blanks) else ""


def _texts(value: object, path: str) -> list[str]:
    texts = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) and text for text in texts):
        raise _refused(path, "texts are needed")
    return list(texts)


def _only(value: object, path: str) -> str:
    """The one text that is given; empty where none is."""
    texts = _texts(value, path)
    if len(texts) > 1:
        raise _refused(path, "one text can be kept, and there are several")
    return texts[0] if texts else ""


def _refused(path: str, why: str) -> TemplateError:
    return TemplateError(
        f"the response template says {path} in a way that cannot be read: {why}",
        code="bad_response_template",
        hint="Name a template's file in the model's table, or leave the response template out.",
    )
