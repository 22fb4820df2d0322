"""The tables of models: two spellings of an engine, its settings checked by its kind, and errors that name the key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.config import Config, ModelEntry, load_config
from antiphon.engines import Engine, EngineSettings, ModelSpec, Scripted, ScriptedEngine
from antiphon.engines.llama_cpp import LlamaCpp, LlamaServer
from antiphon.engines.vllm import Vllm
from antiphon.errors import ConfigError


class Echo(EngineSettings, frozen=True, kw_only=True, tag="echo"):
    times: int = 1

    async def open(self, model: ModelSpec) -> Engine:
        return ScriptedEngine(model.tokenizer.encode("echo " * self.times))


def entry(tmp_path: Path, table: str, **kinds: type[EngineSettings]) -> ModelEntry:
    (tmp_path / "config.toml").write_text(f"[models.said]\n{table}")
    return load_config({"ANTIPHON_HOME": str(tmp_path)}, engines=kinds).config.models["said"]


@pytest.mark.parametrize(
    ("flat", "table", "engine"),
    [
        ('engine = "scripted"\nreply = "Hi."\ndelay = 1', 'kind = "scripted"\nreply = "Hi."\ndelay = 1',
         Scripted(reply="Hi.", delay=1.0)),
        ("threads = 2", "threads = 2", LlamaCpp(threads=2)),
        ('engine = "llama_cpp"', 'kind = "llama_cpp"', LlamaCpp()),
        ('engine = "vllm"\nurl = "http://x"\nserved_name = "s"\nkey_variable = "K"\ngrammar = true\ntokenizer = "/t"',
         'kind = "vllm"\nurl = "http://x"\nserved_name = "s"\nkey_variable = "K"\ngrammar = true',
         Vllm(url="http://x", served_name="s", key_variable="K", grammar=True)),
        ('engine = "llama_server"\nurl = "http://x"\nkey_file = "/k"\ntokenizer = "/t"',
         'kind = "llama_server"\nurl = "http://x"\nkey_file = "/k"', LlamaServer(url="http://x", key_file="/k")),
    ],
)  # fmt: skip
def test_the_short_spelling_is_read_as_the_engine_s_table(
    tmp_path: Path, flat: str, table: str, engine: EngineSettings
) -> None:
    tokenizer = 'tokenizer = "/t"\n' if "tokenizer" in flat else ""
    assert entry(tmp_path, flat).engine == engine
    assert entry(tmp_path, flat) == entry(tmp_path, f"{tokenizer}[models.said.engine]\n{table}")


@pytest.mark.parametrize("table", ['engine = "vlm"', '[models.said.engine]\nkind = "vlm"'])
def test_an_unknown_engine_is_reported_with_its_model_and_the_engines_there_are(tmp_path: Path, table: str) -> None:
    with pytest.raises(ConfigError, match="unknown engine 'vlm'") as caught:
        entry(tmp_path, table, echo=Echo)
    assert caught.value.position is not None
    assert caught.value.position.path == "models.said.engine.kind"
    assert "Did you mean vllm?" in str(caught.value)
    assert all(kind in str(caught.value) for kind in ("echo", "llama_cpp", "llama_server", "scripted"))


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        ('[models.said.engine]\nkind = "scripted"\nreplay = "x"', "engine.replay", "Did you mean reply"),
        ('[models.said.engine]\nkind = "scripted"\nurl = "x"', "engine.url", "grpc, llama_server, sglang and vllm"),
        ('[models.said.engine]\nkind = "scripted"\ndelay = "x"', "engine.delay", "Expected `float`, got `str`"),
        ('reply = "x"\n[models.said.engine]\nkind = "scripted"', "reply", "[models.said.engine]"),
        ("engine = 3", "engine.kind", "Expected `str`"),
        ("sampling = { temperature = true }", "sampling.temperature", "Expected `float | null`"),
    ],
)
def test_what_is_wrong_with_a_setting_is_reported_with_its_key(
    tmp_path: Path, table: str, key: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        entry(tmp_path, table)
    assert caught.value.position is not None
    assert caught.value.position.path == f"models.said.{key}"
    assert f"models.said.{key}" in str(caught.value)
    assert words in str(caught.value)
    assert str(tmp_path / "config.toml") in str(caught.value) or key == "engine.kind"


def test_an_engine_that_is_handed_in_is_configured_as_built_in_ones_are(tmp_path: Path) -> None:
    assert entry(tmp_path, "[models.said.engine]\nkind = 'echo'\ntimes = 3", echo=Echo).engine == Echo(times=3)
    assert entry(tmp_path, "engine = 'echo'", echo=Echo).engine == Echo()
    with pytest.raises(ConfigError, match=r"models\.said\.engine\.times: Expected `int`"):
        entry(tmp_path, "[models.said.engine]\nkind = 'echo'\ntimes = 'x'", echo=Echo)


def test_a_table_of_a_shipped_model_changes_its_engine_s_settings_or_its_engine(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[models.smollm2]\nthreads = 2")
    changed = load_config({"ANTIPHON_HOME": str(tmp_path)}).config.entries["smollm2"]
    assert (changed.engine, changed.context) == (LlamaCpp(threads=2), 8192)
    file.write_text('[models.smollm2]\nengine = "scripted"\nreply = "x"')
    other = load_config({"ANTIPHON_HOME": str(tmp_path)}).config.entries["smollm2"]
    assert (other.engine, other.context) == (Scripted(reply="x"), 8192)


def test_each_setting_of_an_engine_is_listed_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[models.said]\nengine = "scripted"\nreply = "Hi."\naliases = ["a"]')
    rows = {key: (value, origin) for key, value, origin in load_config({"ANTIPHON_HOME": str(tmp_path)}).rows()}
    file = str(tmp_path / "config.toml")
    assert rows["models.said.engine.kind"] == ("scripted", file)
    assert rows["models.said.engine.reply"] == ("Hi.", file)
    assert rows["models.said.aliases"] == (("a",), file)


def test_a_program_s_own_entry_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"models\.far\.engine\.url: .*without /v1"):
        Config(models={"far": ModelEntry(engine=Vllm(url="http://x/v1"), tokenizer="/t")})


def test_reading_a_configuration_loads_no_http_client(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[models.said]\nengine = "scripted"')
    code = f"""
import sys
from antiphon.config import load_config
load_config({{"ANTIPHON_HOME": {str(tmp_path)!r}}})
assert "aiohttp" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
