"""`antiphon serve --no-engine`: a vocabulary and a template answer what no engine works for, and refuse the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import antiphon
from antiphon.catalog.files.text import read_model_text
from antiphon.config import Config, find_entry
from antiphon.errors import NotFoundError
from antiphon.tokens import decode
from kit.api import post
from kit.program import serving

HI = [{"role": "user", "content": "Hi"}]
VOCABULARY = {
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
    "added_tokens": [
        {"id": 256 + i, "content": spelling, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, spelling in enumerate(("<|im_start|>", "<|im_end|>"))
    ],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
}  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def spellings() -> list[str]:
    """GPT-2's characters for bytes, in their order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = {byte: chr(256 + i) for i, byte in enumerate(byte for byte in range(256) if byte not in printable)}
    return [others.get(byte, chr(byte)) for byte in range(256)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a Hugging Face repository has it, without any weights."""
    folder = tmp_path_factory.mktemp("hf") / "Tiny-Chat"
    folder.mkdir()
    vocabulary = {spelling: id for id, spelling in enumerate(spellings())}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [], "fuse_unk": False, "byte_fallback": False}
    (folder / "tokenizer.json").write_text(json.dumps({**VOCABULARY, "model": model}))
    settings = {"eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    flags = {"model": str(folder), "engine.open": False, "embedding_model": "", "sessions.store": "memory"}
    with TestClient(antiphon.open_app(flags=flags)) as client:
        yield client


def ask(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_folder_without_weights_renders_and_parses(client: TestClient, folder: Path) -> None:
    rendered = ask(client, "/v1/render", messages=HI)
    assert rendered["text"] == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert decode(read_model_text(str(folder)).tokenizer, rendered["ids"]) == rendered["text"]
    assert ask(client, "/v1/parse", text="Yes.<|im_end|>", messages=HI)["message"]["content"] == "Yes."
    assert ask(client, "/tokenize", prompt="Hi")["count"] == 2
    assert ask(client, "/v1/schemas/check", schema={"type": "string"})["ok"]
    assert ask(client, "/v1/templates/try", messages=HI)["text"] == rendered["text"]
    assert client.get("/v1/models").json()["data"][0]["id"] == "tiny-chat"
    assert client.get("/health").status_code == 200


def test_the_path_of_the_folder_is_told_to_nobody(client: TestClient, folder: Path) -> None:
    assert str(folder) not in client.get("/v1/models").text
    assert str(folder) not in client.post("/v1/chat/completions", json={"messages": HI}).text


def test_a_request_for_an_engine_elsewhere_takes_every_setting_and_grammar(client: TestClient) -> None:
    settings = {"temperature": 0.5, "logprobs": True, "top_logprobs": 20, "n": 8, "min_p": 0.1, "seed": 7}
    form = {"type": "json_object"}
    made = ask(client, "/v1/chat/completions/render", messages=HI, response_format=form, **settings)
    params = made["sampling_params"]
    assert (params["n"], params["logprobs"], params["min_p"], params["seed"]) == (8, 20, 0.1, 7)
    assert "start:" in params["structured_outputs"]["grammar"]
    assert made["reasoning_ended"] is True


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HI}),
        ("/v1/chat/completions", {"messages": HI, "stream": True}),
        ("/v1/completions", {"prompt": "Hi"}),
        ("/v1/completions", {"prompt": "Hi", "echo": True, "max_tokens": 0, "logprobs": 1}),
        ("/v1/responses", {"input": "Hi"}),
        ("/v1/messages", {"model": "tiny-chat", "max_tokens": 5, "messages": HI}),
        ("/inference/v1/generate", {"token_ids": [1, 2], "sampling_params": {}}),
        ("/api/chat", {"model": "tiny-chat", "messages": HI}),
    ],
)
def test_what_an_engine_is_needed_for_is_refused_by_its_code(
    client: TestClient, path: str, body: dict[str, Any]
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert "no engine here" in answer.text


def test_chats_say_the_code_and_what_to_do(client: TestClient) -> None:
    error = client.post("/v1/chat/completions", json={"messages": HI}).json()["error"]
    assert error["code"] == "no_engine"
    assert "sample them at an engine of your own" in error["message"]


def test_a_folder_is_a_model_only_where_no_engine_is_opened(folder: Path) -> None:
    here = Config(model=str(folder))
    with pytest.raises(NotFoundError):
        find_entry(here.model, here.entries)


def test_the_command_serves_a_folder(folder: Path, tmp_path: Path) -> None:
    with serving(tmp_path, "--no-engine", "--model", str(folder)) as (_, url):
        rendered = post(url, "/v1/chat/completions/render", messages=HI)
        assert (rendered.status, rendered.json["model"]) == (200, "tiny-chat")
        assert post(url, "/v1/chat/completions", messages=HI).error["code"] == "no_engine"


def test_a_model_of_the_catalog_is_rendered_for_without_its_weights_in_memory(smollm2_path: Path) -> None:
    flags = {"model": str(smollm2_path), "engine.open": False, "embedding_model": "", "sessions.store": "memory"}
    with TestClient(antiphon.open_app(flags=flags)) as client:
        rendered = ask(client, "/v1/render", messages=HI)
        assert rendered["text"].endswith("<|im_start|>assistant\n")
        assert client.get("/v1/models").json()["data"][0]["max_model_len"] == 8192
        assert client.post("/v1/chat/completions", json={"messages": HI}).json()["error"]["code"] == "no_engine"
