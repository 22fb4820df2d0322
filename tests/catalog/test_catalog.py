"""Names become models: once each, when first requested, for everybody who requests them."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from antiphon.catalog import Catalog, open_catalog
from antiphon.catalog.files.text import ModelText, gguf_text
from antiphon.catalog.format_choice import choose_format
from antiphon.catalog.known_formats import known_formats
from antiphon.config import Config, ModelEntry, ModelFilesConfig, load_config
from antiphon.conversation import Conversation, Incident, Message, Role
from antiphon.engines import Scripted, ScriptedEngine
from antiphon.engines.gguf_file import GgufValue
from antiphon.engines.llama_cpp import LlamaCpp
from antiphon.errors import ConfigError, ModelError, NotFoundError, TemplateError
from antiphon.formats.harmony import harmony
from antiphon.formats.harmony.controls import CONTROLS as HARMONY_CONTROLS
from antiphon.generation import Model, TurnRequest, collect, prepare_turn, run_turn
from antiphon.tokens import ByteTokenizer, Control, spell

SCRIPTED = ModelEntry(engine=Scripted(reply="Hello there."), aliases=("greeter",))
PLAIN = ModelText(tokenizer=ByteTokenizer())
ASK = Conversation((Message(role=Role.USER, text="Hi"),))


def config(tmp_path: Path, **fields: object) -> Config:
    plain = {"model": "demo", "models": {"demo": SCRIPTED}, "store": ModelFilesConfig(folder=str(tmp_path))}
    return Config(**{**plain, **fields})  # type: ignore[arg-type]  # the fields vary by test


async def reply_of(model: Model, conversation: Conversation = ASK) -> str:
    (reply,) = await collect(run_turn(await prepare_turn(model, TurnRequest(conversation=conversation))))
    return "".join(message.text for message in reply.messages)


async def test_a_name_becomes_a_model_that_answers(tmp_path: Path) -> None:
    catalog = open_catalog(config(tmp_path))
    model = await catalog.get("demo")
    assert await reply_of(model) == "Hello there."
    assert (catalog.default, catalog.names) == ("demo", ("demo", "all-minilm-l6-v2"))
    assert await catalog.get("greeter") is model
    await catalog.aclose()


async def test_a_catalog_takes_another_s_entries_and_keeps_what_did_not_change(tmp_path: Path) -> None:
    same = ModelEntry(engine=Scripted(reply="Same."))
    catalog = open_catalog(config(tmp_path, models={"demo": SCRIPTED, "same": same, "gone": same}))
    old, unchanged, gone = [await catalog.get(name) for name in ("demo", "same", "gone")]
    changed = ModelEntry(engine=Scripted(reply="Changed."), aliases=("new",))
    await catalog.take(open_catalog(config(tmp_path, model="same", models={"demo": changed, "same": same})))
    assert await catalog.get("same") is unchanged
    assert await reply_of(await catalog.get("new")) == "Changed."
    assert (catalog.default, set(catalog.loaded)) == ("same", {"same", "demo"})
    with pytest.raises(NotFoundError):
        await catalog.get("gone")
    assert [await reply_of(model) for model in (old, gone)] == ["Hello there.", "Same."]
    await catalog.aclose()


async def test_an_unknown_name_is_refused_and_never_a_path(tmp_path: Path) -> None:
    catalog = open_catalog(config(tmp_path))
    for name in ("demos", "/etc/passwd", str(tmp_path / "x.gguf"), "hf:a/b/c.gguf", ""):
        with pytest.raises(NotFoundError) as caught:
            await catalog.get(name)
        assert caught.value.code == "model_not_found"


async def test_a_model_that_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    catalog = open_catalog(config(tmp_path, model="smollm2"))
    with pytest.raises(ModelError, match="antiphon pull smollm2") as caught:
        await catalog.get("smollm2")
    assert caught.value.code == "model_not_here"


class Loads:
    """A loader that counts, and waits until it is let go."""

    def __init__(self) -> None:
        self.count = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, name: str, entry: ModelEntry) -> Model:
        self.count += 1
        await self.go.wait()
        if self.error:
            raise self.error
        return await open_catalog(Config(model="demo", models={"demo": SCRIPTED})).get("demo")


async def test_all_who_ask_at_once_wait_for_one_loading() -> None:
    load = Loads()
    catalog = Catalog({"demo": SCRIPTED}, listed=["demo"], load=load)
    asking = [asyncio.create_task(catalog.get(name)) for name in ("demo", "greeter", "demo")]
    await asyncio.sleep(0)
    assert catalog.loaded == {}
    load.go.set()
    models = await asyncio.gather(*asking)
    assert load.count == 1
    assert models[0] is models[1] is models[2]
    assert catalog.loaded == {"demo": models[0]}


async def test_one_who_goes_away_does_not_take_the_loading_from_the_others() -> None:
    load = Loads()
    catalog = Catalog({"demo": SCRIPTED}, listed=["demo"], load=load)
    leaver, stayer = asyncio.create_task(catalog.get("demo")), asyncio.create_task(catalog.get("demo"))
    await asyncio.sleep(0)
    leaver.cancel()
    load.go.set()
    assert (await stayer).name == "demo"
    assert load.count == 1


async def test_a_failed_loading_is_tried_again() -> None:
    load = Loads()
    load.go.set()
    load.error = ModelError("no")
    catalog = Catalog({"demo": SCRIPTED}, listed=["demo"], load=load)
    with pytest.raises(ModelError):
        await catalog.get("demo")
    load.error = None
    assert (await catalog.get("demo")).name == "demo"


async def test_closing_stops_what_runs_and_what_loads() -> None:
    load = Loads()
    catalog = Catalog({"demo": SCRIPTED}, listed=["demo"], load=load)
    waiting = asyncio.create_task(catalog.get("demo"))
    await asyncio.sleep(0)
    await catalog.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_default_comes_first_and_the_store_is_listed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.json").write_text('{"name":"other","file":"o.gguf","source":"/o.gguf","sha256":"","size":1}')
    models = {"a": ModelEntry(engine=Scripted()), "demo": SCRIPTED, "e": ModelEntry(task="embed", source="/e.gguf")}
    catalog = open_catalog(config(tmp_path, models=models))
    assert catalog.names == ("demo", "a", "e", "other", "all-minilm-l6-v2")


@pytest.mark.parametrize(("format", "start"), [(None, "<|im_start|>user"), ("vicuna", "A chat between")])
async def test_the_format_is_the_requested_one(tmp_path: Path, format: str | None, start: str) -> None:
    model = await open_catalog(config(tmp_path, format=format)).get("demo")
    assert spell(list(model.format.render(ASK))).startswith(start)


def test_a_file_says_how_its_model_is_spoken_to(caplog: pytest.LogCaptureFixture) -> None:
    tokens: list[GgufValue] = ["<s>", "</s>", "a"]
    types: list[GgufValue] = [3, 3, 1]
    metadata: dict[str, GgufValue] = {
        "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": 0,
    }
    format = choose_format("m", ModelEntry(), gguf_text(metadata), known_formats())
    assert list(format.render(ASK)) == [Control("<s>"), "[Hi]"]
    assert caplog.text == ""


def test_a_vocabulary_with_harmonys_controls_is_spoken_to_in_harmony() -> None:
    text = ModelText(tokenizer=ByteTokenizer(HARMONY_CONTROLS), template="{{ messages }}")
    format = choose_format("m", ModelEntry(), text, known_formats())
    assert format.name == "harmony"


def test_controls_that_come_as_text_are_read_where_the_models_table_says_so(tmp_path: Path) -> None:
    engine = '[models.oss.engine]\nkind = "scripted"\nreply = "x"\n'
    table = f'tokenizer = "o200k_harmony"\nharmony.spelled = true\n{engine}'
    (tmp_path / "config.toml").write_text(f"[models.oss]\n{table}")
    entry = load_config({"ANTIPHON_HOME": str(tmp_path)}).config.entries["oss"]
    text = ModelText(tokenizer=ByteTokenizer(HARMONY_CONTROLS))
    (tmp_path / "own.jinja").write_text("<|start|>{{ messages }}<|channel|><|message|>")
    own = replace(entry, chat_template=str(tmp_path / "own.jinja"))
    cases = ((entry, ["textual-specials"]), (own, ["textual-specials"]), (ModelEntry(), ["unmarked-final"]))
    for given, codes in cases:
        parser = choose_format("oss", given, text, known_formats()).parser()
        read = [*parser.feed(["<|channel|>final<|message|>x<|return|>"]), *parser.close()]
        assert [event.code for event in read if isinstance(event, Incident)] == codes


def test_a_model_without_any_template_gets_chatml_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="antiphon.catalog"):
        format = choose_format("m", ModelEntry(), PLAIN, known_formats())
    assert format.name == "chatml"
    assert "no chat template" in caplog.text


@pytest.mark.spec("MIE-20")
def test_without_a_fallback_a_model_without_any_template_is_refused() -> None:
    """Resolution M-03: at load time."""
    with pytest.raises(ModelError, match="'m' has no chat template") as caught:
        choose_format("m", ModelEntry(), PLAIN, known_formats(), fallback="")
    assert caught.value.code == "no_chat_template"


@pytest.mark.spec("MIE-19", "MIE-20")
def test_a_models_own_template_needs_no_other_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    text = replace(PLAIN, template="{% for m in messages %}[{{ m.content }}]{% endfor %}")
    format = choose_format("m", ModelEntry(), text, known_formats(), fallback="")
    assert list(format.render(ASK)) == ["[Hi]"]


async def test_an_unknown_format_is_refused_with_near_names(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="chatml"):
        await open_catalog(config(tmp_path, format="chatm")).get("demo")


PYTHON_TEMPLATE = """
@CHAT_TEMPLATES.register_module(name="mine")
class Mine(BaseTemplate):
    def decorate_prompt(self, prompt, sequence_start=True):
        return f"Q: {prompt} A:"

    def messages2prompt(self, messages, sequence_start=True):
        return "".join(self.decorate_prompt(m["content"]) for m in messages)
