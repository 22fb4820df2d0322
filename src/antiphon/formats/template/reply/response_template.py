"""Reply descriptions as the response templates of transformers (version 1), from them and to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from antiphon.errors import TemplateError

from .description import CallForm, Members, Pairs, Region, ReplyDescription, Slot, Value
from .patterns import Blanks, Group, Maybe, NotLiteral, Part, Text, literal, loose, read_pattern

_KEYS = {"version", "defaults", "fields", "start_anchor"}
_REGION_KEYS = {"open", "open_pattern", "close", "close_pattern", "content", "optional", "repeats", "join"}
_CALL_KEYS = _REGION_KEYS - {"join"} | {"content_args", "transform", "transform_each"}
_CALL_PARTS, _FUNCTION_PARTS = {"type", "id", "function", "name", "arguments"}, {"name", "arguments"}
_CONTENT_ARGS = {"json": {"unquoted_keys", "string_delims", "allow_non_json"}, "xml-inline": {"tag_pattern"}}
_REASONING = ("thinking", "reasoning_content", "reasoning")
_NAME = r"[\w.:/-]+"
_BRACKET = "{}"
_FUNCTION = {"type": "function"}


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


def to_response_template(description: ReplyDescription) -> dict[str, Any]:
    """The description as a ``response_template``. Raises `TemplateError` for what it cannot say."""
    if not description.anchor:
        raise _refused("start_anchor", "the description has no anchor")
    if description.layout:
        raise _refused("fields", "a response template has no place for what stands between two regions")
    fields: dict[str, Any] = {}
    if description.reasoning is not None:
        fields["thinking"] = _marks(description.reasoning)
    if description.calls:
        field = _call_field(description.calls[0])
        closed = "close" in field or "close_pattern" in field or not description.ends
        fields["tool_calls"] = field if closed else field | {"close": list(description.ends)}
    content: dict[str, Any] = _marks(description.content) if description.content is not None else {}
    if not content and description.ends:
        content = {"close": list(description.ends)}
    fields["content"] = content
    return {"version": 1, "start_anchor": description.anchor, "defaults": {"role": "assistant"}, "fields": fields}


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
    """Where a transform takes the name, the arguments and the id from."""
    function = transform.get("function", transform) if isinstance(transform, Mapping) else {}
    found = {}
    for key, source in (("name", function), ("arguments", function), ("id", transform)):
        value = source.get(key) if isinstance(source, Mapping) else None
        if isinstance(value, str):
            found[key] = value.strip("{}")
    return found


def _marks(region: Region) -> dict[str, Any]:
    """A region's marks without their layout, which a reader of text strips by itself."""
    return {side: mark for side, mark in (("open", region.open.strip()), ("close", region.close.strip())) if mark}


def _call_field(form: CallForm) -> dict[str, Any]:
    if form.members is not None:
        return _object_field(form, form.members)
    if not form.head or form.id_behind or any(slot.reads == "index" or slot.pattern for slot in form.head):
        raise _refused(
            "calls", "a response template has no place for the index of a call, or an id behind its arguments"
        )
    section = form.section or Region()
    bracket = _BRACKET if form.pairs is not None and form.pairs.values[0].reads == "literal" else ""
    afters = [slot.after for slot in form.head]
    afters[-1] = afters[-1].removesuffix(bracket[:1])
    heads = [f"(?P<{slot.reads}>{_NAME}){_after(after)}" for slot, after in zip(form.head, afters, strict=True)]
    names = {slot.reads: f"{{{slot.reads}}}" for slot in form.head}
    field: dict[str, Any] = {"open_pattern": _optional(section.open) + loose(form.open) + "".join(heads)}
    close = form.close.removeprefix(bracket[1:])
    if close:
        field["close_pattern"] = loose(close) + _optional(section.close)
    field |= {"repeats": True} | _content(form.pairs)
    return field | {"transform": _transform(names["name"], "{content}", names.get("call_id"))}


def _content(pairs: Pairs | None) -> dict[str, Any]:
    if pairs is None:
        return {"content": "json"}
    value = pairs.values[0]
    if value.reads == "literal" and value.before == ":":
        quotes = {"string_delims": [[pairs.quote, pairs.quote]]} if pairs.quote else {}
        return {"content": "json", "content_args": {"unquoted_keys": True, **quotes}}
    if len(pairs.values) > 1 or value.reads != "schema":
        raise _refused("calls", "a response template has one spelling of values, which says no type")
    tag = f"{loose(pairs.key)}(?P<key>.+?){literal(value.before)}(?P<value>.*?){literal(value.after.rstrip())}"
    return {"content": "xml-inline", "content_args": {"tag_pattern": tag}}


def _object_field(form: CallForm, members: Members) -> dict[str, Any]:
    if not members.name or form.bare:
        raise _refused("calls", "a response template needs a mark before a call, and keys for its name and arguments")
    region = form.section if form.section is not None and not form.open else Region(open=form.open, close=form.close)
    listed = form.section is not None and not form.open
    if listed and not region.open.rstrip().endswith("["):
        raise _refused("calls", "a response template reads several objects only as a list")
    marks = {"open": region.open.strip().rstrip("[").strip(), "close": region.close.strip().lstrip("]").strip()}
    place = "" if listed else "content."
    call_id = f"{{{place}{members.call_id}}}" if members.call_id else None
    transform = _transform(f"{{{place}{members.name}}}", f"{{{place}{members.arguments}}}", call_id)
    more = {"transform_each": True} if listed else {"repeats": True}
    return {side: mark for side, mark in marks.items() if mark} | {"content": "json", "transform": transform} | more


def _transform(name: str, arguments: str, call_id: str | None) -> dict[str, Any]:
    made: dict[str, Any] = {**_FUNCTION, "function": {"name": name, "arguments": arguments}}
    return made | ({"id": call_id} if call_id else {})


def _after(mark: str) -> str:
    """Blanks alone are needed where they part a name from what follows."""
    return loose(mark) if mark.strip() else literal(mark)


def _optional(mark: str) -> str:
    return f"(?:{loose(mark)})?" if mark.strip() else ""


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
        f"the response template says {path} in a way that cannot be read or written: {why}",
        code="bad_response_template",
        hint="Name a template's file in the model's table, or leave the response template out.",
    )
