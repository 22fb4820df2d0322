"""`import antiphon` costs nothing until something is used, and offers a short list of documented names."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import antiphon
from antiphon.library.app import Additions
from antiphon.library.options import ChatOptions
from kit.waiting import PATIENCE


def test_importing_antiphon_imports_none_of_its_parts() -> None:
    code = "import sys, antiphon; print(sorted(name for name in sys.modules if name.startswith('antiphon.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == "['antiphon.exports']"


@pytest.mark.parametrize("name", antiphon.__all__)
def test_each_name_is_there_and_says_what_it_is_for(name: str) -> None:
    value = getattr(antiphon, name)
    assert inspect.getdoc(value)
    assert name in dir(antiphon)


def test_the_list_of_names_is_short() -> None:
    assert 10 <= len(antiphon.__all__) <= 18


def test_help_lists_what_may_be_given() -> None:
    def missing(named: object, names: Iterable[str]) -> list[str]:
        return [name for name in names if f"{name}:" not in (inspect.getdoc(named) or "")]

    options = ChatOptions.__annotations__
    assert missing(antiphon.ChatModel.chat, options) == []
    assert missing(antiphon.AsyncChatModel.chat, options) == []
    assert missing(antiphon.ChatOptions, options) == []
    assert missing(antiphon.open_app, ["config", "flags", "preload", *Additions.__annotations__]) == []
    assert missing(antiphon.open_model, inspect.signature(antiphon.open_model).parameters) == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne_model'"):
        antiphon.opne_model  # type: ignore[attr-defined]  # noqa: B018 - looking it up is the test


def test_a_name_stays_what_it_is_when_parts_are_imported() -> None:
    code = (
        "import antiphon.library.text, antiphon.api, antiphon.cli, antiphon\n"
        "assert all(callable(getattr(antiphon, name)) for name in antiphon.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=PATIENCE, check=True)


def test_type_checkers_may_read_the_package() -> None:
    assert (Path(antiphon.__file__).parent / "py.typed").exists()