"""


@pytest.mark.parametrize(
    ("name", "text", "prompt"),
    [
        ("my.py", PYTHON_TEMPLATE, "Q: Hi A:"),
        ("my.jinja", "{% for m in messages %}[{{ m.content }}]{% endfor %}", "[Hi]"),
        ("my.json", '{"user": "U<", "eoh": ">", "assistant": "A<", "eoa": ">"}', "U<Hi>A<"),
    ],
)
async def test_a_chat_template_of_ones_own_is_read_from_a_file(
    tmp_path: Path, name: str, text: str, prompt: str
) -> None:
    (tmp_path / name).write_text(text)
    model = await open_catalog(config(tmp_path, chat_template=str(tmp_path / name))).get("demo")
    assert spell(list(model.format.render(ASK))) == prompt


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("absent.py", None, ConfigError),
        ("my.txt", "", ConfigError),
        ("my.py", "1/0", TemplateError),
        ("my.json", "{", TemplateError),
    ],
)
async def test_a_chat_template_that_cannot_be_used_is_reported(
    tmp_path: Path, name: str, text: str | None, error: type[Exception]
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(error, match=name):
        await open_catalog(config(tmp_path, chat_template=str(tmp_path / name))).get("demo")


async def test_the_catalog_has_the_last_word_about_sampling_and_context(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("""
        model = "demo"
        [models.demo]
        engine = "scripted"
        context = 100
        max_output_tokens = 7
        sampling = { temperature = 0.25 }
    """)
    model = await open_catalog(load_config({"ANTIPHON_HOME": str(tmp_path)}).config).get("demo")
    assert (settings_of(model)[0], model.context, model.max_output_tokens) == (0.25, 100, 7)
    assert isinstance(model.engine, ScriptedEngine)
    assert isinstance(model.tokenizer, ByteTokenizer)


def settings_of(model: Model) -> tuple[float | None, float | None, float | None]:
    values = {setting.name: setting.value for setting in model.facts.settings}
    return values.get("temperature"), values.get("top_p"), values.get("context")


async def shipped_model(tmp_path: Path, table: str = "", **flags: object) -> Model:
    """The shipped chat model's entry, whose catalogue says a temperature of 0 and a context of 8192."""
    (tmp_path / "config.toml").write_text(f'[models.smollm2]\nengine = "scripted"\n{table}')
    loaded = load_config({"ANTIPHON_HOME": str(tmp_path)}, {"model": "smollm2", **flags})
    return await open_catalog(loaded.config).get("smollm2")


