"""Models that servers of others run: a real llama.cpp server, and vLLM's wire over a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from antiphon.catalog import open_catalog
from antiphon.catalog.catalog import Catalog
from antiphon.catalog.files.text import read_model_text
from antiphon.config import O200K, Config, ModelEntry, ModelFilesConfig, load_config
from antiphon.conversation import Conversation, JsonSchema, Message, ResponseFormat, Role
from antiphon.engines import Sampling
from antiphon.engines.grpc import Grpc
from antiphon.engines.llama_cpp import LlamaCpp, LlamaServer
from antiphon.engines.sglang import Sglang as SglangSettings
from antiphon.engines.vllm import Vllm as VllmSettings
from antiphon.errors import AntiphonError, ConfigError, EngineError, EngineLostError, ModelError, OverloadedError
from antiphon.formats import SamplingDefaults
from antiphon.generation import TurnRequest, collect, embed, plan_embedding, prepare_turn, run_turn
from antiphon.tokens import Control
from kit.grpc_server import Script, SglangServicer, VllmServicer, grpc_server
from kit.sglang_server import Sglang
from kit.vllm_server import CONTEXT, Vllm

QUESTION = Message(role=Role.USER, text="What is the capital of France?")


def catalog_of(entry: ModelEntry, tmp_path: Path, **environ: str) -> Catalog:
    config = Config(model="there", models={"there": entry}, store=ModelFilesConfig(folder=str(tmp_path)))
    return open_catalog(config, environ=environ)


def llama(url: str, smollm2_path: Path) -> ModelEntry:
    server = LlamaServer(url=url, key_variable="LLAMA_KEY")
    return ModelEntry(engine=server, tokenizer=str(smollm2_path), format="chatml")


async def test_a_llama_server_answers_and_holds_a_schema(llama_server: str, smollm2_path: Path, tmp_path: Path) -> None:
    catalog = catalog_of(llama(llama_server, smollm2_path), tmp_path, LLAMA_KEY="sesame")
    model = await catalog.get("there")
    assert (model.context, model.engine.info.grammar) == (256, True)
    plan = await prepare_turn(
        model, TurnRequest(conversation=Conversation((QUESTION,)), temperature=0.0, max_tokens=20)
    )
    (reply,) = await collect(run_turn(plan))
    assert "Paris" in reply.messages[0].text
    city: JsonSchema = {"enum": ["Paris", "Rome"]}
    schema: JsonSchema = {
        "type": "object", "properties": {"city": city}, "required": ["city"], "additionalProperties": False
    }  # fmt: skip
    chat = Conversation((QUESTION,), response_format=ResponseFormat("json_schema", schema=schema, strict=True))
    (reply,) = await collect(
        run_turn(await prepare_turn(model, TurnRequest(conversation=chat, temperature=1.0, seed=1, max_tokens=40)))
    )
    assert json.loads(reply.messages[0].text)["city"] in ("Paris", "Rome")
    await catalog.aclose()


async def test_a_key_may_lie_in_a_file_and_is_never_shown(
    llama_server: str, smollm2_path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key"
    file.write_text("sesame\n")
    server = LlamaServer(url=llama_server, key_file=str(file))
    entry = msgspec.structs.replace(llama(llama_server, smollm2_path), engine=server)
    catalog = catalog_of(entry, tmp_path)
    assert (await catalog.get("there")).context == 256
    await catalog.aclose()
    file.write_text("open-secret")
    with pytest.raises(EngineError, match="401") as caught:
        await catalog_of(entry, tmp_path).get("there")
    assert "open-secret" not in f"{caught.value} {caplog.text}"


@pytest.mark.parametrize("environ", [{}, {"LLAMA_KEY": " "}, {"LLAMA_KEY": "two\nlines"}])
async def test_a_key_that_is_not_where_it_should_be_is_reported_by_its_place(
    environ: dict[str, str], smollm2_path: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="LLAMA_KEY") as caught:
        await catalog_of(llama("http://127.0.0.1:1", smollm2_path), tmp_path, **environ).get("there")
    assert "lines" not in str(caught.value)


async def test_another_models_tokenizer_is_caught_before_it_spoils_a_prompt(
    llama_server: str, smollm2_path: Path, tmp_path: Path
) -> None:
    entry = msgspec.structs.replace(llama(llama_server, smollm2_path), tokenizer=O200K)
    with pytest.raises(ModelError) as caught:
        await catalog_of(entry, tmp_path, LLAMA_KEY="sesame").get("there")
    assert caught.value.code == "tokenizer_mismatch"


async def test_a_llama_server_embeds_as_the_embedded_engine_does(
    llama_embedder: str, minilm_path: Path, tmp_path: Path
) -> None:
    config = Config(
        model="there",
        models={
            "there": msgspec.structs.replace(llama(llama_embedder, minilm_path), task="embed", format=None),
            "here": ModelEntry(task="embed", source=str(minilm_path), context=256, slots=1, engine=LlamaCpp(threads=1)),
        },
        store=ModelFilesConfig(folder=str(tmp_path)),
    )
    catalog = open_catalog(config, environ={"LLAMA_KEY": "sesame"})
    texts = ["Hello there", "Paris is in France."]
    there, here = [await embed(plan_embedding(await catalog.get(name), texts)) for name in ("there", "here")]
    for one, other in zip(there.vectors, here.vectors, strict=True):
        assert sum(a * b for a, b in zip(one, other, strict=True)) > 0.999
    await catalog.aclose()


async def test_vllm_is_asked_what_it_serves_and_whether_it_holds_grammars(vllm: Vllm, tmp_path: Path) -> None:
    catalog = catalog_of(ModelEntry(engine=VllmSettings(url=vllm.url), tokenizer=O200K), tmp_path)
    model = await catalog.get("there")
    assert (model.name, model.format.name, model.engine.info.context) == ("there", "harmony", CONTEXT)
    assert not model.engine.info.grammar  # This one ignores the grammar.
    assert model.compiler is None
    assert vllm.requests[0]["model"] == "toy"
    await catalog.aclose()


async def test_a_name_that_the_server_does_not_have_is_reported_with_those_it_has(vllm: Vllm, tmp_path: Path) -> None:
    entry = ModelEntry(engine=VllmSettings(url=vllm.url, served_name="gpt"), tokenizer=O200K)
    with pytest.raises(EngineError, match="toy"):
        await catalog_of(entry, tmp_path).get("there")


async def test_a_server_that_is_not_there_yet_is_asked_again(unused_tcp_port: int, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    catalog = catalog_of(ModelEntry(engine=VllmSettings(url=url), tokenizer=O200K), tmp_path)
    with pytest.raises(OverloadedError, match=r"models\.there\.engine\.url") as caught:
        await catalog.get("there")
    assert caught.value.code == "engine_unreachable"
    assert url not in str(caught.value)  # Callers have no business with our network.
    runner = web.AppRunner(Vllm().app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
    assert (await catalog.get("there")).name == "there"
    await catalog.aclose()
    await runner.cleanup()


async def test_a_server_that_comes_back_is_asked_anew_what_it_is(unused_tcp_port: int, tmp_path: Path) -> None:
    catalog = catalog_of(
        ModelEntry(engine=VllmSettings(url=f"http://127.0.0.1:{unused_tcp_port}"), tokenizer=O200K), tmp_path
    )

    @asynccontextmanager
    async def up(server: Vllm) -> AsyncIterator[None]:
        runner = web.AppRunner(server.app())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
        try:
            yield
        finally:
            await runner.cleanup()

    first, second = Vllm(), Vllm()
    async with up(first):
        model = await catalog.get("there")
        assert await catalog.get("there") is model
    with pytest.raises(OverloadedError):
        await anext(model.engine.generate([1], Sampling(max_tokens=1)))
    with pytest.raises(OverloadedError, match=r"models\.there\.engine\.url"):
        await catalog.get("there")
    with pytest.raises(OverloadedError, match="lost"):  # It is closed, so that nothing gathers.
        await anext(model.engine.generate([1], Sampling(max_tokens=1)))
    second.name = "another"
    async with up(second):
        model = await catalog.get("there")
        await anext(model.engine.generate([1], Sampling(max_tokens=1)))
        assert second.requests[-1]["model"] == "another"
    await catalog.aclose()


async def test_a_grpc_server_that_comes_back_may_be_another(unused_tcp_port: int, tmp_path: Path) -> None:
    engine = Grpc(url=f"grpc://127.0.0.1:{unused_tcp_port}", share_cache=True, grammar=False)
    catalog = catalog_of(ModelEntry(engine=engine, tokenizer=O200K), tmp_path)
    with pytest.raises(OverloadedError, match=r"models\.there\.engine\.url"):
        await catalog.get("there")
    async with grpc_server(VllmServicer(Script(waits_after=1)), port=unused_tcp_port):
        model = await catalog.get("there")
        steps = model.engine.generate([1], Sampling(max_tokens=4))
        await anext(steps)
    with pytest.raises(EngineLostError):
        await anext(steps)
    with pytest.raises(OverloadedError, match=r"models\.there\.engine\.url"):
        await catalog.get("there")
    async with grpc_server(SglangServicer(Script()), port=unused_tcp_port):
        model = await catalog.get("there")
        await anext(model.engine.generate([1], Sampling(max_tokens=1)))
    await catalog.aclose()


async def test_an_sglang_server_whose_vocabulary_is_another_is_found_out(sglang: Sglang, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        await catalog_of(ModelEntry(engine=SglangSettings(url=sglang.url), tokenizer=O200K), tmp_path).get("there")
    assert caught.value.code == "tokenizer_mismatch"


SERVER = 'engine = "vllm"\nurl = "http://127.0.0.1:1"\ntokenizer = "o200k_harmony"\n'
TABLE = 'tokenizer = "t"\n[models.far.engine]\nkind = "vllm"\n'


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        ('engine = "vllm"\ntokenizer = "t"', "engine.url", "needs a url"),
        ('engine = "vllm"\nurl = "ftp://x"\ntokenizer = "t"', "engine.url", "needs a url"),
        ('engine = "vllm"\nurl = "http://[::1"\ntokenizer = "t"', "engine.url", "no URL"),
        ('engine = "vllm"\nurl = "http://me:secret@x"\ntokenizer = "t"', "engine.url", "key_variable"),
        ('engine = "llama_server"\nurl = "http://x"', "tokenizer", "needs a tokenizer"),
        ('engine = "vllm"\nurl = "http://x/v1"\ntokenizer = "t"', "engine.url", "without /v1"),
        (SERVER + 'key_variable = "ANTIPHON_KEY"', "engine.key_variable", "begins with ANTIPHON_"),
        (SERVER + 'source = "x.gguf"', "source", "source is the server's"),
        (SERVER + "threads = 2", "engine.threads", "threads is for the engine llama_cpp"),
        (SERVER.replace("vllm", "llama_server") + 'served_name = "x"', "engine.served_name", "for the engine vllm"),
        (SERVER + 'key_variable = "A"\nkey_file = "b"', "engine.key_file", "cannot both"),
        (SERVER + 'task = "embed"', "task", "embeddings"),
        (TABLE + 'url = "http://x/v1"', "engine.url", "without /v1"),
        (TABLE + 'url = "http://x"\nkey_variable = "A"\nkey_file = "b"', "engine.key_file", "cannot both"),
        (TABLE + "url = 5", "engine.url", "Expected `str`"),
        ('url = "http://x"', "engine.url", "url is for the engines grpc, llama_server, sglang and vllm"),
        ('tokenizer = "t"', "tokenizer", "vocabulary of its model's file"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused_with_its_key(tmp_path: Path, table: str, key: str, words: str) -> None:
    (tmp_path / "config.toml").write_text(f"[models.far]\n{table}")
    with pytest.raises(ConfigError, match=words) as caught:
        load_config({"ANTIPHON_HOME": str(tmp_path)})
    assert caught.value.position is not None
    assert caught.value.position.path == f"models.far.{key}"
    assert f"models.far.{key}" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("table", [False, True])
def test_relative_paths_of_a_server_are_relative_to_the_configuration(tmp_path: Path, table: bool) -> None:
    engine = '[models.a.engine]\nkind = "vllm"\n' if table else 'engine = "vllm"\n'
    text = f'[models.b]\n{SERVER}\n[models.a]\ntokenizer = "hf"\n{engine}url = "http://x"\nkey_file = "key"\n'
    (tmp_path / "config.toml").write_text(text)
    models = load_config({"ANTIPHON_HOME": str(tmp_path)}).config.models
    server = VllmSettings(url="http://x", key_file=str(tmp_path / "key"))
    assert (models["a"].tokenizer, models["a"].engine) == (str(tmp_path / "hf"), server)
    assert models["b"].tokenizer == O200K


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Hugging Face folder with a vocabulary of bytes, ``<s>`` and ``<end>``."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = Tokenizer(models.BPE({letter: id for id, letter in enumerate(alphabet)}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(text, special=True) for text in ("<s>", "<end>", "<stop>")])
    library.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@pytest.mark.parametrize(
    "config",
    [
        {"bos_token": "<s>", "eos_token": {"content": "<end>"}, "chat_template": "{{ bos_token }}"},
        {"bos_token": "<s>", "eos_token": "<end>",
         "chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": "{{ bos_token }}"}]},
    ],
)  # fmt: skip
def test_a_hugging_face_folder_tells_its_template_and_its_ends(folder: Path, config: object) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text('{"eos_token_id": [258]}')
    text = read_model_text(str(folder))
    assert (text.template, text.special) == ("{{ bos_token }}", {"bos_token": "<s>", "eos_token": "<end>"})
    assert text.end_ids == {257, 258}
    assert text.tokenizer.control_id(Control("<end>")) == 257


@pytest.mark.parametrize(
    ("generation", "recommended"),
    [
        ({"temperature": 0.6, "top_p": 0.9, "do_sample": True}, SamplingDefaults(temperature=0.6, top_p=0.9)),
        ({"do_sample": False, "temperature": 0.6}, SamplingDefaults(temperature=0.0)),
        ({"top_k": 20, "temperature": None, "repetition_penalty": 1.05},
         SamplingDefaults(top_k=20, repetition_penalty=1.05)),
        ({"do_sample": True, "eos_token_id": 1}, SamplingDefaults()),
        ({"top_k": True, "top_p": "0.9", "min_p": [0.1]}, SamplingDefaults()),
    ],
)  # fmt: skip
def test_a_folder_s_generation_config_is_its_model_s_recommendation(
    generation: dict[str, object], recommended: SamplingDefaults, folder: Path
) -> None:
    (folder / "generation_config.json").write_text(json.dumps(generation))
    assert read_model_text(str(folder)).sampling == recommended


def test_a_template_in_a_file_of_its_own_counts_first(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"chat_template": "old"}')
    (folder / "chat_template.jinja").write_text("new")
    assert read_model_text(str(folder / "tokenizer.json")).template == "new"


@pytest.mark.parametrize(
    ("name", "content"),
    [("absent", None), ("tokenizer.json", "{}"), ("tokenizer.json", "no"), ("model.gguf", "no")],
)
def test_a_tokenizer_that_cannot_be_read_is_reported(tmp_path: Path, name: str, content: str | None) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(AntiphonError) as caught:
        read_model_text(str(tmp_path / name))
    assert isinstance(caught.value, ModelError)


def test_the_vocabulary_of_gpt_oss_needs_no_file() -> None:
    text = read_model_text(O200K)
    assert {200002, 200012} <= text.end_ids
