"""Rerank and score: the published encoder's cosines, a cross-encoder's own scores, and the shapes of every client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog import open_catalog
from antiphon.catalog.files.text import gguf_text
from antiphon.catalog.static import StaticCatalog
from antiphon.config import (
    Config,
    HarmonyEntry,
    Limits,
    ModelEntry,
    ModelFilesConfig,
)
from antiphon.engines import Scripted
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_server import LlamaServer
from antiphon.errors import ContextError, RequestError
from antiphon.generation import Comparison, Model, Placed, plan_ranking, rank
from antiphon.generation.embedding import cosine, cut_text
from antiphon.http.gate.keys import Scope, new_key
from antiphon.tokens import ByteTokenizer
from kit.api import END, Got, exchange, ids, model, post_in_process, scripted
from kit.corpora import corpus_file
from kit.cross_encoder import CONTEXT, FRAME, write_cross_encoder
from kit.llama_server import serving
from kit.obedient import counting, matching

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUERY = "Teaching computers"
DOCUMENTS = [
    "An engine is a device that turns fuel into motion.",
    "Studying is how people come to know new things.",
    "Teaching computers from examples is a branch of artificial intelligence.",
    "Rome, capitale d'Italia, è una grande città europea.",
]
RERANKS = ("/v1/rerank", "/rerank", "/v2/rerank", "/reranking", "/v1/reranking", "/v1/v1/rerank")


@pytest.fixture(scope="module")
def served(minilm: Model) -> Starlette:
    """The encoder, and a model that writes, which is the default."""
    return create_app(StaticCatalog({"chat": model(scripted(ids("Hi", END)), name="chat"), "minilm": minilm}))


CROSS = create_app(StaticCatalog({"cross": matching(context=4096), "count": counting()}))


async def ask(app: Starlette, path: str = "/v1/rerank", **fields: Any) -> Got:
    return await post_in_process(app, path, **fields)


@pytest.mark.parametrize("path", RERANKS)
async def test_the_best_document_comes_first_and_the_worst_last(served: Starlette, path: str) -> None:
    got = await ask(served, path, query=QUERY, documents=DOCUMENTS)
    assert got.status == 200, got.body
    results = got.json["results"]
    assert [one["index"] for one in results][::3] == [2, 3]
    assert sorted(one["index"] for one in results) == [0, 1, 2, 3]
    scores = [one["relevance_score"] for one in results]
    assert scores == sorted(scores, reverse=True)
    assert got.json.keys() == {"id", "object", "model", "usage", "results", "meta"}
    assert got.json["meta"] == {"api_version": {"version": "2" if path == "/v2/rerank" else "1"}}
    assert (got.json["object"], got.json["model"]) == ("list", "minilm")
    assert got.json["id"].startswith("rerank-")
    assert all(one.keys() == {"index", "relevance_score"} for one in results)
    assert got.headers["x-antiphon-scores"] == "cosine"


async def test_the_scores_are_the_cosines_of_the_published_vectors(served: Starlette) -> None:
    published = json.loads(corpus_file("embeddings.json").read_text("utf-8"))
    first, second = published["queries"][:2]
    got = await ask(served, query=first["query"], documents=published["sentences"])
    found = {one["index"]: one["relevance_score"] for one in got.json["results"]}
    assert [found[i] for i in range(len(found))] == pytest.approx(first["cosines"], abs=0.005)
    scored = await ask(served, "/v1/score", text_1=second["query"], text_2=published["sentences"])
    assert [one["score"] for one in scored.json["data"]] == pytest.approx(second["cosines"], abs=0.005)


@pytest.mark.parametrize("path", ["/v1/rerank", "/reranking"])
async def test_texts_are_answered_as_a_list(served: Starlette, path: str) -> None:
    got = await ask(served, path, query=QUERY, texts=DOCUMENTS)
    assert got.status == 200, got.body
    assert [one["index"] for one in got.json][::3] == [2, 3]
    assert all(one.keys() == {"index", "score"} for one in got.json)
    scores = [one["score"] for one in got.json]
    assert scores == sorted(scores, reverse=True)
    given = await ask(served, path, query=QUERY, texts=DOCUMENTS, return_text=True, top_n=1)
    assert [one["text"] for one in given.json] == [DOCUMENTS[2]]


@pytest.mark.parametrize("kind", ["documents", "texts"])
@pytest.mark.parametrize(("top_n", "count"), [(None, 4), (0, 4), (1, 1), (2, 2), (4, 4), (99, 4), (2**53, 4)])
async def test_top_n_is_how_many_of_the_best_are_answered(kind: str, top_n: int | None, count: int) -> None:
    fields: dict[str, Any] = {kind: ["a", "b c", "x", "a b"]}
    got = await ask(CROSS, query="a b", top_n=top_n, **fields)
    results = got.json["results"] if kind == "documents" else got.json
    assert [one["index"] for one in results] == [3, 0, 1, 2][:count]


@pytest.mark.parametrize(
    ("query", "first", "second", "tokens"),
    [("Teaching computers", "An engine", "Studying is", 12), ("Which city?", "Teaching men", "Rome in Italy", 14)],
)
async def test_usage_counts_what_was_read(served: Starlette, query: str, first: str, second: str, tokens: int) -> None:
    """An encoder reads the query once, and each text between two marks."""
    got = await ask(served, query=query, documents=[first, second])
    assert got.json["usage"]["prompt_tokens"] == tokens
    assert got.json["usage"]["prompt_tokens"] == got.json["usage"]["total_tokens"]
    framed = [await ask(served, "/tokenize", model="minilm", prompt=text) for text in (query, first, second)]
    assert got.json["usage"]["prompt_tokens"] == sum(one.json["count"] for one in framed)
    scored = await ask(served, "/v1/score", text_1=query, text_2=[first, second])
    assert scored.json["usage"] == got.json["usage"]


async def test_a_document_may_be_an_object_and_is_given_back_when_requested() -> None:
    documents = ["a b", {"text": "a"}, {"text": "x", "id": 7}]
    got = await ask(CROSS, query="a b", documents=documents, return_documents=True)
    assert got.json["results"] == [
        {"index": 0, "relevance_score": 1.0, "document": {"text": "a b"}},
        {"index": 1, "relevance_score": 0.5, "document": {"text": "a"}},
        {"index": 2, "relevance_score": 0.0, "document": {"text": "x"}},
    ]
    assert "documents" in got.headers["x-antiphon-ignored"]
    assert got.headers["x-antiphon-scores"] == "cross-encoder"
    assert got.json["model"] == "cross"


async def test_a_model_that_ranks_comes_before_one_that_embeds_and_each_may_be_named() -> None:
    for fields, name, method in (({}, "cross", "cross-encoder"), ({"model": "count"}, "count", "cosine")):
        got = await ask(CROSS, query="a b", documents=["a"], **fields)
        assert (got.json["model"], got.headers["x-antiphon-scores"]) == (name, method)
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
        text: dict[str, Any] = {"prompt": "x", "input": "x", "messages": [{"role": "user", "content": "x"}]}
        field = {"/v1/completions": "prompt", "/v1/embeddings": "input"}.get(path, "messages")
        refused = await post_in_process(CROSS, path, model="cross", **{field: text[field]})
        assert (refused.status, refused.error["param"]) == (400, "model"), refused.body


@pytest.mark.parametrize("path", ["/v1/score", "/score"])
async def test_scores_are_of_pairs_in_their_order(path: str) -> None:
    one = await ask(CROSS, path, text_1="a b", text_2="b")
    assert [row["score"] for row in one.json["data"]] == [0.5]
    several = await ask(CROSS, path, text_1="a b", text_2=["x", "a b", "b"])
    assert [row["score"] for row in several.json["data"]] == [0.0, 1.0, 0.5]
    pairs = await ask(CROSS, path, text_1=["a", "b", "c d"], text_2=["a", "x", "d"])
    assert pairs.json["data"] == [
        {"index": i, "object": "score", "score": score} for i, score in enumerate((1.0, 0.0, 0.5))
    ]
    assert pairs.json.keys() == {"id", "object", "created", "model", "data", "usage"}


async def test_a_text_that_is_too_long_is_named_unless_it_is_cut() -> None:
    app = create_app(StaticCatalog({"cross": matching(context=20)}))
    got = await ask(app, query="aa", documents=["b", "c" * 16])
    assert (got.status, got.error["code"], got.error["param"]) == (400, "context_length_exceeded", "documents[1]")
    assert "truncate_prompt_tokens" in got.error["message"]
    for fields in ({"truncate_prompt_tokens": -1}, {"truncate": True}, {"truncate_prompt_tokens": 20}):
        assert (await ask(app, query="aa", documents=["b", "c" * 16], **fields)).json["usage"][
            "prompt_tokens"
        ] == 3 + 17
    shorter = await ask(app, query="aa", documents=["b", "c" * 16], truncate_prompt_tokens=10)
    assert shorter.json["usage"]["prompt_tokens"] == 3 + 2 + 5
    each = await ask(app, query="aa", documents=["bbb", "c" * 16], max_tokens_per_doc=2)
    assert each.json["usage"]["prompt_tokens"] == 8
    query = await ask(app, query="a" * 17, documents=["b"], truncate_prompt_tokens=-1)
    assert (query.status, query.error["param"]) == (400, "query"), "a query that leaves no room is not cut"
    for limit in (0, -2, 21):
        refused = await ask(app, query="a", documents=["b"], truncate_prompt_tokens=limit)
        assert (refused.status, refused.error["param"]) == (400, "truncate_prompt_tokens")


async def test_of_an_encoder_each_text_is_cut_for_itself() -> None:
    app = create_app(StaticCatalog({"count": counting()}))
    got = await ask(app, query="a" * 600, documents=["b"])
    assert (got.status, got.error["param"]) == (400, "query")
    cut = await ask(app, query="a" * 600, documents=["b" * 600, "c"], truncate_prompt_tokens=10)
    assert cut.json["usage"]["prompt_tokens"] == 10 + 10 + 3
    assert (await ask(app, query="a" * 600, documents=["b"], truncate_prompt_tokens=-1)).status == 200
    assert (await ask(app, query="a", documents=["b"], truncate_prompt_tokens=2)).error["param"] == (
        "truncate_prompt_tokens"
    )


async def test_what_is_sent_is_bounded() -> None:
    app = create_app(StaticCatalog({"cross": matching()}), limits=Limits(max_inputs=3))
    for path, field, fields in (
        ("/v1/rerank", "documents", {"query": "a"}),
        ("/v1/rerank", "texts", {"query": "a"}),
        ("/v1/score", "text_2", {"text_1": "a"}),
    ):
        assert (await ask(app, path, **fields, **{field: ["b"] * 3})).status == 200
        got = await ask(app, path, **fields, **{field: ["b"] * 4})
        assert (got.status, got.error["param"]) == (400, field)


@pytest.mark.parametrize("documents", [[], None, 123, [1, 2, 3], [None], "a", {"text": "a"}, [{"image": "x"}], [["a"]]])
async def test_documents_that_are_none_are_refused(served: Starlette, documents: Any) -> None:
    got = await ask(served, query=QUERY, documents=documents)
    assert got.status == 400
    assert got.error["param"].startswith("documents")


async def test_a_configured_file_ranks_by_its_own_scores(tmp_path: Path) -> None:
    path = tmp_path / "ranker.gguf"
    reference = write_cross_encoder(path)
    entries = {"ranker": ModelEntry(source=str(path), task="rank", slots=2)}
    config = Config(model="ranker", embedding_model="", models=entries, store=ModelFilesConfig(folder=str(tmp_path)))
    catalog = open_catalog(config)
    assert (catalog.ranking, catalog.embedding) == ("ranker", None)
    try:
        app = create_app(catalog)
        documents = ["the cat", "the sun rises in the east.", "invoice paid", "a [SEP] b"]
        got = await ask(app, query="what is the cat?", documents=documents)
        assert got.status == 200, got.body
        tokenizer = gguf_text(read_gguf_metadata(path)).tokenizer
        query, texts = tokenizer.encode("what is the cat?"), [tokenizer.encode(one) for one in documents]
        exact = [reference.score(query, one) for one in texts]
        assert {one["index"]: one["relevance_score"] for one in got.json["results"]} == pytest.approx(
            dict(enumerate(exact)), abs=2e-3
        )
        tokens = sum(FRAME + len(query) + len(one) for one in texts)
        assert got.json["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
        room = CONTEXT - FRAME - len(query)
        assert (await ask(app, query="what is the cat?", documents=["cat " * room])).status == 200
        over = await ask(app, query="what is the cat?", documents=["the", "cat " * (room + 1)])
        assert (over.status, over.error["param"]) == (400, "documents[1]")
        cut = await ask(app, query="what is the cat?", documents=["cat " * 500], truncate_prompt_tokens=-1)
        assert cut.json["usage"]["prompt_tokens"] == CONTEXT
        card = (await catalog.get("ranker")).facts
        assert (card.task, card.format, card.tools) == ("rank", None, False)
    finally:
        await catalog.aclose()


async def test_what_was_read_is_counted() -> None:
    app = create_app(StaticCatalog({"cross": matching()}))
    got = await ask(app, query="ab", documents=["c", "de"])
    assert got.json["usage"]["total_tokens"] == 2 + 1 + 2 + 2
    metrics = (await exchange(app, "/metrics", {}, [], method="GET")).body.decode()
    assert 'antiphon_prompt_tokens_total{model="cross"} 7.0' in metrics
    assert 'route="/rerank"' in metrics


TEXT = st.text(min_size=0, max_size=40)


@given(query=TEXT.filter(str.strip), documents=st.lists(TEXT, min_size=1, max_size=8), top_n=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
async def test_rerank_is_score_sorted(query: str, documents: list[str], top_n: int) -> None:
    for name in ("cross", "count"):
        scored = await ask(CROSS, "/v1/score", model=name, text_1=query, text_2=documents)
        assert scored.status == 200, scored.body
        scores = [one["score"] for one in scored.json["data"]]
        ranked = await ask(CROSS, model=name, query=query, documents=documents, top_n=top_n, return_documents=True)
        best = sorted(enumerate(scores), key=lambda pair: (-pair[1], pair[0]))[: top_n or None]
        assert [(one["index"], one["relevance_score"]) for one in ranked.json["results"]] == best
        assert [one["document"]["text"] for one in ranked.json["results"]] == [documents[i] for i, _ in best]
        assert ranked.json["usage"] == scored.json["usage"]
        low = -1.0 if name == "count" else 0.0
        assert all(low <= score <= 1.0 for score in scores)


@given(text=st.text(max_size=60), most=st.integers(1, 40))
async def test_a_text_is_cut_to_the_longest_beginning_that_fits(text: str, most: int) -> None:
    tokenizer = ByteTokenizer()
    found = cut_text(text, tokenizer, most)
    assert text.startswith(found)
    assert len(found.encode("utf-8", "replace")) <= most
    if found != text:
        assert len(text[: len(found) + 1].encode("utf-8", "replace")) > most


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
async def test_a_vector_is_like_itself_and_unlike_its_opposite(vector: list[float]) -> None:
    assert -1.0 <= cosine(vector, vector[::-1]) <= 1.0
    if max(map(abs, vector)) > 1e-100:
        assert cosine(vector, vector) == pytest.approx(1.0)
        assert cosine(vector, [-x for x in vector]) == pytest.approx(-1.0)
    assert cosine([0.0] * len(vector), vector) == 0.0


async def test_a_plan_says_which_text_is_at_fault() -> None:
    query, documents = Placed("q", "query"), [Placed("d" * 100, "documents[0]")]
    with pytest.raises(ContextError) as caught:
        plan_ranking(matching(), [Comparison(query, documents)])
    assert caught.value.position is not None
    assert caught.value.position.path == "documents[0]"
    with pytest.raises(RequestError):
        plan_ranking(matching(), [Comparison(query, documents)], limit=65)


async def test_many_documents_reach_the_engine_in_small_batches_and_keep_their_order() -> None:
    model = matching()
    texts: Sequence[str] = [str(i % 3) for i in range(100)]
    plan = plan_ranking(model, [Comparison(Placed("1", "query"), [Placed(text, "x") for text in texts])])
    assert (await rank(plan)).scores == tuple(float(text == "1") for text in texts)


@pytest.mark.parametrize("path", [*RERANKS, "/v1/score", "/score"])
async def test_every_name_needs_a_key_for_inference(path: str) -> None:
    secret, alice = new_key("alice")
    admin_secret, admin = new_key("admin", [Scope.ADMIN])
    app = create_app(StaticCatalog({"cross": matching()}), keys=[alice, admin])
    scores = path.endswith("score")
    body: dict[str, Any] = {"text_1": "a", "text_2": "a"} if scores else {"query": "a", "documents": ["a"]}
    for key, status in ((None, 401), ("x", 401), (admin_secret, 403), (secret, 200)):
        assert (await exchange(app, path, body, [], key=key)).status == status


@pytest.mark.one_process("rates agree once a second")
async def test_what_is_read_is_charged_to_the_key() -> None:
    secret, alice = new_key("alice")
    app = create_app(
        StaticCatalog({"cross": matching()}), keys=[alice], limits=Limits(tokens_per_minute=10, requests_per_minute=9)
    )
    body = {"query": "ab", "documents": ["cd", "ef", "gh"]}
    assert [(await exchange(app, "/v1/rerank", body, [], key=secret)).status for _ in range(2)] == [200, 429]


async def test_requests_wait_for_their_turn() -> None:
    """One request runs at a time; the others wait for their turn and are answered in full."""
    app = create_app(StaticCatalog({"cross": matching()}), limits=Limits(max_concurrent=1, max_queue=8))
    many = await asyncio.gather(*(ask(app, query="a b", documents=["a", "a b"]) for _ in range(8)))
    assert [[one["index"] for one in got.json["results"]] for got in many] == [[1, 0]] * 8


@pytest.fixture(scope="module")
def ranking_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a llama.cpp server with a cross-encoder, and its file."""
    path = tmp_path_factory.mktemp("server") / "ranker.gguf"
    write_cross_encoder(path)
    for url in serving(str(path), "ranks"):
        yield url, path


