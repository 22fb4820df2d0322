"""What models say of themselves, in the shapes that clients of vLLM's and llama.cpp's servers read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.api.dialects import DIALECTS, configured_dialects
from antiphon.catalog import Catalog, StaticCatalog, open_catalog
from antiphon.config import Config, ModelEntry, ModelFilesConfig, SamplingEntry
from antiphon.engines import SAMPLING, Scripted
from antiphon.formats import SamplingDefaults
from antiphon.generation import Layer, Model, Source
from kit.api import END, TOKENIZER, ids, post, request, running, scripted
from kit.api import model as model_of

ASK = [{"role": "user", "content": "Hi"}]


def catalog_of(tmp_path: Path, **entries: ModelEntry) -> Catalog:
    config = Config(
        model=next(iter(entries)), models=entries, embedding_model="", store=ModelFilesConfig(folder=str(tmp_path))
    )
    return open_catalog(config)


def test_a_model_tells_what_it_is_and_gives_no_path_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"model_name": "qwen2d5", "temperature": 1.5}')
    entry = ModelEntry(
        engine=Scripted(reply="Hello."), chat_template=str(tmp_path / "mine.json"), aliases=("my",), context=300,
        max_output_tokens=50, sampling=SamplingEntry(top_p=0.5),
    )  # fmt: skip
    with running(create_app(catalog_of(tmp_path, mine=entry), preload=True)) as base:
        assert post(base, "/v1/chat/completions", messages=ASK).status == 200
        (card,) = request(base, "GET", "/v1/models").json["data"]
        assert card == request(base, "GET", "/v1/models/mine").json == request(base, "GET", "/v1/models/my").json
        assert (card["id"], card["object"], card["root"], card["parent"]) == ("mine", "model", "mine", None)
        assert (card["max_model_len"], card["meta"]["n_ctx"]) == (300, 300)
        assert (card["max_context_length"], card["context_window"], card["active"]) == (300, 300, True)
        assert card["type"] == "base"
        assert [name for name, able in card["capabilities"].items() if able] == ["completion_chat", "function_calling"]
        assert card["meta"]["n_vocab"] > 256
        assert card["permission"][0]["object"] == "model_permission"
        assert {key: card["antiphon"][key] for key in card["antiphon"] if key != "settings"} == {
            "task": "chat", "aliases": ["my"], "format": "qwen2d5", "tools": True, "reasoning": False, "infill": False,
            "images": False, "engine": "scripted", "honours": sorted(SAMPLING - {"stop_ids"}),
            "default_output_tokens": 50, "max_output_tokens": 50,
        }  # fmt: skip
        settings = card["antiphon"]["settings"]
        assert settings["temperature"] == {"value": 1.5, "source": "your chat template"}
        assert settings["top_p"] == {"value": 0.5, "source": "configuration"}
        assert settings["min_p"] == {"value": 0.0, "source": "default"}
        assert str(tmp_path) not in request(base, "GET", "/v1/models").body.decode()


def test_a_model_of_which_no_file_was_read_is_listed_and_read_when_it_is_requested(
    smollm2_path: Path, minilm_path: Path, tmp_path: Path
) -> None:
    entries = {
        "demo": ModelEntry(engine=Scripted()),
        "other": ModelEntry(source=str(smollm2_path)),
        "vectors": ModelEntry(source=str(minilm_path), task="embed", context=128),
        "gone": ModelEntry(source=str(tmp_path / "gone.gguf")),
    }
    with running(create_app(catalog_of(tmp_path, **entries))) as base:
        listed = {card["id"]: card for card in request(base, "GET", "/v1/models").json["data"]}
        assert {name: (card["max_model_len"], card["meta"]) for name, card in listed.items()} == dict.fromkeys(
            entries, (None, None)
        )
        assert not any(able for card in listed.values() for able in card["capabilities"].values())
        other = request(base, "GET", "/v1/models/other").json
        assert (other["max_model_len"], other["meta"]["n_ctx_train"], other["meta"]["n_vocab"]) == (8192, 8192, 49152)
        assert (other["meta"]["n_embd"], other["meta"]["size"]) == (576, smollm2_path.stat().st_size)
        assert other["antiphon"]["default_output_tokens"] == 1024
        vectors = request(base, "GET", "/v1/models/vectors").json
        assert (vectors["max_model_len"], vectors["meta"]["n_embd"], vectors["antiphon"]["task"]) == (128, 384, "embed")
        assert (vectors["antiphon"]["settings"], vectors["antiphon"]["format"]) == ({}, None)
        gone = request(base, "GET", "/v1/models/gone")
        assert (gone.status, gone.json["max_model_len"]) == (200, None)
        assert request(base, "GET", "/v1/models/nobody").status == 404
        again = {card["id"]: card for card in request(base, "GET", "/v1/models").json["data"]}
        assert (again["other"], again["demo"]) == (other, listed["demo"])


def greedy(engine: Any) -> Model:
    """A model whose catalogue entry wants greedy answers of at most three tokens."""
    said = SamplingDefaults(temperature=0.0, top_p=0.5, max_tokens=3)
    base = model_of(engine)
    return Model(
        name=base.name, engine=engine, tokenizer=TOKENIZER, format=base.format,
        layers=(Layer(Source.CATALOGUE, said, "small"),),
    )  # fmt: skip


@pytest.mark.spec("DBX-17", "DBX-20", "DBX-21", "MIE-10", "MIE-15", "MIE-17")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", [dialect.name for dialect in DIALECTS])
def test_what_a_strict_dialect_s_document_says_counts_over_the_catalogue(name: str, strict: bool) -> None:
    """Resolution X-53, over every route of a dialect; what is not strict answers as the catalogue recommends."""
    engine = scripted(ids("Hello there.", END), context=4000)
    dialect = configured_dialects(strict=strict)[name]
    documented = strict and name != "lmdeploy"
    with running(create_app(StaticCatalog({"small": greedy(engine)}), dialect=dialect)) as base:
        answered = [post(base, "/v1/chat/completions", model="small", messages=ASK, stream=False)]
        if name != "mindie" or not strict:  # Strict MindIE has no other routes.
            answered.append(post(base, "/v1/completions", model="small", prompt="Hi", stream=False))
            answered.append(post(base, "/v1/responses", model="small", input="Hi"))
        assert [got.status for got in answered] == [200] * len(answered)
        for path, (_, sampling, _) in zip(["chat", "completions", "responses"], engine.requests, strict=False):
            letter = documented or (strict and path == "responses")  # Responses are OpenAI's, wherever they are served.
            assert (sampling.temperature, sampling.top_p) == ((1.0, 1.0) if letter else (0.0, 0.5))
        chat = engine.requests[0][1].max_tokens
        if documented and name == "databricks":
            assert chat > 3900
        else:
            assert chat == (512 if documented and name == "mindie" else 3)
        card = request(base, "GET", "/v1/models/small").json["antiphon"]["settings"]["temperature"]
        assert card["value"] == (1.0 if documented else 0.0)


LIKELY = {"temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05}
ALL = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}


@pytest.mark.spec("DBX-20", "DBX-21", "MIE-15", "MIE-17")
@pytest.mark.parametrize(
    ("name", "default"), [("openai", LIKELY), ("lmdeploy", LIKELY), ("databricks", ALL), ("mindie", ALL)]
)
def test_where_nobody_recommends_anything_the_default_is_the_document_s_else_the_likely_tokens(
    name: str, default: dict[str, float]
) -> None:
    """Resolution X-54; what a request turns off is off, and is off already where a dialect has no name for it."""
    engine = scripted(ids("Hello there.", END), context=4000)
    dialect = configured_dialects()[name]
    off = {"temperature": 1, "top_p": 1, "top_k": -1, "min_p": 0}
    with running(create_app(StaticCatalog({"small": model_of(engine)}), dialect=dialect)) as base:
        asked = {"model": "small", "stream": False}
        answered = [
            post(base, "/v1/chat/completions", messages=ASK, **asked),
            post(base, "/v1/completions", prompt="Hi", **asked),
            post(base, "/v1/chat/completions", messages=ASK, **asked, **off),
            post(base, "/v1/chat/completions", messages=ASK, **asked, temperature=0),
        ]
        assert [got.status for got in answered] == [200] * len(answered)
        settings = request(base, "GET", "/v1/models/small").json["antiphon"]["settings"]
    sampled = [{key: getattr(sampling, key) for key in ALL} for _, sampling, _ in engine.requests]
    assert sampled == [default, default, ALL, {**default, "temperature": 0.0}]
    assert {key: (settings[key]["value"], settings[key]["source"]) for key in ALL} == {
        key: (value, "default") for key, value in default.items()
    }


def test_an_answer_without_a_limit_ends_where_the_model_s_entry_says_and_says_so() -> None:
    engine = scripted(ids("Hello there.", END))
    with running(create_app(StaticCatalog({"small": greedy(engine)}))) as base:
        chat = post(base, "/v1/chat/completions", messages=ASK).json["choices"][0]
        assert (chat["message"]["content"], chat["finish_reason"]) == ("Hel", "length")
        text = post(base, "/v1/completions", prompt="Hi").json["choices"][0]
        assert (text["text"], text["finish_reason"]) == ("Hel", "length")
        response = post(base, "/v1/responses", input="Hi").json
        assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        more = post(base, "/v1/chat/completions", messages=ASK, max_tokens=20).json["choices"][0]
        assert (more["message"]["content"], more["finish_reason"]) == ("Hello there.", "stop")
