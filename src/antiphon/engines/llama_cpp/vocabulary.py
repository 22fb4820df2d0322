"""The engine's own tokenizer, for vocabularies that our tables do not cover, in a child process of its own."""

from __future__ import annotations

import http.client
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

import msgspec

from antiphon.engines.gguf_file import GgufValue
from antiphon.errors import EngineLostError, TokenError
from antiphon.errors.extras import require
from antiphon.structs import ready

from .child_process import child_environment, private_folder

_CHILD = Path(__file__).with_name("child.py")
_LOAD_SECONDS = 120.0
_ANSWER_SECONDS = 60.0
_PARAMS: Mapping[str, object] = {
    "n_ctx": 64,
    "n_parallel": 1,
    "n_threads_http": 2,
    "fit_params": False,
    "warmup": False,
    "ui": False,
    "use_jinja": False,
    "endpoint_props": False,
    "verbosity": 2,
}


class EngineVocabulary:
    """Encodes texts by the call of the embedded engine. Safe to call from several threads, which take turns.

    The process is started anew when it ended; it ends with this object, and with this process.
    """

    def __init__(self, metadata: Mapping[str, GgufValue]) -> None:
        """Loads the vocabulary. Errors: `TokenError` (``vocabulary_not_covered``) with the engine's reason."""
        require("xllamacpp", "local", "this vocabulary, which only the engine itself can encode,")
        self._metadata = {key: value for key, value in metadata.items() if key.startswith(("tokenizer.", "general."))}
        self._lock = Lock()
        self._child = _Child(self._metadata)

    @property
    def pid(self) -> int:
        """The id of the process that lives now, or ended last."""
        return self._child.pid

    def __call__(self, text: str) -> list[int]:
        body = msgspec.json.encode({"content": text, "add_special": False, "parse_special": False})
        with self._lock:
            try:
                return self._child.tokenize(body)
            except (OSError, http.client.HTTPException):
                self._child.stop()
                self._child = _Child(self._metadata)
            try:
                return self._child.tokenize(body)
            except (OSError, http.client.HTTPException) as error:
                raise EngineLostError(f"the engine's tokenizer ended: {error}") from None


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Child:
    """One life of the process."""

    def __init__(self, metadata: Mapping[str, GgufValue]) -> None:
        # The library that writes files takes long to import, and only these vocabularies need it.
        from .vocabulary_file import write_vocabulary

        folder = private_folder()
        model = folder / "vocabulary.gguf"
        write_vocabulary(model, metadata)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - our own file, by this interpreter
                [sys.executable, "-P", str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal is for the parent.
                env=child_environment(os.environ),
            )
        address = folder / "engine.sock"
        self.pid = process.pid
        self._connection = _OverSocket(address)
        self.stop = weakref.finalize(self, _stop, process, folder, self._connection)
        orders = {
            "model": str(model), "folder": str(folder), "threads": 1, "flash_attention": False, "pooling": None,
            "memory": None, "params": {**_PARAMS, "hostnames": [str(address)]},
        }  # fmt: skip
        _load(process, orders, folder / "log")
        model.unlink()

    def tokenize(self, body: bytes) -> list[int]:
        self._connection.request("POST", "/tokenize", body, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise TokenError("the engine cannot encode this text", code="token_error")
        return msgspec.json.decode(data, type=ready(_Tokens)).tokens


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("engine", timeout=_ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_ANSWER_SECONDS)
        self.sock.connect(str(self._path))


def _load(process: subprocess.Popen[bytes], orders: Mapping[str, object], log: Path) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(orders) + b"\n")
        process.stdin.flush()
    except OSError:
        pass  # It is gone already; its output is read below.
    ready, _, _ = select.select([process.stdout], [], [], _LOAD_SECONDS)
    line = process.stdout.readline() if ready else b""
    answer = msgspec.json.decode(line) if line else {"error": "it ended" if ready else "it took too long"}
    if "error" in answer:
        reason = _reason(log) or answer["error"]
        raise TokenError(
            f"neither our tables nor the engine can encode this vocabulary: {reason}",
            code="vocabulary_not_covered",
            hint="A newer release of xllamacpp may know it.",
        )


_ERROR = re.compile(r"^[0-9.]+ E (.*(?:error|unknown|cannot|invalid).*)$", re.MULTILINE | re.IGNORECASE)


def _reason(log: Path) -> str:
    """The first error that the process logged, which it does from another thread: it is given a second."""
    for _ in range(10):
        found = _ERROR.search(log.read_text("utf-8", "replace"))
        if found is not None:
            return found[1].rpartition("error loading model vocabulary: ")[2]
        time.sleep(0.1)
    return ""


def _stop(process: subprocess.Popen[bytes], folder: Path, connection: http.client.HTTPConnection) -> None:
    connection.close()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()  # The child leaves at the end of its input.
    process.stdout.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
