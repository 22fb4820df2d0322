"""Kinds of engines by name."""

from __future__ import annotations

import inspect

import pytest

from antiphon.catalog import open_catalog
from antiphon.engines import EngineSettings, Scripted, engine_kind, engine_kinds
from antiphon.engines.registry import built_in_kinds
from antiphon.errors import ConfigError


def test_each_module_of_an_engine_is_found_and_no_other() -> None:
    assert {"llama_cpp", "llama_server", "scripted", "vllm"} <= {*built_in_kinds()}
    assert {"server", "http", "kind", "registry"}.isdisjoint(built_in_kinds())


@pytest.mark.parametrize("name", built_in_kinds())
def test_each_built_in_kind_knows_its_own_name(name: str) -> None:
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
    known = ", ".join(built_in_kinds())
    with pytest.raises(ConfigError, match=rf"unknown engine 'x'.*{known}") as caught:
        engine_kind("x")
    assert caught.value.code == "engine_unknown"


@pytest.mark.parametrize("name", ["server", "http", "registry", "llama_cpp.engine", "", "../vllm"])
def test_a_module_that_is_no_engine_is_no_kind(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown engine"):
        engine_kind(name)


def test_no_signature_shows_the_environment() -> None:
    assert "environ(" not in str(inspect.signature(open_catalog))
