"""Abilities of the reference's values, which are pydantic models: checked when they are made, dumped, copied.

Pydantic is no dependency. It takes dataclasses, and so these values, into models of its own.
"""

from __future__ import annotations

import copy
import json
import sys
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from importlib import import_module
from types import UnionType
from typing import Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

Json = dict[str, Any]
Path = tuple[str | int, ...]
AnyModel = TypeVar("AnyModel", bound="Model")
Check = Callable[[object, Path, "list[Mismatch]"], object]
"""Takes a value and its place, returns what is stored, and adds what is wrong with it to the list."""
Plan = tuple[tuple[str, frozenset[type], Check, Callable[[], object] | None], ...]
PLANS: dict[type[Any], Plan] = {}
ADAPTERS: dict[type[Any], Any] = {}
TRUE, FALSE = ("1", "true", "t", "yes", "y", "on"), ("0", "false", "f", "no", "n", "off")
SEQUENCES = (list, tuple, set, frozenset, deque, Generator)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a value cannot be made: pydantic's kind of error, where, of what, and the values in that error's words."""

    kind: str
    path: Path
    found: object
    words: Mapping[str, Any] = field(default_factory=dict)


@dataclass_transform(field_specifiers=(field,))
class Model:
    """A value whose fields are checked when it is made, and which ignores keywords of other names, as in pydantic.

    Subclasses become dataclasses. Raises pydantic's ValidationError where pydantic is loaded, elsewhere ValueError,
    of which that is a kind.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False)(cls)

    def __init__(self, *values: object, **named: object) -> None:
        mismatches: list[Mismatch] = []
        self._fill(_named(type(self), values, named) if values else named, (), mismatches)
        if mismatches:
            _refuse(type(self).__name__, mismatches)

    @classmethod
    def read(cls, raw: Mapping[str, object], path: Path, mismatches: list[Mismatch]) -> Model:
        """The value of a dictionary of fields, whatever is wrong with it added to ``mismatches``."""
        made = object.__new__(cls)
        made._fill(raw, path, mismatches)
        return made

    def _fill(self, raw: Mapping[str, object], path: Path, mismatches: list[Mismatch]) -> None:
        stored = self.__dict__
        for name, stored_as_they_are, check, default in _plan(type(self)):
            if name in raw:
                value = raw[name]
                right = type(value) in stored_as_they_are
                stored[name] = value if right else check(value, (*path, name), mismatches)
            elif default is None:
                mismatches.append(Mismatch("missing", (*path, name), raw))
            else:
                stored[name] = default()

    @classmethod
    def model_construct(cls, _fields_set: object = None, **values: object) -> Self:
        """A value of these fields, unchecked, and of the defaults of the others."""
        known = {name: values[name] for name, *_ in _plan(cls) if name in values}
        return unchecked(cls, **{name: make() for name, *_, make in _plan(cls) if make and name not in known}, **known)

    @classmethod
    def model_validate(cls, obj: object) -> Self:
        """The value itself, or that of a dictionary of fields."""
        mismatches: list[Mismatch] = []
        made = _value(cls)(obj, (), mismatches)
        if mismatches:
            _refuse(cls.__name__, mismatches)
        assert isinstance(made, cls)
        return made

    @classmethod
    def model_validate_json(cls, json_data: str | bytes) -> Self:
        """As `model_validate`, from JSON."""
        try:
            raw = json.loads(json_data)
        except ValueError as error:
            _refuse(cls.__name__, [Mismatch("json_invalid", (), json_data, {"error": str(error)})])
        return cls.model_validate(raw)

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """The same once more, with some fields changed, unchecked."""
        made = copy.deepcopy(self) if deep else copy.copy(self)
        made.__dict__.update(update or {})
        return made

    def model_dump(self, **options: Any) -> Json:
        """The fields as a dictionary. Takes pydantic's options, and needs pydantic."""
        dumped: Json = _adapter(type(self)).dump_python(self, **options)
        return dumped

    def model_dump_json(self, **options: Any) -> str:
        """The fields as JSON. Takes pydantic's options, and needs pydantic."""
        return str(_adapter(type(self)).dump_json(self, **options), "utf-8")

    @classmethod
    def model_json_schema(cls, **options: Any) -> Json:
        """The JSON Schema of the fields. Takes pydantic's options, and needs pydantic."""
        schema: Json = _adapter(cls).json_schema(**options)
        return schema


def unchecked(cls: type[AnyModel], **fields: object) -> AnyModel:
    """A value of all its fields, which are known to be right."""
    made = object.__new__(cls)
    made.__dict__.update(fields)
    return made