JSON_SETTINGS = '{"model_name": "chatml", "session_len": 100, "temperature": 1.9}'
PYTHON_SETTINGS = """
@CHAT_TEMPLATES.register_module(name="mine")
class Mine(BaseTemplate):
    def __init__(self, session_len=100, temperature=1.9, **more):
        super().__init__(session_len=session_len, temperature=temperature, **more)
"""
DERIVED_SETTINGS = """
@CHAT_TEMPLATES.register_module(name="mine")
class Mine(CHAT_TEMPLATES.get("chatml")):
    def __init__(self):
        super().__init__(session_len=100)
        self.temperature = 1.9
"""


@pytest.mark.spec("LMD-03", "LMD-04", "LMD-05")
@pytest.mark.parametrize(
    ("name", "text"), [("my.json", JSON_SETTINGS), ("my.py", PYTHON_SETTINGS), ("derived.py", DERIVED_SETTINGS)]
)
async def test_what_a_users_template_says_counts_over_the_catalogue(tmp_path: Path, name: str, text: str) -> None:
    assert settings_of(await shipped_model(tmp_path)) == (0.0, 0.8, 8192)
    (tmp_path / name).write_text(text)
    model = await shipped_model(tmp_path, chat_template=str(tmp_path / name))
    assert settings_of(model) == (1.9, 0.8, 100)
    assert model.context == 100


