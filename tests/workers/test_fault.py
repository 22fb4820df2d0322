"""Errors between processes: whatever one of ours has, it has on the other side too."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.errors import AntiphonError, ContextError, Position
from antiphon.errors.fault import Fault

OWN = {"position": Position(1, 2, 3, "n"), "retry_after": 7.5, "tokens": 9, "limit": 8}


def kinds(base: type[AntiphonError] = AntiphonError) -> list[type[AntiphonError]]:
    ours = [kind for kind in base.__subclasses__() if kind.__module__ == "antiphon.errors"]
    return [base, *(kind for each in ours for kind in kinds(each))]


def crossed(error: AntiphonError) -> Exception:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(Fault.of(error)), type=Fault).error()


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_nothing_of_an_error_is_lost(kind: type[AntiphonError]) -> None:
    bare, full = kind("It failed."), kind("It failed.", code="particular", hint="Try again.")
    full.add_note("in a file")
    names = {name for each in kind.__mro__ for name in getattr(each, "__annotations__", {})} | set(vars(full))
    for name in names - {"default_code", "message", "code", "hint", "__notes__"}:
        setattr(full, name, OWN[name])  # an attribute that is new in a class must be carried, or is missed here
    for error in (bare, full):
        came = crossed(error)
        assert type(came) is kind
        assert [getattr(came, name, None) for name in names] == [getattr(error, name, None) for name in names]


def test_a_class_of_another_module_arrives_as_its_base_even_where_ours_has_its_name() -> None:
    error = type("OverloadedError", (ContextError,), {"default_code": "very_particular"})("Too long.")
    assert (type(crossed(error)), vars(crossed(error))) == (
        ContextError,
        {**vars(error), "tokens": None, "limit": None},
    )


@pytest.mark.parametrize("name", ["OfTomorrow", "near", "Position", ""])
def test_a_class_that_is_not_known_here_is_an_error_of_an_engine(name: str) -> None:
    assert str(Fault(name, "It failed.").error()) == "It failed."
