"""Sentence embeddings: the published model's own vectors, by the official client; and what is refused."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio

from antiphon.api import create_app
from antiphon.catalog import open_catalog
from antiphon.catalog.static import StaticCatalog
from antiphon.config import Config, ModelEntry, ModelFilesConfig
from antiphon.engines import Embeddings, EngineInfo, Scripted, ScriptedEngine
from antiphon.formats.raw import RawFormat
from antiphon.generation import EmbeddingSpec, Model, embed, plan_embedding
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import ByteTokenizer, Control
from kit.api import END, Got, app, ids, model, post_in_process, scripted, serving
from kit.corpora import corpus_file

pytestmark = pytest.mark.asyncio(loop_scope="module")
Vector = Sequence[float]


@pytest.fixture(scope="module")
def published() -> Any:
    return json.loads(corpus_file("embeddings.json").read_text("utf-8"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(minilm: Model) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        serving(create_app(StaticCatalog({"minilm": minilm}))) as port,
        openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0) as client,
    ):
        yield client


def cosine(one: Vector, other: Vector) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.spec("DBX-105", "DBX-111", "DBX-112", "DBX-114", "DBX-115", "DBX-116")
async def test_the_vectors_are_the_published_model_s(client: openai.AsyncOpenAI, published: Any) -> None:
    texts = [case["text"] for case in published["texts"]]
    truncated = await client.embeddings.create(model="minilm", input=texts, extra_body={"error_behavior": "truncate"})
    assert (truncated.object, truncated.model) == ("list", "minilm")
    assert [(one.index, one.object) for one in truncated.data] == [(i, "embedding") for i in range(len(texts))]
    for case, one in zip(published["texts"], truncated.data, strict=True):
        theirs = struct.unpack("<384f", base64.b64decode(case["vector"]))
        assert cosine(one.embedding, theirs) >= 0.999, case["text"]
        assert math.isclose(cosine(one.embedding, one.embedding), 1.0, abs_tol=1e-4)


async def test_a_search_ranks_as_the_published_model_does(client: openai.AsyncOpenAI, published: Any) -> None:
    sentences = (await client.embeddings.create(model="minilm", input=published["sentences"])).data
    questions = [case["query"] for case in published["queries"]]
    queries = (await client.embeddings.create(model="minilm", input=questions)).data
    for case, query in zip(published["queries"], queries, strict=True):
        mine = [cosine(query.embedding, sentence.embedding) for sentence in sentences]
        theirs = case["cosines"]
        assert max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) < 0.005
        order = sorted(range(len(mine)), key=mine.__getitem__, reverse=True)
        for first, second in pairwise(order):
            assert theirs[first] > theirs[second] - 0.002, "only what is as good as equal may change places"
        assert order[0] == max(range(len(theirs)), key=theirs.__getitem__)


@pytest.mark.spec("DBX-09", "DBX-10", "DBX-106", "DBX-109", "DBX-110", "DBX-113")
async def test_numbers_and_base64_are_the_same_vector(minilm: Model) -> None:
    application = create_app(StaticCatalog({"minilm": minilm}))

    async def ask(**fields: Any) -> Got:
        return await post_in_process(application, "/v1/embeddings", input="Hello", **fields)

    there = await post_in_process(application, "/serving-endpoints/minilm/invocations", input="Hello")
    numbers, packed = await ask(), await ask(encoding_format="base64")
    floats = numbers.json["data"][0]["embedding"]
    assert list(struct.unpack("<384f", base64.b64decode(packed.json["data"][0]["embedding"]))) == pytest.approx(floats)
    assert numbers.json["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert numbers.json["id"] != packed.json["id"]
    assert numbers.json["object"] == "list"
    assert there.json["data"] == numbers.json["data"], "the endpoint's own address knows the task by the body"


@pytest.mark.spec("DBX-107", "DBX-108")
async def test_an_instruction_stands_before_every_input(client: openai.AsyncOpenAI) -> None:
    instruction = "Represent this sentence for searching relevant passages:"
    answer = await client.embeddings.create(
        model="minilm", input=["cats", "dogs"], extra_body={"instruction": instruction}
    )
    plain = await client.embeddings.create(model="minilm", input=[f"{instruction} cats", f"{instruction} dogs"])
    for one, other in zip(answer.data, plain.data, strict=True):
        assert cosine(one.embedding, other.embedding) > 0.99999
    assert answer.usage == plain.usage


async def test_a_text_that_is_too_long_is_an_error_with_its_place_and_both_numbers(client: openai.AsyncOpenAI) -> None:
    fits = await client.embeddings.create(model="minilm", input="the " * 254)
    assert fits.usage.prompt_tokens == 256
    with pytest.raises(openai.BadRequestError) as caught:
        await client.embeddings.create(model="minilm", input=["short", "the " * 255])
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input[1]")
    assert "257" in caught.value.message
    assert "256" in caught.value.message
    cut = await client.embeddings.create(model="minilm", input="the " * 300, extra_body={"error_behavior": "truncate"})
    assert cut.usage.prompt_tokens == 256
    assert cosine(cut.data[0].embedding, fits.data[0].embedding) > 0.99999


async def test_a_request_that_names_no_model_gets_the_one_that_embeds(minilm: Model) -> None:
    chat = model(scripted(ids("Hi", END)), name="chat")
    application = create_app(StaticCatalog({"chat": chat, "minilm": minilm}))
    answer = await post_in_process(application, "/v1/embeddings", input="Hello")
    assert (answer.status, answer.json["model"]) == (200, "minilm")
    refused = await post_in_process(application, "/v1/embeddings", input="Hello", model="chat")
    assert (refused.status, refused.error["code"], refused.error["param"]) == (400, "unsupported_parameter", "model")
    assert "'chat' makes no embeddings" in refused.error["message"]


async def test_dimensions_that_the_model_does_not_have_are_refused(client: openai.AsyncOpenAI) -> None:
    answer = await client.embeddings.create(model="minilm", input="Hello", dimensions=384)
    assert len(answer.data[0].embedding) == 384
    for dimensions in (0, -1, 128, 385):
        with pytest.raises(openai.BadRequestError) as caught:
            await client.embeddings.create(model="minilm", input="Hello", dimensions=dimensions)
        assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "dimensions")


async def test_ids_are_the_text_that_they_spell_framed_or_not(client: openai.AsyncOpenAI, minilm: Model) -> None:
    texts = ["Hello world", "a cat sat", "x"]
    bare = [minilm.tokenizer.encode(text) for text in texts]
    cls, sep = (minilm.tokenizer.controls[Control(name)] for name in ("[CLS]", "[SEP]"))
    wanted = await client.embeddings.create(model="minilm", input=texts)
    mixed: Any = [texts[0], *bare[1:]]
    for input in (bare, [[cls, *one, sep] for one in bare], [[cls, *one] for one in bare], mixed):
        made = await client.embeddings.create(model="minilm", input=input)
        assert made.usage == wanted.usage
        for one, other in zip(made.data, wanted.data, strict=True):
            assert cosine(one.embedding, other.embedding) > 0.99999
    single = await client.embeddings.create(model="minilm", input=bare[0])
    assert len(single.data) == 1
    assert cosine(single.data[0].embedding, wanted.data[0].embedding) > 0.99999


@pytest.mark.parametrize(
    ("input", "param"),
    [
        ([100_257], "input[0]"),
        ([5, -1], "input[1]"),
        ([[5], [7, 30_522]], "input[1][1]"),
        ([2**62], "input[0]"),
        ([[]], "input"),
        ([[5], []], "input[1]"),
        ([5, "x"], "input"),
        ([5, [5]], "input"),
    ],
)
async def test_ids_of_another_vocabulary_and_what_is_no_list_of_ids_are_refused(
    minilm: Model, input: Any, param: str
) -> None:
    got = await post_in_process(create_app(StaticCatalog({"minilm": minilm})), "/v1/embeddings", input=input)
    assert (got.status, got.error["param"]) == (400, param), got.body


async def test_ids_that_are_none_of_the_vocabulary_name_the_setting_that_langchain_needs(minilm: Model) -> None:
    application = create_app(StaticCatalog({"minilm": minilm}))
    got = await post_in_process(application, "/v1/embeddings", input=[[100_000, 5]])
    assert "check_embedding_ctx_length=False" in got.error["message"]
    text = await post_in_process(application, "/v1/embeddings", input=[5, 6], instruction="Find:")
    assert (text.status, text.error["param"]) == (400, "instruction")


async def test_truncate_prompt_tokens_cuts_an_input_before_its_end_mark() -> None:
    model, _ = counting(shortens=False)
    application = create_app(StaticCatalog({"count": model}))
    for limit, inputs, tokens in ((3, "abcdef", 3), (-1, "abcdef", 6), (6, "ab", 4), (3, [97, 98, 99], 3)):
        got = await post_in_process(application, "/v1/embeddings", input=inputs, truncate_prompt_tokens=limit)
        assert got.json["usage"]["prompt_tokens"] == tokens, (limit, inputs)
    assert plan_embedding(model, ["abcdef"], limit=4).inputs == ((256, *b"ab", 257),)
    assert plan_embedding(model, [[256, 97, 98, 99, 257]], limit=4).inputs == ((256, *b"ab", 257),)
    for limit in (0, 1, 2, 7, -2, 10**9):
        refused = await post_in_process(application, "/v1/embeddings", input="ab", truncate_prompt_tokens=limit)
        assert (refused.status, refused.error["param"]) == (400, "truncate_prompt_tokens")


async def test_a_model_that_is_not_there_is_named(minilm: Model) -> None:
    got = await post_in_process(
        create_app(StaticCatalog({"minilm": minilm})), "/v1/embeddings", input="x", model="large"
    )
    assert (got.status, got.error["param"]) == (404, "model")


async def test_a_model_that_writes_does_not_embed_and_one_that_embeds_does_not_write(minilm: Model) -> None:
    refused = await post_in_process(app(ids("Hi", END)), "/v1/embeddings", input="x")
    assert (refused.status, refused.error["param"]) == (400, "model")
    application = create_app(StaticCatalog({"minilm": minilm}))
    for path, fields in (
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/completions", {"prompt": "x", "stream": True}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
    ):
        refused = await post_in_process(application, path, **fields)
        assert (refused.status, refused.error["param"]) == (400, "model")


async def test_a_model_that_was_never_fetched_is_the_client_s_error_and_says_what_to_do(tmp_path: Path) -> None:
    demo = ModelEntry(engine=Scripted(reply="Hi."))
    store = ModelFilesConfig(folder=str(tmp_path))
    catalog = open_catalog(Config(model="demo", embedding_model="", models={"demo": demo}, store=store))
    got = await post_in_process(create_app(catalog), "/v1/embeddings", model="minilm", input="x")
    assert (got.status, got.error["code"]) == (404, "model_not_here")
    assert "antiphon pull" in got.error["message"]


class Counting(ScriptedEngine):
    """Embeds each text as (its length, 4), not yet of length 1, and says what it was given."""

    def __init__(self) -> None:
        super().__init__([], context=6)
        self.given: list[list[tuple[int, ...]]] = []

    @property
    def info(self) -> EngineInfo:
        return replace(super().info, embeddings=True)

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        self.given.append([tuple(input) for input in inputs])
        return Embeddings(tuple((float(len(input)), 4.0) for input in inputs), sum(map(len, inputs)))


def counting(*, shortens: bool) -> tuple[Model, Counting]:
    begin, end = Control("[CLS]"), Control("[SEP]")
    tokenizer, engine = ByteTokenizer([begin, end]), Counting()
    format = RawFormat(tokenizer.controls, begin=[begin], end=[end])
    spec = EmbeddingSpec(2, shortens=shortens)
    return Model(name="count", engine=engine, tokenizer=tokenizer, format=format, embedding=spec), engine


async def test_a_long_text_is_cut_before_its_end_mark() -> None:
    model, _ = counting(shortens=False)
    plan = plan_embedding(model, ["abcdefgh", "ab"], truncate=True)
    assert plan.inputs == ((256, *b"abcd", 257), (256, *b"ab", 257))
    made = await embed(plan)
    assert (made.tokens, made.vectors) == (10, ((6.0, 4.0), (4.0, 4.0)))


async def test_a_model_whose_vectors_shorten_gives_unit_vectors_of_fewer_dimensions() -> None:
    model, _ = counting(shortens=True)
    assert (await embed(plan_embedding(model, ["ab"], dimensions=1))).vectors == ((1.0,),)


async def test_a_model_whose_file_says_to_which_sizes_they_shorten_has_those() -> None:
    model, _ = counting(shortens=False)
    model = replace(model, embedding=EmbeddingSpec(2, shorter=(1,)))
    application = create_app(StaticCatalog({"count": model}))
    got = await post_in_process(application, "/v1/embeddings", input="ab", dimensions=1)
    assert got.json["data"][0]["embedding"] == [1.0]
    spec = EmbeddingSpec(384, shorter=(64, 128))
    assert [size for size in (-1, 0, 1, 63, 64, 65, 128, 383, 384, 385) if spec.has(size)] == [64, 128, 384]


async def test_many_texts_reach_the_engine_in_small_batches_and_keep_their_order() -> None:
    model, engine = counting(shortens=False)
    made = await embed(plan_embedding(model, ["a" * (i % 4 + 1) for i in range(70)]))
    assert [vector[0] for vector in made.vectors] == [i % 4 + 3 for i in range(70)]
    assert [len(batch) for batch in engine.given] == [32, 32, 6]