def _named(cls: type[Model], values: tuple[object, ...], named: dict[str, object]) -> dict[str, object]:
    """All values of a call by the names of their fields."""
    placed = dict(zip((name for name, *_ in _plan(cls)), values, strict=False))
    if len(values) > len(placed) or placed.keys() & named.keys():
        raise TypeError(f"{cls.__name__} takes each of its {len(_plan(cls))} fields once")
    return placed | named


def _plan(cls: type[Any]) -> Plan:
    """Lists each field's name, the types that need no check, its check and what makes its default; once a class."""
    if cls not in PLANS:
        hints = get_type_hints(cls)
        declared = [(hints[each.name], each) for each in fields(cls)]
        PLANS[cls] = tuple((each.name, _exact(hint), _check(hint), _default(each)) for hint, each in declared)
    return PLANS[cls]


def _exact(hint: Any) -> frozenset[type]:
    """The types whose very values a field may have."""
    if get_origin(hint) is UnionType:
        return frozenset[type]().union(*map(_exact, get_args(hint)))
    return frozenset({hint}) if get_origin(hint) is None else frozenset()


def _default(declared: Field[Any]) -> Callable[[], object] | None:
    if declared.default_factory is not MISSING:
        return declared.default_factory
    return None if declared.default is MISSING else lambda: declared.default


def _check(hint: Any) -> Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        given = _check(arguments[0])
        return lambda value, path, mismatches: None if value is None else given(value, path, mismatches)
    if origin is list:
        return _list(_check(arguments[0]))
    if origin is dict:
        return _dictionary(*map(_check, arguments))
    if hint in PLAIN:
        return PLAIN[hint]
    return _member(hint) if issubclass(hint, Enum) else _value(hint)


def _text(value: object, path: Path, mismatches: list[Mismatch]) -> object:
    if isinstance(value, str):
        return str.__str__(value)
    mismatches.append(Mismatch("string_type", path, value))
    return value


def _truth(value: object, path: Path, mismatches: list[Mismatch]) -> object:
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and (word := value.lower()) in (*TRUE, *FALSE):
        return word in TRUE
    mismatches.append(Mismatch("bool_parsing" if isinstance(value, str | int) else "bool_type", path, value))
    return value


PLAIN: dict[Any, Check] = {str: _text, bool: _truth, Any: lambda value, path, mismatches: value}


def _member(kind: type[Enum]) -> Check:
    *most, last = [repr(member.value) for member in kind]
    expected = f"{', '.join(most)} or {last}"

    def check(value: object, path: Path, mismatches: list[Mismatch]) -> object:
        try:
            return kind(value)
        except ValueError:
            mismatches.append(Mismatch("enum", path, value, {"expected": expected}))
            return value

    return check


def _list(check: Check) -> Check:
    def check_all(value: object, path: Path, mismatches: list[Mismatch]) -> object:
        if isinstance(value, SEQUENCES):
            return [check(item, (*path, place), mismatches) for place, item in enumerate(value)]
        mismatches.append(Mismatch("list_type", path, value))
        return value

    return check_all


def _dictionary(key_check: Check, check: Check) -> Check:
    def check_all(value: object, path: Path, mismatches: list[Mismatch]) -> object:
        if isinstance(value, Mapping):
            places = {key: (*path, key if isinstance(key, str | int) else str(key)) for key in value}
            return {
                key_check(key, (*place, "[key]"), mismatches): check(value[key], place, mismatches)
                for key, place in places.items()
            }
        mismatches.append(Mismatch("dict_type", path, value))
        return value

    return check_all


def _value(kind: type[Model]) -> Check:
    def check(value: object, path: Path, mismatches: list[Mismatch]) -> object:
        if isinstance(value, kind):
            return value
        if isinstance(value, dict):
            return kind.read(value, path, mismatches)
        mismatches.append(Mismatch("model_type", path, value, {"class_name": kind.__name__}))
        return value

    return check


def _refuse(title: str, mismatches: list[Mismatch]) -> NoReturn:
    """Raises pydantic's error, or `ValueError` where pydantic is not loaded: nobody then catches the other."""
    core: Any = sys.modules.get("pydantic_core")
    if core is None:
        each = "; ".join(f"{'.'.join(map(str, p.path)) or 'it'}: {p.kind} ({p.found!r:.60})" for p in mismatches)
        raise ValueError(f"no {title} can be made of this: {each}")
    lines = [{"type": p.kind, "loc": p.path, "input": p.found, "ctx": dict(p.words)} for p in mismatches]
    raise core.ValidationError.from_exception_data(title, lines)


def _adapter(cls: type[Any]) -> Any:
    """Pydantic's own view of a class, which it takes a while to make."""
    if cls not in ADAPTERS:
        ADAPTERS[cls] = import_module("pydantic").TypeAdapter(cls)
    return ADAPTERS[cls]
