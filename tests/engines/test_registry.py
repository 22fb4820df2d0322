"""Kinds of engines by name."""

from __future__ import annotations

import inspect

import pytest

from antiphon.catalog import open_catalog
from antiphon.engines import EngineSettings, Scripted, engine_kind, engine_kinds
from antiphon.engines.registry import OWN
from antiphon.errors import ConfigError


@pytest.mark.parametrize("name", OWN)
def test_each_kind_of_the_table_knows_its_own_name(name: str) -> None:
    kind = engine_kind(name)
    assert issubclass(kind, EngineSettings)
    assert kind().kind == name
    assert name in engine_kinds()


def test_a_kind_that_is_handed_in_counts_first() -> None:
    class Mine(EngineSettings, frozen=True, kw_only=True, tag="scripted"):
        pass

    assert engine_kind("scripted") is Scripted
    assert engine_kind("scripted", {"scripted": Mine}) is Mine
    assert engine_kinds({"mine": Mine}) == tuple(sorted({*engine_kinds(), "mine"}))


def test_an_unknown_kind_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"unknown engine 'x'.*llama_cpp, llama_server, scripted, vllm") as caught:
        engine_kind("x")
    assert caught.value.code == "engine_unknown"


def test_no_signature_shows_the_environment() -> None:
    assert "environ(" not in str(inspect.signature(open_catalog))
