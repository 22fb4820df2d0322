"""What `open_model` makes of its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config import Config, ModelEntry, ModelFilesConfig
from antiphon.engines import Engine, EngineSettings, ModelSpec, Scripted, ScriptedEngine
from antiphon.engines.llama_cpp import LlamaCpp
from antiphon.engines.vllm import Vllm
from antiphon.errors import ConfigError, ModelError
from antiphon.library.opening import entry_of, open_model


class Parrot(EngineSettings, frozen=True, kw_only=True, tag="parrot"):
    says: str = "Hello!"

    async def open(self, model: ModelSpec) -> Engine:
        return ScriptedEngine(model.tokenizer.encode(self.says))


def test_a_server_is_named_by_its_url_kind_and_settings() -> None:
    settings = {"tokenizer": "o200k_harmony", "served_name": "big", "slots": 3}
    name, entry = entry_of("http://gpu:8000", "vllm", settings, Config())
    assert name == "gpu:8000"
    engine = Vllm(url="http://gpu:8000", served_name="big")
    assert entry == ModelEntry(engine=engine, tokenizer="o200k_harmony", slots=3)


def test_settings_change_those_of_the_model_s_entry() -> None:
    name, entry = entry_of("smollm2", None, {"threads": 2, "context": 99}, Config())
    assert (name, entry.engine, entry.context, entry.default_output_tokens) == (
        "smollm2",
        LlamaCpp(threads=2),
        99,
        1024,
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"url": "x"}, "grpc, llama_server, sglang and vllm"), ({"kontext": 1}, "context"), ({"slots": "x"}, "int")],
)
def test_a_setting_that_cannot_be_meant_is_reported(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        entry_of("smollm2", None, settings, Config())


def test_a_file_that_is_not_there_is_reported_with_those_beside_it(tmp_path: Path) -> None:
    config = Config(store=ModelFilesConfig(folder=str(tmp_path / "store")))
    with pytest.raises(ModelError) as caught, open_model(tmp_path / "missing.gguf", config=config):
        pass
    assert "hf:OWNER/REPO" in str(caught.value.hint)
    (tmp_path / "misssing.gguf").touch()
    with pytest.raises(ModelError) as caught, open_model(tmp_path / "missing.gguf", config=config):
        pass
    assert "misssing.gguf" in str(caught.value.hint)


@pytest.mark.parametrize("engine", [Parrot(says="Good day."), Scripted(reply="Good day.")])
def test_an_engine_of_one_s_own_is_handed_in(engine: EngineSettings, tmp_path: Path) -> None:
    with open_model("smollm2", engine=engine, config=Config()) as model:
        assert model.chat("Hi").text == "Good day."
