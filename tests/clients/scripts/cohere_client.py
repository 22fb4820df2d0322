# /// script
# dependencies = ["cohere>=7.3"]
# ///
"""Cohere's client: rerank of both versions; errors. Its chats are an API of their own, which is not here."""

import cohere
from cohere.core import ApiError
from steps import BASE, CHAT, EMBEDDER, expects, finish, step

DOCUMENTS = ["the cat sat", "a dog ran", "the cat ran home"]
ASKED = {"model": EMBEDDER, "query": "a cat ran", "documents": DOCUMENTS}


def ranked(answer, number):
    scores = [one.relevance_score for one in answer.results]
    assert len(scores) == number
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= one.index < len(DOCUMENTS) for one in answer.results)


@step
def rerank():
    ranked(cohere.Client(api_key="any", base_url=BASE).rerank(**ASKED), 3)


@step
def rerank_v2():
    ranked(cohere.ClientV2(api_key="any", base_url=BASE).rerank(**ASKED, top_n=2), 2)


@step
def errors():
    for path, call in (("/v2/rerank", lambda one: one.rerank(**{**ASKED, "model": "nobody"})),):
        expects(404, path)
        try:
            call(cohere.ClientV2(api_key="any", base_url=BASE))
        except ApiError as error:
            assert error.status_code == 404
        else:
            raise AssertionError(CHAT)


finish("cohere")
