"""The real engine's tokenizer, and tiny models that carry a vocabulary of our choice."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import xllamacpp

from antiphon.engines.llama_cpp.vocabulary_file import write_vocabulary
from antiphon.tokens import well_formed


class EngineTokenizer:
    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def tokenize(self, text: str) -> list[int]:
        return self._tokenized(well_formed(text))

    def different(self, encoded: Mapping[str, Sequence[int]]) -> list[str]:
        """The texts that have other ids here; each is asked for alone only where those of all are others."""
        if self._tokenized([well_formed(text) for text in encoded]) == [id for ids in encoded.values() for id in ids]:
            return []
        return [text for text, ids in encoded.items() if self.tokenize(text) != ids]

    def _tokenized(self, content: str | list[str]) -> list[int]:
        body = json.dumps({"content": content, "add_special": False, "parse_special": False})
        self._connection.close()  # The engine closes one that waited for some seconds, and the request would fail.
        self._connection.request("POST", "/tokenize", body, {"content-type": "application/json"})
        tokens: list[int] = json.loads(self._connection.getresponse().read())["tokens"]
        return tokens


@contextmanager
def engine_tokenizer_of(model: Path) -> Iterator[EngineTokenizer]:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.n_ctx, parameters.n_parallel, parameters.port = 64, 1, 0
    parameters.cpuparams.n_threads = 1
    parameters.warmup = parameters.fit_params = False
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    host, port = server.listening_address.removeprefix("http://").rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port))
    connection.request("GET", "/slots")  # Its loop answers: a server that is destroyed before that runs never ends.
    connection.getresponse().read()
    try:
        yield EngineTokenizer(connection)
    finally:
        connection.close()
        del server


def write_tiny_model(
    path: Path, *, pre: str, tokens: Sequence[str], types: Sequence[int], merges: Sequence[str]
) -> None:
    """A model of one small empty layer: it says nothing of sense, and tokenizes as its vocabulary says."""
    write_vocabulary(
        path,
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": list(tokens),
            "tokenizer.ggml.token_type": list(types),
            "tokenizer.ggml.merges": list(merges),
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.add_bos_token": False,
        },
    )
