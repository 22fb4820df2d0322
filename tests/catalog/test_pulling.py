"""Models that are fetched and deleted while a catalog serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.catalog import Catalog, open_catalog
from antiphon.config import load_config
from antiphon.errors import ModelError, NotFoundError
from kit.waiting import until

CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "chatml"
aliases = ["mine"]
[models.tiny]
source = "{source}"
aliases = ["small"]
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"bytes" * 1000)
    return file


@pytest.fixture
async def catalog(tmp_path: Path, source: Path) -> AsyncIterator[Catalog]:
    (tmp_path / "config.toml").write_text(CONFIG.format(source=source))
    environ = {"ANTIPHON_HOME": str(tmp_path), "ANTIPHON_STORE_FOLDER": str(tmp_path / "models")}
    opened = open_catalog(load_config(environ).config)
    yield opened
    await opened.aclose()


async def test_whoever_asks_while_a_model_is_fetched_joins(catalog: Catalog, source: Path) -> None:
    pull = catalog.pull("tiny")
    assert catalog.pull("small") is pull
    installed = await pull.done
    assert (pull.name, pull.completed, pull.total) == ("tiny", 5000, 5000)
    source.unlink()
    assert catalog.is_here("tiny")
    assert (await catalog.pull("tiny").done) == installed  # What is here is not fetched again.


async def test_a_model_that_was_fetched_is_listed_and_one_that_was_deleted_is_not(
    catalog: Catalog, source: Path
) -> None:
    catalog.names = ("demo",)
    await catalog.pull("tiny").done
    assert [*catalog.names] == ["demo", "tiny"]
    await catalog.remove("small")
    assert [*catalog.names] == ["demo"]
    assert catalog.is_here("tiny")  # where the configuration has it, which is not the store's to delete
    source.unlink()
    assert not catalog.is_here("tiny")
    with pytest.raises(NotFoundError):
        await catalog.remove("tiny")


async def test_what_another_process_fetched_or_deleted_is_seen_when_it_says_so(
    catalog: Catalog, source: Path, tmp_path: Path
) -> None:
    environ = {"ANTIPHON_HOME": str(tmp_path), "ANTIPHON_STORE_FOLDER": str(tmp_path / "models")}
    heard: list[str] = []
    other = open_catalog(load_config(environ).config, changed=heard.append)
    catalog.names = ("demo",)
    await other.pull("tiny").done
    await until(lambda: heard == ["tiny"])
    await catalog.refresh("tiny")
    assert [*catalog.names] == ["demo", "tiny"]
    source.unlink()
    await other.remove("small")
    assert heard == ["tiny", "tiny"]
    await catalog.refresh("tiny")
    await catalog.refresh("nobody")
    assert [*catalog.names] == ["demo"]
    await other.aclose()


async def test_a_pull_that_failed_can_be_begun_anew(catalog: Catalog, source: Path) -> None:
    content = source.read_bytes()
    source.unlink()
    with pytest.raises(ModelError):
        await catalog.pull("tiny").done
    source.write_bytes(content)
    assert (await catalog.pull("tiny").done).size == 5000


async def test_only_entries_with_a_source_are_fetched_and_no_path_is_a_name(catalog: Catalog, source: Path) -> None:
    assert catalog.is_here("mine")
    for name in ("demo", "nobody", str(source), "hf:owner/repo/file.gguf", "../tiny"):
        with pytest.raises(NotFoundError):
            catalog.pull(name)
