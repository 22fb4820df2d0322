"""What a model's configuration, its catalogue entry, its template and its files say, and which of them counts."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from antiphon.catalog import open_catalog
from antiphon.catalog.describe import described_lines, layers_of
from antiphon.catalog.files.text import ModelText, gguf_text
from antiphon.catalog.known_formats import check_models, known_formats
from antiphon.config import Config, EngineConfig, ModelEntry, ModelFilesConfig, SamplingEntry, load_config
from antiphon.engines import EngineSettings, Scripted
from antiphon.engines.gguf_file import GgufValue
from antiphon.engines.grpc import Grpc
from antiphon.engines.llama_cpp.kind import LlamaCpp
from antiphon.engines.llama_server import LlamaServer
from antiphon.engines.sglang import Sglang
from antiphon.engines.vllm import Vllm
from antiphon.errors import ConfigError
from antiphon.formats import SamplingDefaults
from antiphon.generation import Model, ModelFacts, Source, settings
from antiphon.generation.precedence import with_defaults
from antiphon.tokens import ByteTokenizer

SHIPPED = '[models.smollm2]\nengine = "scripted"\n'
TEMPLATE = {"model_name": "chatml", "session_len": 300, "temperature": 1.5, "top_p": 0.25, "top_k": 9,
            "repetition_penalty": 1.125}  # fmt: skip
TABLE = """
context = 400
default_output_tokens = 77
sampling = { temperature = 0.5, top_p = 0.5, top_k = 5, min_p = 0.5, repetition_penalty = 1.5 }
"""


async def facts_of(
    tmp_path: Path, table: str = "", environ: dict[str, str] | None = None, **flags: object
) -> ModelFacts:
    model = await model_of(tmp_path, table, environ, **flags)
    return model.facts


async def model_of(tmp_path: Path, table: str = "", environ: dict[str, str] | None = None, **flags: object) -> Model:
    """The shipped chat model on a scripted engine, under a configuration."""
    (tmp_path / "config.toml").write_text(SHIPPED + table)
    given = {name.replace("__", "."): value for name, value in flags.items()}
    loaded = load_config({"ANTIPHON_HOME": str(tmp_path), **(environ or {})}, {"model": "smollm2", **given})
    return await open_catalog(loaded.config).get("smollm2")


def sources(facts: ModelFacts) -> dict[str, tuple[float, Source]]:
    return {one.name: (one.value, one.source) for one in facts.settings}


async def test_each_setting_of_the_shipped_model_names_its_source(tmp_path: Path) -> None:
    assert sources(await facts_of(tmp_path)) == {
        "temperature": (0.0, Source.CATALOGUE),
        "top_p": (0.8, Source.MODEL),
        "top_k": (0, Source.DEFAULT),
        "min_p": (0.0, Source.DEFAULT),
        "repetition_penalty": (1.0, Source.MODEL),
        "max_tokens": (1024, Source.CATALOGUE),
        "context": (8192, Source.CATALOGUE),
    }


async def test_a_table_counts_over_the_catalogue_also_where_it_says_the_same(tmp_path: Path) -> None:
    found = sources(await facts_of(tmp_path, TABLE))
    assert {name: value for name, (value, source) in found.items() if source is Source.CONFIGURATION} == {
        "temperature": 0.5, "top_p": 0.5, "top_k": 5, "min_p": 0.5, "repetition_penalty": 1.5, "max_tokens": 77,
        "context": 400,
    }  # fmt: skip
    same = sources(await facts_of(tmp_path, "context = 8192\ndefault_output_tokens = 1024\nsampling.temperature = 0"))
    assert [same[name][1] for name in ("context", "max_tokens", "temperature")] == [Source.CONFIGURATION] * 3


@pytest.mark.spec("LMD-03", "LMD-04", "LMD-05")
async def test_a_users_template_counts_over_the_table(tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text(json.dumps(TEMPLATE))
    found = sources(await facts_of(tmp_path, TABLE, chat_template=str(tmp_path / "my.json")))
    said = {"temperature": 1.5, "top_p": 0.25, "top_k": 9, "repetition_penalty": 1.125, "context": 300}
    assert {name: value for name, (value, source) in found.items() if source is Source.TEMPLATE} == said
    assert (found["min_p"], found["max_tokens"]) == ((0.5, Source.CONFIGURATION), (77, Source.CONFIGURATION))


@pytest.mark.parametrize(
    ("table", "environ", "flags", "context"),
    [
        ("", {}, {"engine__context": 512}, 512),
        ("[engine]\ncontext = 512", {}, {}, 512),
        ("", {"ANTIPHON_ENGINE_CONTEXT": "512"}, {}, 512),
        ("context = 600\n[engine]\ncontext = 512", {}, {}, 600),
        ("context = 600\n[engine]\ncontext = 512", {"ANTIPHON_ENGINE_CONTEXT": "700"}, {}, 700),
        ("context = 600\n[engine]\ncontext = 512", {"ANTIPHON_ENGINE_CONTEXT": "700"}, {"engine__context": 800}, 800),
    ],
)
async def test_the_context_is_the_flag_s_the_variable_s_the_table_s_or_the_engine_s(
    tmp_path: Path, table: str, environ: dict[str, str], flags: dict[str, object], context: int
) -> None:
    model = await model_of(tmp_path, table, environ, **flags)
    assert (model.context, model.engine.info.context) == (context, context)


def test_a_model_that_embeds_has_its_own_context_whatever_all_engines_are_given(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[models.minilm]\ncontext = 128\n[engine]\ncontext = 99")
    config = load_config({"ANTIPHON_HOME": str(tmp_path)}, {"engine.context": 512}).config
    assert config.entries["all-minilm-l6-v2"].context == 128


async def test_a_flag_for_all_models_counts_over_the_table_of_one_of_an_earlier_source(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[models.smollm2]\nslots = 2\nthreads = 3\n[engine]\nslots = 5")
    plain = load_config({"ANTIPHON_HOME": str(tmp_path)}).config
    assert plain.entries["smollm2"].slots == 2
    flagged = load_config({"ANTIPHON_HOME": str(tmp_path)}, {"engine.slots": 7, "engine.threads": 1}).config
    entry = flagged.entries["smollm2"]
    assert (entry.slots, getattr(entry.engine, "threads", 0), flagged.engine.slots) == (None, None, 7)


@pytest.mark.parametrize(
    ("file", "flags", "spoken"),
    [
        ('format = "vicuna"', {}, "vicuna"),
        ('chat_template = "my.json"', {"format": "vicuna"}, "vicuna"),
        ('format = "vicuna"', {"chat_template": "my.json"}, "chatml"),
        ("", {"chat_template": "my.json"}, "chatml"),
    ],
)
async def test_the_later_of_a_format_and_a_template_is_spoken(
    tmp_path: Path, file: str, flags: dict[str, str], spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.json").write_text(json.dumps(TEMPLATE))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text(f"{file}\n{SHIPPED}")
    loaded = load_config({"ANTIPHON_HOME": str(tmp_path)}, flags)
    assert (await open_catalog(loaded.config).get("smollm2")).format.name == spoken


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ('format = "chatml"\nchat_template = "my.json"', {}),
        ("", {"format": "chatml", "chat_template": "my.json"}),
        ('[models.smollm2]\nformat = "chatml"\nchat_template = "my.json"', {}),
    ],
)
def test_a_format_and_a_template_at_once_are_refused(tmp_path: Path, text: str, flags: dict[str, str]) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"format (?:and|or) a chat_template"):
        load_config({"ANTIPHON_HOME": str(tmp_path)}, flags)


@pytest.mark.parametrize(
    "text",
    [
        'format = "nosuch"',
        'chat_template = "nosuch.json"',
        '[models.m]\nsource = "m.gguf"\nformat = "nosuch"',
        '[models.m]\nsource = "m.gguf"\nchat_template = "nosuch.json"',
        '[models.m]\nsource = "m.gguf"\nreplies = "nosuch.toml"',
    ],
)
def test_what_no_model_could_speak_is_found_before_any_is_loaded(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    config = load_config({"ANTIPHON_HOME": str(tmp_path)}).config
    with pytest.raises(ConfigError, match="nosuch") as caught:
        check_models(config)
    assert caught.value.position is not None


class Mine(EngineSettings, frozen=True, kw_only=True, tag="mine"):
    """An engine of a package that says nothing of it: it need not know min_p."""


def opinions(entry: ModelEntry, text: ModelText) -> dict[str, tuple[float, Source]]:
    format = known_formats().get("qwen-7b", ())
    layers = layers_of("m", entry, EngineConfig(), text, format, catalogue="m")
    return {one.name: (one.value, one.source) for one in settings(layers)}


def test_what_the_catalogue_says_counts_over_the_model_s_files_and_they_over_its_format() -> None:
    own = SamplingDefaults(temperature=0.25, top_p=0.25, top_k=2, min_p=0.25, repetition_penalty=1.25)
    text = ModelText(tokenizer=ByteTokenizer(), sampling=own)
    found = opinions(ModelEntry(format="qwen-7b", from_catalogue=frozenset({"format"})), text)
    assert found["temperature"] == (0.25, Source.MODEL)
    assert found["min_p"] == (0.25, Source.MODEL)
    sampling = SamplingEntry(temperature=0.5, top_p=0.5, top_k=5, min_p=0.5, repetition_penalty=1.5)
    keys = frozenset({"format", *(f"sampling.{name}" for name in SamplingEntry.__struct_fields__)})
    found = opinions(ModelEntry(format="qwen-7b", sampling=sampling, from_catalogue=keys), text)
    assert {found[name] for name in ("temperature", "top_p", "min_p")} == {(0.5, Source.CATALOGUE)}
    assert (found["top_k"], found["repetition_penalty"]) == ((5, Source.CATALOGUE), (1.5, Source.CATALOGUE))


def test_a_gguf_file_s_recommendations_are_its_model_s() -> None:
    metadata: dict[str, GgufValue] = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.token_type": [1],
        "tokenizer.ggml.merges": [], "general.sampling.temp": 0.5, "general.sampling.top_k": 20,
        "general.sampling.top_p": "no number", "general.sampling.penalty_repeat": True,
    }  # fmt: skip
    assert gguf_text(metadata).sampling == SamplingDefaults(temperature=0.5, top_k=20)


@pytest.mark.parametrize("engine", [LlamaCpp(), LlamaServer(url="http://h"), Scripted()])
def test_a_model_that_nobody_recommends_settings_for_is_truncated_where_llama_cpp_runs_it(
    engine: EngineSettings,
) -> None:
    """Resolution X-54."""
    found = shape_of(engine)
    assert found == {"temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05}


@pytest.mark.parametrize("engine", [Vllm(url="http://h"), Sglang(url="http://h"), Grpc(url="grpc://h"), Mine()])
def test_elsewhere_nothing_is_cut_off_as_these_servers_do_and_some_refuse_min_p(engine: EngineSettings) -> None:
    assert shape_of(engine) == {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}


def shape_of(engine: EngineSettings) -> dict[str, float]:
    format = known_formats().get("openchatml", ())
    text = ModelText(tokenizer=ByteTokenizer())
    layers = layers_of("m", ModelEntry(engine=engine), EngineConfig(), text, format, catalogue="m")
    found = {one.name: one.value for one in settings(with_defaults(layers))}
    return {name: found[name] for name in ("temperature", "top_p", "top_k", "min_p")}


def test_a_number_that_no_request_could_have_is_refused_of_users_and_left_out_of_files(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="antiphon.catalog"):
        odd = ModelText(tokenizer=ByteTokenizer(), sampling=SamplingDefaults(temperature=9.0))
        assert opinions(ModelEntry(), odd)["temperature"] == (1.0, Source.MODEL)
    assert "temperature" in caplog.text
    with pytest.raises(ConfigError, match=r"models\.m: temperature is 9"):
        opinions(ModelEntry(sampling=SamplingEntry(temperature=9.0)), ModelText(tokenizer=ByteTokenizer()))


async def test_the_same_file_by_path_and_by_name_answers_the_same(smollm2_path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.symlink_to(smollm2_path)
    config = Config(
        model="copy",
        models={
            "copy": ModelEntry(source=str(copy)),
            "named": ModelEntry(source=str(copy), format="vicuna", context=99),
            "smollm2": ModelEntry(source=str(smollm2_path)),
        },
        store=ModelFilesConfig(folder=str(tmp_path)),
    )
    catalog = open_catalog(config)
    facts = await catalog.describe("copy")
    assert facts is not None
    assert {one.name: one.value for one in facts.settings} == {
        "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "max_tokens": 1024,
        "context": 8192,
    }  # fmt: skip
    assert (facts.format, facts.context, facts.default_output_tokens) == ("copy/chat_template", 8192, 1024)
    assert facts.trained_context == 8192
    assert "context 8192 (catalogue: smollm2)" in list(described_lines(facts))
    own = await catalog.describe("named")
    assert own is not None
    assert (own.format, own.context, own.settings[0].value) == ("vicuna", 99, 0.0)


async def test_a_file_of_the_same_size_alone_is_not_the_catalogue_s(smollm2_path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    content = bytearray(smollm2_path.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    catalog = open_catalog(Config(model="other", models={"other": ModelEntry(source=str(other))}))
    facts = await catalog.describe("other")
    assert facts is not None
    assert facts.format == "other/chat_template"
    assert "format other/chat_template (model: the chat template of its files)" in list(described_lines(facts))
    assert not [one for one in facts.settings if one.source is Source.CATALOGUE]


async def test_a_context_for_all_models_that_one_on_a_server_does_not_take_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = ModelEntry(engine=Vllm(url="http://127.0.0.1:9"), tokenizer="o200k_harmony", max_output_tokens=9)
    config = Config(model="far", models={"far": entry}, engine=EngineConfig(context=512))
    with caplog.at_level(logging.WARNING, logger="antiphon.catalog"):
        facts = await open_catalog(config).describe("far")
    assert facts is not None
    assert (facts.context, facts.default_output_tokens) == (None, 9)
    assert "far: engine.context is not for a model on a server" in caplog.text
    assert "context: as its server has it" in list(described_lines(facts))


async def test_a_model_without_a_catalogue_entry_answers_as_long_as_all_models_do(tmp_path: Path) -> None:
    config = Config(model="demo", models={"demo": ModelEntry(engine=Scripted())})
    facts = (await open_catalog(config).get("demo")).facts
    assert facts.default_output_tokens == 16384
    limited = ModelEntry(engine=Scripted(), default_output_tokens=0, max_output_tokens=30)
    facts = (await open_catalog(Config(model="demo", models={"demo": limited})).get("demo")).facts
    assert facts.default_output_tokens == 30
    endless = ModelEntry(engine=Scripted(), default_output_tokens=0)
    facts = (await open_catalog(Config(model="demo", models={"demo": endless})).get("demo")).facts
    assert facts.default_output_tokens is None
