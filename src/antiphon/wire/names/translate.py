"""A body's fields under this server's names, whoever's they were: the one place that knows other names.

What comes out is read as if it had come so; `Names.restore` puts errors back into the client's words.

Whether a name that nobody knows is a known one, misspelt.

>>> meant("temprature", ["temperature", "top_p"])
'temperature'
>>> meant("topP", ["temperature", "top_p"])
'top_p'
>>> meant("step", ["stop"])
>>> meant("x_request_id", ["request_id"])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from antiphon.errors import AntiphonError, Position, RequestError, UnsupportedError

from .constraints import Constraint, compact_in, constraint_in, not_understood
from .table import KNOWN, KnownName
from .thinking import READERS, ThinkingOption, agree, options_in, placed, without_others

MOST_EXAMINED = 32
"""Unknown names of one request at most that are compared with the known ones."""
LONGEST = 64


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` misspells, the nearest and first one; None for a name of its own.

    Case, hyphens and underscores do not count. Else a known name of 5 to 8 characters may differ in one letter and a
    longer one in two (one put in, left out, changed, or two exchanged), but not in the first; a shorter one in none.
    """
    if len(name) > LONGEST:
        return None
    plain, nearest, least = _plain(name), None, 3
    for candidate in known:
        other = _plain(candidate)
        allowed = min(0 if len(candidate) < 5 else 1 if len(candidate) < 9 else 2, least - 1)
        if allowed >= 0 and _edits_within(plain, other, allowed):
            nearest, least = candidate, _distance(plain, other)
    return nearest


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


def _edits_within(a: str, b: str, most: int) -> bool:
    """Whether at most so many letters differ; most names are told apart by their letters alone."""
    if a[:1] != b[:1] or abs(len(a) - len(b)) > most or len(set(a) ^ set(b)) > 2 * most:
        return False
    return _distance(a, b) <= most


def _distance(a: str, b: str) -> int:
    """Letters to put in, leave out, change, or exchange with the next (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        earlier, before, row = before, row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[j] = min(row[j], earlier[j - 2] + 1)
    return row[-1]


# The fields inside a request's objects that nothing here reads, by their paths.
#
# Messages and items are most of a body: only their own fields are looked at, and what others add to them is told,
# never taken for a misspelling.

LONG = frozenset({"messages", "input", "prompt", "items"})
"""The fields that are lists of messages or items."""
MOST_ENTRIES = 256
"""Entries of a list at most that are looked through."""
RawFields = Mapping[str, msgspec.Raw]
Structs = tuple[type[msgspec.Struct], ...]
_ENTRIES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class UnreadField(msgspec.Struct, frozen=True):
    """A field at ``path`` that is none of the object that holds it. ``known``: the fields that it may misspell."""

    path: str
    name: str
    known: tuple[str, ...]


def unread(fields: RawFields, kind: type[msgspec.Struct]) -> Iterator[UnreadField]:
    """The fields within ``fields``, of a body that was read as ``kind``, which no struct there has."""
    for name, types in _objects(kind).items():
        if name in fields and name in LONG:
            yield from _beside(fields[name], types, name)
        elif name in fields:
            yield from _within(fields[name], types, name)


def _beside(raw: msgspec.Raw, structs: Structs, path: str) -> Iterator[UnreadField]:
    """The fields of messages or items themselves; what is no list of them is left to who reads it."""
    names = _names(structs)
    try:
        entries = _ENTRIES.decode(raw)
    except msgspec.ValidationError:
        return
    for i, entry in enumerate(entries):
        if not entry.keys() <= names.keys():
            yield from (UnreadField(f"{path}[{i}].{name}", name, ()) for name in entry if name not in names)


@cache
def _names(structs: Structs) -> dict[str, Structs]:
    """The fields of some structs, and the structs that each may hold."""
    names = {field.encode_name: () for kind in structs for field in msgspec.structs.fields(kind)}
    return names | {name: types for kind in structs for name, types in _objects(kind).items()}


@cache
def _objects(kind: type[msgspec.Struct]) -> dict[str, Structs]:
    """The structs that a field may hold, itself or in a list, by the names of the fields that may."""
    found = {
        field.encode_name: tuple(_structs_of(msgspec.inspect.type_info(field.type)))
        for field in msgspec.structs.fields(kind)
    }
    return {name: structs for name, structs in found.items() if structs}


def _structs_of(type: msgspec.inspect.Type) -> Iterator[type[msgspec.Struct]]:
    match type:
        case msgspec.inspect.StructType(cls=cls):
            yield cls
        case msgspec.inspect.UnionType(types=several):
            for one in several:
                yield from _structs_of(one)
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            yield from _structs_of(item)


def _within(raw: msgspec.Raw, structs: Structs, path: str) -> Iterator[UnreadField]:
    """Yields unread fields of objects and lists. Other values, and texts inside, are left unread: some are long."""
    match memoryview(raw)[:1].tobytes():
        case b"[":
            for i, item in enumerate(_LIST.decode(raw)[:MOST_ENTRIES]):
                yield from _within(item, structs, f"{path}[{i}]")
        case b"{":
            names = _names(structs)
            for name, item in _OBJECT.decode(raw).items():
                if name not in names:
                    yield UnreadField(f"{path}.{name}", name, tuple(names))
                elif names[name]:
                    yield from _within(item, names[name], f"{path}.{name}")


Fields = dict[str, msgspec.Raw]
NULL = b"null"
_LIMITS = ("max_tokens", "max_output_tokens", "request_output_len")


class Names(msgspec.Struct, frozen=True):
    """How a client named things: ``foreign`` fields are none of the route's own, ``ignored`` ones have no effect.

    ``restored``: paths in the request as the route knows it, and as the client wrote them.
    """

    foreign: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    restored: Mapping[str, str] = msgspec.field(default_factory=dict)

    def restore(self, error: AntiphonError) -> None:
        """Puts the error at the place in the client's own body."""
        path = error.position.path if error.position else None
        for ours, theirs in self.restored.items():
            if path is not None and (path == ours or path.startswith((f"{ours}.", f"{ours}["))):
                error.position = Position(path=theirs + path[len(ours) :])
                if error.message.startswith(ours):
                    error.message = theirs + error.message[len(ours) :]
                    error.args = (error.message,)
                return

    @contextmanager
    def restored_in_errors(self) -> Iterator[None]:
        """Names the client's own fields in errors that are raised within."""
        try:
            yield
        except AntiphonError as error:
            self.restore(error)
            raise


