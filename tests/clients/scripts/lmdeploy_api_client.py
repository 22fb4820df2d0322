# /// script
# dependencies = ["requests>=2.32"]
# ///
"""LMDeploy's `APIClient` of eight releases, each in the file that its wheel has: every method, streamed and not."""

import logging
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType

from steps import BASE, CHAT, MORNING, expect_text, finish, step

RELEASES = sorted(
    Path(os.environ["LMDEPLOY_CLIENTS"]).iterdir(), key=lambda path: [int(part) for part in path.name.split(".")[:3]]
)
CANNOT_STREAM_COMPLETIONS = "0.0.14"
"""It reads the end of such a stream as JSON, of its own server too."""
SESSIONS = count(1)
SAY = [{"role": "user", "content": MORNING}]

utils = ModuleType("lmdeploy.utils")
utils.get_logger = logging.getLogger  # All that the file imports of its package, which needs torch.
sys.modules |= {"lmdeploy": ModuleType("lmdeploy"), "lmdeploy.utils": utils}


def client_of(release):
    (file,) = release.rglob("api_client.py")
    spec = spec_from_file_location(f"client_{release.name.replace('.', '_')}", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    client = module.APIClient(f"{BASE}/lmdeploy")
    client.release = release.name
    return client


def content(outputs, *, stream):
    """The text of a chat, which has just one output when it is not streamed."""
    outputs = list(outputs)
    assert stream or len(outputs) == 1, outputs
    choices = [choice for output in outputs for choice in output["choices"]]
    return "".join((choice["delta"] if stream else choice["message"]).get("content") or "" for choice in choices)


def models(client):
    assert CHAT in client.available_models


def chat(client):
    for messages in (MORNING, SAY):
        for stream in (False, True):
            asked = client.chat_completions_v1(model=CHAT, messages=messages, max_tokens=200, stream=stream)
            expect_text(content(asked, stream=stream), "Good morning.")


def completions(client):
    for stream in (False, True) if client.release != CANNOT_STREAM_COMPLETIONS else (False,):
        asked = client.completions_v1(model=CHAT, prompt="say: Good", max_tokens=200, stream=stream)
        expect_text("".join(choice["text"] for output in asked for choice in output["choices"]), "Good")


def interactive(client):
    """Two turns, of which the second has the first as its history, until the session is ended."""
    id = next(SESSIONS)
    for prompt in (MORNING, SAY):
        for stream in (False, True):
            outputs = list(client.chat_interactive_v1(prompt, stream=stream, request_output_len=200))
            expect_text("".join(output["text"] for output in outputs), "Good morning.")
    for stream in (False, True):
        texts = [text for text, _, _ in client.chat(MORNING, session_id=id, request_output_len=200, stream=stream)]
        expect_text("".join(texts), "Good morning.")
    assert history(client, id) > 0
    client.end_session(id)
    assert history(client, id) == 0
    client.end_session(id)


def history(client, id):
    asked = client.chat_interactive_v1(MORNING, session_id=id, interactive_mode=True, request_output_len=20)
    return next(iter(asked))["history_tokens"]


def encode(client):
    ids, length = client.encode("Good morning.")
    assert length == len(ids) > 0
    several, lengths = client.encode(["Good", "Good morning."], do_preprocess=True)
    assert lengths == [len(one) for one in several]
    assert lengths[1] > length


METHODS = {
    models: "available_models", chat: "chat_completions_v1", completions: "completions_v1",
    interactive: "chat_interactive_v1", encode: "encode",
}  # fmt: skip

for release in RELEASES:
    made = client_of(release)
    for use, method in METHODS.items():
        if hasattr(type(made), method):

            def check(use=use, made=made):
                use(made)

            check.__name__ = f"{use.__name__}_{release.name}"
            step(check)

finish("lmdeploy", f"{RELEASES[0].name} … {RELEASES[-1].name}")