@pytest.mark.spec("LMD-05", "LMD-15")
async def test_what_a_users_template_leaves_open_is_the_catalogues(tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text('{"user": "U<", "eoh": ">"}')
    assert settings_of(await shipped_model(tmp_path, chat_template=str(tmp_path / "my.json"))) == (0.0, 0.8, 8192)
    (tmp_path / "same.json").write_text('{"temperature": 0.8}')
    assert settings_of(await shipped_model(tmp_path, chat_template=str(tmp_path / "same.json"))) == (0.8, 0.8, 8192)


@pytest.mark.spec("LMD-05")
async def test_a_named_template_brings_its_settings_and_no_longer_context_than_the_model_has(tmp_path: Path) -> None:
    assert settings_of(await shipped_model(tmp_path, format="qwen-7b")) == (1.0, 0.5, 8192)
    assert settings_of(await shipped_model(tmp_path, format="internlm2")) == (0.0, 0.8, 8192)
    assert settings_of(await shipped_model(tmp_path, format="chatml")) == (0.0, 0.8, 8192)


@pytest.mark.spec("LMD-04", "LMD-12")
async def test_the_users_template_counts_over_the_users_own_table_and_lengthens_no_session(tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text(JSON_SETTINGS)
    table = "context = 500\nsampling = { temperature = 0.25 }"
    model = await shipped_model(tmp_path, table, chat_template=str(tmp_path / "my.json"))
    assert settings_of(model) == (1.9, 0.8, 100)
    (tmp_path / "my.json").write_text('{"session_len": 600}')
    model = await shipped_model(tmp_path, table, chat_template=str(tmp_path / "my.json"))
    assert settings_of(model) == (0.25, 0.8, 500)


async def test_the_default_model_answers(smollm2_path: Path, tmp_path: Path) -> None:
    entry = ModelEntry(source=str(smollm2_path), format="chatml", context=512, slots=1, engine=LlamaCpp(threads=1))
    catalog = open_catalog(config(tmp_path, model="real", models={"real": entry}))
    try:
        model = await catalog.get("real")
        question = Conversation((Message(role=Role.USER, text="What is the capital of France?"),))
        plan = await prepare_turn(model, TurnRequest(conversation=question, temperature=0.0, max_tokens=20))
        (reply,) = await collect(run_turn(plan))
        assert "Paris" in reply.messages[0].text
        assert model.context == 512
    finally:
        await catalog.aclose()


async def test_a_model_whose_file_was_deleted_since_it_was_described_is_not_here(
    smollm2_path: Path, tmp_path: Path
) -> None:
    (file := tmp_path / "a.gguf").symlink_to(smollm2_path)
    catalog = open_catalog(config(tmp_path, model="real", models={"real": ModelEntry(source=str(file))}))
    assert await catalog.describe("real") is not None
    file.unlink()
    with pytest.raises(ModelError) as gone:
        await catalog.get("real")
    assert gone.value.code == "model_not_here"
    await catalog.aclose()


async def test_a_model_is_as_old_as_its_authors_or_its_file_say(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    models = {"demo": SCRIPTED, "mine": ModelEntry(source=str(file)), "gone": ModelEntry(source="/gone.gguf")}
    catalog = open_catalog(config(tmp_path, models=models), clock=lambda: 1_750_000_000.5)
    ages = {name: catalog.created(name) for name in catalog.names}
    released = int(datetime(2021, 8, 30, tzinfo=UTC).timestamp())
    assert ages == {
        "demo": 1_750_000_000, "mine": 1_700_000_000, "gone": 1_750_000_000, "all-minilm-l6-v2": released
    }  # fmt: skip


def test_the_default_for_embeddings_is_the_sentence_encoder_unless_the_owner_says_otherwise(tmp_path: Path) -> None:
    models = {"demo": SCRIPTED, "e": ModelEntry(task="embed", source="/e.gguf", aliases=("em",))}
    assert open_catalog(config(tmp_path)).embedding == "all-minilm-l6-v2"
    assert open_catalog(config(tmp_path, models=models, embedding_model="em")).embedding == "e"
    assert open_catalog(config(tmp_path, models=models, model="e")).embedding == "e"
    nothing = open_catalog(config(tmp_path, embedding_model=""))
    assert (nothing.embedding, nothing.names) == (None, ("demo",))
    with pytest.raises(ConfigError, match="'demo' makes no embeddings"):
        open_catalog(config(tmp_path, embedding_model="greeter"))


@pytest.mark.parametrize(("name", "code"), [("e", "model_not_fetched"), ("f", "model_not_here")])
async def test_only_the_default_for_embeddings_is_fetched_by_who_asks_for_it(
    tmp_path: Path, name: str, code: str
) -> None:
    entry = ModelEntry(task="embed", source=str(tmp_path / "absent.gguf"))
    catalog = open_catalog(config(tmp_path, models={"demo": SCRIPTED, "e": entry, "f": entry}, embedding_model="e"))
    with pytest.raises(ModelError) as caught:
        await catalog.get(name)
    assert caught.value.code == code


def test_a_format_that_is_handed_in_may_not_have_the_name_of_a_built_in_one() -> None:
    with pytest.raises(ConfigError, match="harmony") as caught:
        known_formats({"harmony": harmony})
    assert caught.value.code == "format_exists"
