"""A table of a shipped model may be named by an alias, and gives it more aliases: it changes only what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.catalog import open_catalog
from antiphon.config import Config, ModelEntry, find_entry, load_config
from antiphon.engines import Scripted
from antiphon.errors import ConfigError

MINILM = "all-minilm-l6-v2"


def config_of(tmp_path: Path, text: str) -> Config:
    (tmp_path / "config.toml").write_text(text)
    return load_config({"ANTIPHON_HOME": str(tmp_path)}).config


@pytest.mark.parametrize("name", [MINILM, "minilm"])
def test_an_alias_of_the_embedding_model_is_added_to_those_that_it_has(tmp_path: Path, name: str) -> None:
    config = config_of(tmp_path, f'[models.{name}]\naliases = ["text-embedding-3-small"]')
    assert config.entries[MINILM].aliases == ("text-embedding-3-small", "minilm")
    assert config.entries[MINILM].task == "embed"
    assert "minilm" not in config.entries
    catalog = open_catalog(config)
    assert (catalog.embedding, catalog.names) == (MINILM, ("smollm2", MINILM))
    for alias in ("text-embedding-3-small", "minilm", MINILM):
        assert find_entry(alias, config.entries)[0] == MINILM


def test_tables_by_name_and_by_alias_are_one_model_s(tmp_path: Path) -> None:
    config = config_of(
        tmp_path, f'[models.minilm]\naliases = ["e"]\n[models.{MINILM}]\ncontext = 99\n[models.default]\nslots = 2'
    )
    assert (config.entries[MINILM].context, config.entries[MINILM].aliases) == (99, ("e", "minilm"))
    assert config.entries["smollm2"].slots == 2
    with pytest.raises(ConfigError, match=rf"models\.{MINILM}\.context|models\.minilm\.context"):
        config_of(tmp_path, f"[models.minilm]\ncontext = 5\n[models.{MINILM}]\ncontext = 99")


@pytest.mark.parametrize(
    "table", ['engine = "scripted"', 'source = "mine.gguf"', '[models.default.engine]\nkind = "scripted"']
)
def test_a_table_with_a_file_or_an_engine_of_its_own_is_a_model_of_its_own(tmp_path: Path, table: str) -> None:
    config = config_of(tmp_path, f"[models.default]\n{table}")
    assert find_entry("default", config.entries)[0] == "default"
    assert "default" not in config.entries["smollm2"].aliases
    assert config.entries["default"].format is None


def test_an_alias_that_the_user_gives_is_taken_from_the_shipped_model(tmp_path: Path) -> None:
    text = '[models.mine]\nengine = "scripted"\naliases = ["default"]\n'
    for more in ("", "[models.smollm2]\nslots = 2"):
        config = config_of(tmp_path, text + more)
        assert find_entry("default", config.entries)[0] == "mine"
        assert config.entries["smollm2"].aliases == ("smollm2:135m", "smollm2-135m", "smollm2-135m-instruct")


@pytest.mark.parametrize(
    "text",
    [
        '[models.a]\nengine = "scripted"\naliases = ["x"]\n[models.b]\nengine = "scripted"\naliases = ["x"]',
        '[models.a]\nengine = "scripted"\naliases = ["smollm2"]',
        '[models.a]\nengine = "scripted"\naliases = ["b"]\n[models.b]\nengine = "scripted"',
    ],
)
def test_an_alias_that_means_two_models_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"models\.[ab]\.aliases: .*another model"):
        config_of(tmp_path, text)


def test_a_program_s_entries_are_checked_too() -> None:
    entry = ModelEntry(engine=Scripted(), aliases=("x",))
    with pytest.raises(ConfigError, match="another model"):
        Config(models={"a": entry, "b": entry})
