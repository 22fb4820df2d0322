"""The real engine's tokenizer, and tiny models that carry a vocabulary of our choice."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy
import xllamacpp

from antiphon.tokens import well_formed


class EngineTokenizer:
    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def tokenize(self, text: str) -> list[int]:
        body = json.dumps({"content": well_formed(text), "add_special": False, "parse_special": False})
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


def write_vocabulary(path: Path, metadata: Mapping[str, object]) -> None:
    """The same for any vocabulary that a GGUF file's ``metadata`` describe."""
    width = 32
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(width)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width)
    write_tokenizer(writer, metadata)
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    writer.add_tensor("token_embd.weight", numpy.zeros((len(tokens), width), dtype=numpy.float16))
    writer.add_tensor("output_norm.weight", numpy.ones(width, dtype=numpy.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", numpy.zeros((width, width), dtype=numpy.float16))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", numpy.ones(width, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_tokenizer(writer: gguf.GGUFWriter, metadata: Mapping[str, object]) -> None:
    """Every key of a vocabulary, with the types that llama.cpp reads."""
    lists = {"scores": gguf.GGUFValueType.FLOAT32, "token_type": gguf.GGUFValueType.INT32}
    for key, value in metadata.items():
        if not key.startswith("tokenizer."):
            continue
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case str():
                writer.add_string(key, value)
            case list() if key.endswith("precompiled_charsmap"):
                writer.add_array(key, bytes(byte & 255 for byte in value))
            case list():
                kind = lists.get(key.rpartition(".")[2])
                writer.add_key_value(key, value, gguf.GGUFValueType.ARRAY, sub_type=kind)
            case _:
                raise TypeError(key)
