"""The models that the catalogue names: their facts, their names, and the table of the docs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from antiphon.catalog.describe import shipped_file
from antiphon.catalog.files.sources import HubSource, parse_source
from antiphon.config import Config, ModelEntry, find_entry, load_config, shipped_entries
from antiphon.config.found import MODEL_LAYER
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppSettings
from antiphon.engines.llama_cpp.model_file import ModelFile
from antiphon.errors import ConfigError, NotFoundError
from kit.program import in_process

CHATS = {name: entry for name, entry in shipped_entries().items() if entry.task == "chat"}
PAGE = Path(__file__).parents[2] / "docs" / "choosing-a-model.md"
PUBLISHERS = {"Qwen", "ggml-org", "bartowski"}
"""Owners of repositories on the hub, of whom docs/choosing-a-model.md says why."""


def table() -> str:
    """The catalogue as the docs have it."""
    rows = [
        f"| `{name}` | {', '.join(f'`{one}`' for one in entry.aliases if ':' in one or one in name)} "
        f"| {gigabytes(entry.size)} | {gigabytes(entry.memory)} | {entry.licence} | {entry.tested} |"
        for name, entry in CHATS.items()
    ]
    head = "| name | also | download, GB | memory, GB | licence | what was tried of it |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def gigabytes(size: int | None) -> str:
    assert size is not None
    return f"{size / 1e9:.1f}"


def test_the_page_has_the_table_of_the_catalogue() -> None:
    assert table() in PAGE.read_text("utf-8")


@pytest.mark.parametrize("name", CHATS)
def test_each_chat_model_names_its_file_its_needs_and_its_trial(name: str) -> None:
    entry = CHATS[name]
    assert re.fullmatch("[0-9a-f]{64}", entry.sha256 or "")
    assert (entry.memory or 0) > (entry.size or 0) > 0
    assert entry.licence
    assert entry.tested.startswith("run: ") or entry.tested.endswith("not these weights")
    assert entry.defaults.temperature is not None
    source = parse_source(entry.source or "")
    if isinstance(source, HubSource):
        assert source.repository.partition("/")[0] in PUBLISHERS
        assert source.path.endswith(".gguf")


def test_the_memory_is_what_the_engine_reckons(smollm2_path: Path) -> None:
    file = ModelFile(smollm2_path, smollm2_path.stat().st_size, read_gguf_metadata(smollm2_path))
    assert file.needs(LlamaCppSettings(model=smollm2_path, context=8192, slots=4)) == CHATS["smollm2"].memory


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("qwen3", "qwen3-8b"), ("qwen3:4b", "qwen3-4b"), ("Qwen3", "qwen3-8b"), ("llama3.2", "llama3.2-3b"),
        ("gpt-oss:20b", "gpt-oss-20b"), ("QWEN2.5-CODER:1.5B", "qwen2.5-coder-1.5b"), ("SmolLM2", "smollm2"),
    ],
)  # fmt: skip
def test_a_model_goes_by_its_name_of_ollama_in_small_or_large_letters(name: str, own: str) -> None:
    assert find_entry(name, Config().entries)[0] == own


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("https://huggingface.co/o/r-GGUF", "hf:o/r-GGUF"),
        ("huggingface.co/o/r-GGUF:Q8_0", "hf:o/r-GGUF:Q8_0"),
        ("https://huggingface.co/o/r/resolve/main/a.gguf?download=true", "hf:o/r/a.gguf"),
        ("https://hf.co/o/r/blob/main/sub/a.gguf", "hf:o/r/sub/a.gguf"),
    ],
)
def test_an_address_of_the_hub_is_its_repository_or_its_file(name: str, source: str) -> None:
    assert find_entry(name, {})[1].source == source


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Qwen/Qwen3-4B-GGUF", "it is hf:Qwen/Qwen3-4B-GGUF"),
        ("qwen2.5coder:1.5b", "Did you mean qwen2.5-coder:1.5b"),
        ("mistral", "Known: all-minilm-l6-v2, gpt-oss-20b, llama3.2-3b"),
    ],
)
def test_a_name_that_nobody_has_says_what_there_is(name: str, hint: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        find_entry(name, Config().entries)
    assert hint in str(caught.value.hint)
    assert "hf:OWNER/REPO[:QUANT]" in str(caught.value.hint)


@pytest.fixture
def ollama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ollama's file of a name that the catalogue has, too."""
    digest = "0" * 64
    manifest = tmp_path / ".ollama/models/manifests/registry.ollama.ai/library/llama3.2/latest"
    blob = tmp_path / f".ollama/models/blobs/sha256-{digest}"
    manifest.parent.mkdir(parents=True)
    blob.parent.mkdir()
    blob.write_text("GGUF")
    manifest.write_text(json.dumps({"layers": [{"mediaType": MODEL_LAYER, "digest": f"sha256:{digest}"}]}))
    monkeypatch.setenv("HOME", str(tmp_path))
    return blob


def test_what_is_here_comes_before_what_the_catalogue_would_fetch(ollama: Path) -> None:
    assert find_entry("llama3.2", Config().entries) == (
        "llama3.2:latest", ModelEntry(source=str(ollama), title="of Ollama")
    )  # fmt: skip
    assert find_entry("llama3.2-3b", Config().entries)[0] == "llama3.2-3b"
    mine = Config(models={"mine": ModelEntry(source="m.gguf", aliases=("llama3.2",))})
    assert find_entry("llama3.2", mine.entries)[0] == "mine"


def test_what_another_program_has_is_neither_fetched_nor_removed(ollama: Path, tmp_path: Path) -> None:
    pulled = in_process("pull", "llama3.2", home=tmp_path / "home", HOME=str(tmp_path))
    assert (pulled.returncode, str(ollama) in pulled.stdout) == (0, True)
    removed = in_process("rm", "llama3.2", home=tmp_path / "home", HOME=str(tmp_path))
    assert removed.returncode == 2
    assert "is not in the store" in removed.stderr
    assert ollama.exists()


def test_a_mirror_needs_the_digest_of_its_file() -> None:
    with pytest.raises(ConfigError, match=r"models\.m\.mirrors"):
        Config(models={"m": ModelEntry(source="hf:o/r/a.gguf", mirrors=("a.gguf",))})


def test_a_large_file_is_known_by_the_digest_in_its_name_and_is_not_read(tmp_path: Path) -> None:
    entry = CHATS["qwen3-8b"]
    for name, known in ((f"sha256-{entry.sha256}", "qwen3-8b"), ("mine.gguf", None)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(entry.size)  # holds nothing
        assert shipped_file(ModelEntry(), tmp_path / name) == known


def test_a_table_whose_name_has_a_dot_and_no_quotes_says_how_to_write_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[models.llama3.2-3b]\ncontext = 4096\n")
    with pytest.raises(ConfigError) as caught:
        load_config({"ANTIPHON_HOME": str(tmp_path)})
    assert 'models."llama3.2-3b"' in str(caught.value.hint)
