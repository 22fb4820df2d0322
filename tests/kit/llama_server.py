"""llama.cpp's own server in a process, as fixtures, and a prompt that its model knows the answer to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FRANCE = (1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198)
"""SmolLM2's ids of: <|im_start|>user⏎What is the capital of France?<|im_end|>⏎<|im_start|>assistant⏎"""

SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], 512, 2
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.api_prefix = sys.argv[2]
params.embedding = sys.argv[3:] in (["embeds"], ["ranks"])
if sys.argv[3:4] == ["sees"]:
    params.mmproj.path, params.mmproj_use_gpu = sys.argv[4], False
if sys.argv[3:] == ["ranks"]:
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
    params.n_ctx, params.n_ubatch = 128, 128
params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, ["sesame"]
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def llama_server(smollm2_path: Path) -> Iterator[str]:
    """The address of a llama.cpp server of its own, with two slots of 256 tokens and the key "sesame"."""
    yield from serving(str(smollm2_path))


@pytest.fixture(scope="session")
def llama_embedder(minilm_path: Path) -> Iterator[str]:
    """The same with the sentence encoder, which embeds."""
    yield from serving(str(minilm_path), "embeds")


def serving(model: str, *arguments: str, prefix: str = "") -> Iterator[str]:
    """A server's address; what it has lies below ``prefix``."""
    command = [sys.executable, "-c", SERVER, model, prefix, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.kill()