async def test_a_server_that_ranks_is_a_model_like_another(ranking_server: tuple[str, Path]) -> None:
    url, path = ranking_server
    there = LlamaServer(url=url, key_variable="RANKER_KEY")
    entries = {
        "chat": ModelEntry(engine=Scripted(reply="Hi.")),
        "there": ModelEntry(task="rank", tokenizer=str(path), engine=there),
        "here": ModelEntry(task="rank", source=str(path), slots=2),
    }
    config = Config(model="chat", models=entries, store=ModelFilesConfig(folder=str(path.parent)))
    catalog = open_catalog(config, environ={"RANKER_KEY": "sesame"})
    assert (catalog.default, catalog.ranking) == ("chat", "there")
    try:
        app = create_app(catalog)
        documents = ["the cat", "the sun rises in the east.", "invoice paid"]
        first, second = [await ask(app, model=m, query="what is?", documents=documents) for m in ("there", "here")]
        assert first.status == second.status == 200, first.body
        for one, other in zip(first.json["results"], second.json["results"], strict=True):
            assert one["index"] == other["index"]
            assert one["relevance_score"] == pytest.approx(other["relevance_score"], abs=1e-3)
        assert first.json["usage"] == second.json["usage"]
        unnamed = await ask(app, query="what is?", documents=documents)
        assert (unnamed.json["model"], unnamed.headers["x-antiphon-scores"]) == ("there", "cross-encoder")
        long = await ask(app, model="there", query="cat " * 30, documents=["cat " * 40])
        assert (long.status, long.error["param"]) == (400, "documents[0]")
    finally:
        await catalog.aclose()


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        (ModelEntry(task="rank", engine=Scripted()), "task"),
        (ModelEntry(task="rank", source="a.gguf", harmony=HarmonyEntry(names=True)), "harmony"),
        (ModelEntry(task="rank", engine=LlamaServer(url="http://127.0.0.1:1")), "tokenizer"),
    ],
)
async def test_what_cannot_rank_is_a_fault_of_its_entry(entry: ModelEntry, key: str) -> None:
    fault = entry.fault()
    assert fault is not None
    assert fault[0] == key
