"""Models that other programs have on this machine: found, listed and run by their names there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from antiphon.config import find_entry
from antiphon.config.found import MODEL_LAYER, found_model, found_models
from antiphon.errors import NotFoundError
from kit.program import in_process

DIGEST = "0" * 63 + "a"


def manifest(digest: str, media: str = MODEL_LAYER) -> str:
    layers = [{"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:1"}]
    return json.dumps({"schemaVersion": 2, "layers": [*layers, {"mediaType": media, "digest": digest, "size": 9}]})


@pytest.fixture
def machine(tmp_path: Path) -> Mapping[str, str]:
    """A home with a model of each program, and what is none."""
    names = f"{tmp_path}/.ollama/models/manifests"
    small = "GGUF and so on"
    files = {
        f"{tmp_path}/.ollama/models/blobs/sha256-{DIGEST}": small,
        f"{tmp_path}/.ollama/models/blobs/secret": small,
        f"{names}/registry.ollama.ai/library/llama3.2/latest": manifest(f"sha256:{DIGEST}"),
        f"{names}/registry.ollama.ai/me/own/1b": manifest(f"sha256:{DIGEST}"),
        f"{names}/hf.co/o/r-GGUF/Q4_K_M": manifest(f"sha256:{DIGEST}"),
        f"{names}/registry.ollama.ai/library/gone/latest": manifest("sha256:" + "1" * 64),
        f"{names}/registry.ollama.ai/library/outside/latest": manifest("sha256:../secret"),
        f"{names}/registry.ollama.ai/library/torn/latest": manifest(f"sha256:{DIGEST}")[:-9],
        f"{names}/registry.ollama.ai/library/odd/latest": "[]",
        f"{names}/registry.ollama.ai/library/large/latest": " " * 2**21,
        f"{tmp_path}/.lmstudio/models/o/r/Qwen3-4B-Q4_K_M.gguf": small,
        f"{tmp_path}/.lmstudio/models/o/r/mmproj-Qwen3-4B.gguf": small,
        f"{tmp_path}/.cache/llama.cpp/o_r_gemma.gguf": small,
        f"{tmp_path}/.cache/huggingface/hub/models--o--r/snapshots/abc/sub/phi-Q8_0.gguf": small,
        f"{tmp_path}/.cache/huggingface/hub/models--o--r/snapshots/abc/phi-F16-00001-of-00002.gguf": small,
    }
    gone = tmp_path / ".cache/huggingface/hub/models--o--r/snapshots/abc/aaa-Q4_0.gguf"
    gone.parent.mkdir(parents=True)
    gone.symlink_to(tmp_path / "nothing")
    for path, content in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content)
    return {"HOME": str(tmp_path)}


def test_each_program_s_models_are_found_by_their_names_and_nothing_else_is(machine: Mapping[str, str]) -> None:
    assert sorted((model.name, model.program) for model in found_models(machine)) == [
        ("Qwen3-4B-Q4_K_M", "LM Studio"), ("hf.co/o/r-GGUF:Q4_K_M", "Ollama"), ("llama3.2:latest", "Ollama"),
        ("me/own:1b", "Ollama"), ("o_r_gemma", "llama.cpp"), ("phi-Q8_0", "Hugging Face"),
    ]  # fmt: skip


@pytest.mark.parametrize("variable", ["OLLAMA_MODELS", "LLAMA_CACHE", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"])
def test_a_folder_is_where_its_program_s_variable_says(
    machine: Mapping[str, str], variable: str, tmp_path: Path
) -> None:
    moved = {**machine, variable: str(tmp_path / "nothing")}
    assert len([*found_models(moved)]) < len([*found_models(machine)])


@pytest.mark.parametrize("name", ["llama3.2", "LLAMA3.2", "llama3.2:latest"])
def test_ollama_s_tag_and_the_letters_case_may_be_left_out(machine: Mapping[str, str], name: str) -> None:
    found = found_model(name, machine)
    assert found is not None
    assert (found.name, found.path.name) == ("llama3.2:latest", f"sha256-{DIGEST}")


def test_each_name_that_is_listed_is_the_model_s_name_elsewhere_too(
    machine: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", machine["HOME"])
    for model in found_models(machine):
        name, entry = find_entry(model.name, {})
        assert (name, entry.source) == (model.name, str(model.path))


def test_it_is_listed_and_searched_with_its_program(machine: Mapping[str, str], tmp_path: Path) -> None:
    listed = in_process("models", "--json", home=tmp_path / "own", **machine)
    rows = {row["name"]: row for row in json.loads(listed.stdout)["models"]}
    assert (rows["llama3.2:latest"]["state"], rows["llama3.2:latest"]["size"]) == ("Ollama", 14)
    found = in_process("models", "search", "QWEN", home=tmp_path / "own", **machine)
    assert found.stdout.split()[:3] == ["Qwen3-4B-Q4_K_M", "LM", "Studio"]
    none = in_process("models", "search", "nothing", home=tmp_path / "own", **machine)
    assert (none.returncode, "hf:OWNER/REPO" in none.stderr) == (2, True)


def test_an_unknown_model_is_told_how_else_models_are_named(
    machine: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", machine["HOME"])
    with pytest.raises(NotFoundError) as caught:
        find_entry("llama4", {})
    for way in ("hf:OWNER/REPO", "GGUF file", "Ollama"):
        assert way in str(caught.value.hint)


@pytest.mark.parametrize("command", ["pull", "rm"])
def test_a_table_of_ones_own_with_a_colon_is_no_other_program_s_model(tmp_path: Path, command: str) -> None:
    (tmp_path / "config.toml").write_text('[models."my:model"]\nsource = "hf:a/b/c.gguf"\n')
    done = in_process(command, "my:model", home=tmp_path)
    assert done.returncode != 0
    assert "'my:model' is not a model's name" in done.stderr
