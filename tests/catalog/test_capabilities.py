"""What a model file can do here and what it cannot is said before anybody asks it: by pull, by doctor, by serve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy
import pytest

from antiphon.catalog import open_catalog
from antiphon.catalog.capabilities import capability_fields, capability_lines
from antiphon.catalog.describe import described_lines
from antiphon.config import Config, EngineConfig, ModelEntry, ModelFilesConfig
from antiphon.engines import Scripted
from antiphon.engines.llama_cpp.kind import LlamaCpp
from antiphon.engines.vllm import Vllm
from antiphon.generation import ModelFacts
from antiphon.tokens.bytelevel import LETTER_OF_BYTE
from kit.family_templates import FAMILIES
from kit.program import environment, in_process
from kit.terminal import at_terminal
from kit.workers import workers

PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"  # noqa: E501
DEAF = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
TRAINED = 512
LICENSED = {"general.license": "other", "general.license.name": "qwen-research"}
NO_KEYS: Mapping[str, str | float] = {}
SUBJECTS = ["vocabulary", "template", "tools", "thinking", "context", "memory", "licence"]


def tiny(
    folder: Path, template: str | None = PLAIN, *, vocabulary: str = "gpt2", keys: Mapping[str, str | float] = NO_KEYS
) -> Path:
    """A file of one tensor with a vocabulary of bytes: what describes a model is all there, and no layer."""
    path = folder / "tiny.gguf"
    tokens = [*LETTER_OF_BYTE.values(), "th", "<|im_start|>", "<|im_end|>"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(TRAINED)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_tokenizer_model(vocabulary)
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 257 + [3, 3])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(258)
    if template is not None:
        writer.add_chat_template(template)
    for key, value in keys.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_float32(key, value)
    writer.add_tensor("token_embd.weight", numpy.zeros((len(tokens), 32), dtype=numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


async def facts_of(path: Path, *, memory_mib: int = 0, **settings: Any) -> ModelFacts:
    entry = ModelEntry(source=str(path), **settings)
    config = Config(
        model="tiny",
        models={"tiny": entry},
        engine=EngineConfig(memory_mib=memory_mib),
        store=ModelFilesConfig(folder=str(path.parent / "store")),
    )
    facts = await open_catalog(config).describe("tiny")
    assert facts is not None
    return facts


async def fields_of(path: Path, **settings: Any) -> Mapping[str, Any]:
    return capability_fields((await facts_of(path, **settings)).capabilities)


async def test_a_model_of_which_all_is_known_has_a_line_a_subject_and_no_warning(tmp_path: Path) -> None:
    path = tiny(tmp_path, FAMILIES["hermes"], keys=LICENSED)
    facts = await facts_of(path)
    fields: Mapping[str, Any] = capability_fields(facts.capabilities)
    assert list(fields) == [*SUBJECTS, "warnings"]
    assert fields["warnings"] == []
    assert fields["vocabulary"] == "gpt2 (qwen2), 259 tokens, encoded as the engine does"
    assert fields["template"].startswith("tiny/chat_template (model: the chat template of its files); ")
    assert fields["tools"] == "calls in its template's form, proven"
    assert fields["thinking"] == "told from the answer"
    assert fields["context"] == "512 tokens of 512 that it was trained on"
    assert fields["licence"] == "other (qwen-research)"
    assert "MiB needed" in fields["memory"]
    lines = list(capability_lines(facts.capabilities))
    assert [line.partition(":")[0] for line in lines] == SUBJECTS
    assert not [line for line in lines if "warning" in line]


@pytest.mark.parametrize(
    ("template", "settings", "tools", "warnings"),
    [
        (PLAIN, {}, "taught: prompts say how to call, its template does not", []),
        (PLAIN, {"teach_tools": False}, "its prompts cannot offer any", ["tools"]),
        (None, {}, "calls in the form of chatml", ["template"]),
        (PLAIN, {"format": "vicuna"}, "its prompts cannot offer any", ["tools"]),
        (PLAIN, {"format": "harmony"}, "calls in Harmony's own form", []),
        (PLAIN, {"format": "chatml"}, "calls in the form of chatml", []),
        (DEAF, {"teach_tools": False}, "its prompts cannot offer any", ["template", "tools"]),
    ],
)
async def test_tools_are_proven_taught_or_none_and_a_template_that_loses_something_is_named(
    template: str | None, settings: Mapping[str, Any], tools: str, warnings: list[str], tmp_path: Path
) -> None:
    fields = await fields_of(tiny(tmp_path, template), **settings)
    assert (fields["tools"], fields["warnings"]) == (tools, warnings)


async def test_a_model_without_a_template_is_told_what_it_is_spoken_to_in_and_what_helps(tmp_path: Path) -> None:
    facts = await facts_of(tiny(tmp_path, None))
    line = next(line for line in capability_lines(facts.capabilities) if line.startswith("template"))
    assert line.startswith("template: warning: chatml (default: its files have no chat template) (--chat-template FILE")


@pytest.mark.parametrize(
    ("configured", "says", "lacking"),
    [
        (None, "512 tokens of 512 that it was trained on", False),
        (100, "100 tokens of 512 that it was trained on", False),
        (512, "512 tokens of 512 that it was trained on", False),
        (2000, "512 tokens: it was trained on no more, and 2,000 are configured", True),
    ],
)
async def test_a_context_names_what_the_model_was_trained_on(
    configured: int | None, says: str, lacking: bool, tmp_path: Path
) -> None:
    fields = await fields_of(tiny(tmp_path), context=configured)
    assert (fields["context"], "context" in fields["warnings"]) == (says, lacking)


async def test_a_model_that_needs_more_memory_than_all_may_have_is_known_before_it_is_loaded(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    little, enough = await fields_of(path, memory_mib=1), await fields_of(path, memory_mib=500)
    assert little["warnings"] == ["memory"]
    assert little["memory"].endswith("1 MiB for all models (engine.memory_mib)")
    assert enough["warnings"] == []


@pytest.mark.parametrize("key", ["mirostat", "xtc_probability"])
async def test_a_recommendation_that_is_not_followed_is_named(key: str, tmp_path: Path) -> None:
    fields = await fields_of(tiny(tmp_path, keys={f"general.sampling.{key}": 2.0}))
    assert fields["sampling"] == f"its file recommends {key} 2.0, which is left out"
    assert fields["warnings"] == ["sampling"]
    assert "sampling" not in await fields_of(tiny(tmp_path, keys={f"general.sampling.{key}": 0.0}))


async def test_a_file_s_recommendation_is_whole_in_what_is_described(tmp_path: Path) -> None:
    facts = await facts_of(tiny(tmp_path, keys={"general.sampling.temp": 0.5}))
    assert {one.name: (one.value, one.origin) for one in facts.settings if one.name in ("temperature", "top_k")} == {
        "temperature": (0.5, "model: its files"), "top_k": (0, "default")
    }  # fmt: skip
    assert "context 512 (model: what it was trained on)" in list(described_lines(facts))


async def test_a_model_that_says_a_script_or_runs_elsewhere_has_what_is_known_of_it() -> None:
    config = Config(
        model="demo",
        models={
            "demo": ModelEntry(engine=Scripted()),
            "far": ModelEntry(engine=Vllm(url="http://127.0.0.1:9"), tokenizer="o200k_harmony"),
        },
    )
    catalog = open_catalog(config)
    for name, subjects in (("demo", SUBJECTS[:5]), ("far", SUBJECTS[:5])):
        facts = await catalog.describe(name)
        assert facts is not None
        fields = capability_fields(facts.capabilities)
        assert (list(fields), fields["warnings"]) == ([*subjects, "warnings"], [])
    assert fields["context"] == "as its server has it"


async def test_a_model_that_embeds_has_no_template_no_tools_and_no_thoughts(minilm_path: Path, tmp_path: Path) -> None:
    config = Config(
        model="e",
        models={"e": ModelEntry(source=str(minilm_path), task="embed", engine=LlamaCpp())},
        store=ModelFilesConfig(folder=str(tmp_path)),
    )
    facts = await open_catalog(config).describe("e")
    assert facts is not None
    assert list(capability_fields(facts.capabilities)) == ["vocabulary", "context", "memory", "licence", "warnings"]


def test_pull_says_what_the_file_can_do_and_what_it_cannot(tmp_path: Path) -> None:
    """The format that the configuration's top names is its default model's, and not what is pulled beside that."""
    path, home = tiny(tmp_path, None), tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('format = "vicuna"\n')
    told = in_process("pull", str(path), home=home).stdout
    assert "\n  template: warning: chatml (default: its files have no chat template)" in told
    assert "\n  licence: not said in its file\n" in told
    fields = json.loads(in_process("pull", str(path), "--json", home=home).stdout)
    assert (fields["name"], fields["warnings"]) == ("tiny", ["template"])
    assert fields["context"] == "512 tokens of 512 that it was trained on"


def test_a_file_that_cannot_be_used_is_pulled_with_a_warning_and_fails_the_doctor(tmp_path: Path) -> None:
    path = tiny(tmp_path, vocabulary="klingon")
    done = in_process("pull", str(path), home=tmp_path / "home")
    assert done.returncode == 0
    why = "tiny.gguf: neither our tables nor the engine can encode this vocabulary: unknown tokenizer: 'klingon'"
    assert f"\n  warning: {why}" in done.stdout
    doctor = in_process("doctor", "--model", str(path), home=tmp_path / "home")
    assert doctor.returncode == 1
    assert (
        f"fail  model {path}: tiny.gguf: neither our tables nor the engine can encode this vocabulary" in doctor.stdout
    )


def test_doctor_and_show_say_the_same_of_the_default_model(smollm2_path: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'model = "{smollm2_path}"\nserver.port = 0\n')
    doctor = json.loads(in_process("doctor", "--json", home=tmp_path).stdout)
    able = doctor["capabilities"]
    assert able["warnings"] == []
    assert able["vocabulary"] == "gpt2 (smollm), 49,152 tokens, encoded as the engine does"
    assert able["licence"].lower() == "apache-2.0"
    found = {finding["what"]: finding["state"] for finding in doctor["findings"]}
    assert found[f"vocabulary: {able['vocabulary']}"] == "ok"
    shown = json.loads(in_process("models", "show", str(smollm2_path), "--json", home=tmp_path).stdout)
    stays = [name for name in able if name != "memory"]  # so many bytes are free at one moment
    assert {name: shown["capabilities"][name] for name in stays} == {name: able[name] for name in stays}


SERVED = 'model = "demo"\n[models.demo]\nengine = "scripted"\nformat = "vicuna"\n'


def test_a_server_says_at_its_start_what_its_model_cannot_do(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(SERVED)
    with at_terminal("serve", "--port", "0", environ=environment(tmp_path)) as terminal:
        terminal.until("context: 2,048 tokens")
        shown = terminal.raw.decode()
    assert "template: vicuna (configuration: format vicuna)" in shown
    assert "tools: warning: its prompts cannot offer any (name a template that can" in shown


def test_the_announcement_of_several_processes_has_them_as_fields(tmp_path: Path) -> None:
    with workers(tmp_path, SERVED) as running:
        fields: dict[str, Any] = {**running.announced}
    assert (fields["tools"], fields["warnings"]) == ("its prompts cannot offer any", ["tools"])
    assert fields["url"].startswith("http://127.0.0.1:")