class PromptFields(msgspec.Struct, kw_only=True):
    """The base of requests that give a model something to read: known names that nothing here can do are refused."""


class GenerationFields(PromptFields, kw_only=True):
    """The base of requests for text, in which other servers' names are read too."""


class Translation(msgspec.Struct):
    """One body on its way to be read."""

    fields: Fields
    names: Names = Names()

    @classmethod
    def of(cls, fields: Fields, kind: type[msgspec.Struct], known: frozenset[str]) -> Self:
        """The fields with the names that ``kind`` has, which are ``known``. Raises `RequestError` naming the field."""
        made = cls(fields)
        foreign = [name for name in fields if name not in known]
        rows = [row for name in foreign if (row := KNOWN.get(name)) is not None]
        if issubclass(kind, GenerationFields):
            made._note([name for name in foreign if name not in KNOWN], known | KNOWN.keys())
            made.names = replace(made.names, foreign=tuple(foreign))
            for row in rows:
                if row.use not in ("constraint", "thinking", "told"):
                    made._apply(row, known)
            for name in fields:  # what is taken in vain is told, be it the route's own
                row = KNOWN.get(name)
                told = row is not None and row.use == "told" and not (row.own and name in known)
                if row is not None and told and not row.requires_nothing(msgspec.json.decode(fields[name])):
                    made.names = replace(made.names, ignored=(*made.names.ignored, name))
            made._constrain(known)
        else:
            made._note(foreign, known)
            for row in rows if issubclass(kind, PromptFields) else ():
                if row.use == "refused":
                    made._apply(row, known)
        if READERS.keys() & fields.keys() and issubclass(kind, PromptFields):
            made._think(known)
        found = list(unread(made.fields, kind))
        for one in found[:MOST_EXAMINED]:
            _refuse_misspelt(one.path, one.name, one.known)
        made.names = replace(made.names, ignored=(*made.names.ignored, *(one.path for one in found)))
        return made

    def _note(self, unknown: list[str], known: frozenset[str]) -> None:
        """Unknown names are told of. Raises `RequestError` for one that is a known one, misspelt."""
        candidates = sorted(known) if unknown else []
        for name in unknown[:MOST_EXAMINED]:
            _refuse_misspelt(name, name, candidates)
        self.names = Names(tuple(unknown), tuple(unknown))

    def _apply(self, row: KnownName, known: frozenset[str]) -> None:
        value = msgspec.json.decode(self.fields[row.name])
        renamed = row.use == "same" and row.stands_for in known
        if row.use == "harmless" or (row.requires_nothing(value) and not (renamed and value in row.neutral)):
            return
        target = next((name for name in _LIMITS if name in known), None) if row.use == "limit" else row.stands_for
        if row.use == "refused" or (row.use == "same" and not renamed):
            raise _unsupported(row.name)
        if target is not None:
            self._rename(row.name, target)

    def _rename(self, name: str, target: str) -> None:
        given = self.fields.get(target, NULL)
        if given != NULL and given != self.fields[name]:
            raise self._contrary(name, target)
        if given == NULL:
            self.fields = {**self.fields, target: self.fields[name]}
            self.names = replace(self.names, restored={**self.names.restored, target: name})

    def _contrary(self, name: str, target: str) -> RequestError:
        both = self.names.restored.get(target, target)
        return RequestError(
            f"{name}: it is another name of {both}, which is there with another value.",
            code="invalid_value",
            position=Position(path=name),
            hint="Send one of them.",
        )

    def _think(self, known: frozenset[str]) -> None:
        """Puts what is said of thinking, whatever it is called, into the route's own fields."""
        options = options_in(self.fields, known)
        given = msgspec.json.decode(self.fields.get("reasoning", NULL)) if "reasoning" in known else None
        if isinstance(given, dict) and (own := without_others(given)) != given:
            self.fields = {**self.fields, "reasoning": msgspec.Raw(msgspec.json.encode(own))}
        shown = [one.path for one in options if one.what == "shown"]
        self.names = replace(self.names, ignored=(*self.names.ignored, *shown))
        for one in sorted((one for one in options if one.what != "shown"), key=lambda one: one.what == "on"):
            found = list(placed(one, known))
            if not found and one.value != -1:
                raise _unsupported(one.path)
            for path, value in found:
                self._put(one, path, value)

    def _put(self, option: ThinkingOption, path: str, value: Any) -> None:
        name, _, inner = path.partition(".")
        given = msgspec.json.decode(self.fields.get(name, NULL))
        if inner and not isinstance(given, dict | None):
            return  # refused by who reads the field
        present = (given or {}).get(inner) if inner else given
        if present is not None and not agree(present, option, value):
            raise self._contrary(option.path, path)
        if present is None:
            put = {**(given or {}), inner: value} if inner else value
            self.fields = {**self.fields, name: msgspec.Raw(msgspec.json.encode(put))}
            self.names = replace(self.names, restored={**self.names.restored, path: option.path})

    def _constrain(self, known: frozenset[str]) -> None:
        """The one constraint of the answer, whatever it is called, in the route's own field."""
        own = "response_format" if "response_format" in known or "text" not in known else "text"
        beside = known & {"output_config"}
        constraint, compact = constraint_in(self.fields, own=own, beside=beside), compact_in(self.fields, own=own)
        if own not in known:
            return
        if constraint is not None:
            ignored = (*self.names.ignored, *not_understood(self.fields, own=own))
            self.names = replace(
                self.names, ignored=ignored, restored={**self.names.restored, **constraint.restored(own)}
            )
            self.fields = {**self.fields, own: msgspec.Raw(msgspec.json.encode(self._in_place(constraint, own)))}
        if compact is not None and own in self.fields:
            self._compact(compact, own)

    def _in_place(self, constraint: Constraint, own: str) -> dict[str, Any]:
        if own == "response_format":
            return constraint.as_response_format()
        given: Any = msgspec.json.decode(self.fields.get(own, NULL))
        return {**(given if isinstance(given, dict) else {}), "format": constraint.as_text_format()}

    def _compact(self, compact: Any, own: str) -> None:
        """The route's own format with what another field, or its first reading, says of blanks."""
        value = msgspec.json.decode(self.fields[own])
        form = value if own == "response_format" or not isinstance(value, dict) else value.get("format")
        if isinstance(form, dict):
            form["compact"] = compact
            self.fields = {**self.fields, own: msgspec.Raw(msgspec.json.encode(value))}


def _unsupported(path: str) -> UnsupportedError:
    hint = KNOWN[path.partition(".")[0]].hint
    return UnsupportedError(f"{path} cannot be honoured.", position=Position(path=path), hint=hint)


def _refuse_misspelt(path: str, name: str, known: Sequence[str]) -> None:
    right = meant(name, known)
    if right is not None:
        raise RequestError(
            f"{path}: there is no such field.",
            code="unknown_parameter",
            position=Position(path=path),
            hint=f"Did you mean {right}?",
        )
