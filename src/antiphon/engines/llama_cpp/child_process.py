"""One life of the child process, seen from the parent."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from antiphon.engines.connection import over_socket
from antiphon.engines.machine import free_memory
from antiphon.errors import ConfigError, ModelError

from .client import SIDE_CALLS, LlamaClient, ServedModel
from .model_file import ModelFile, check_memory, check_ranking, read_model_file
from .settings import LlamaCppSettings
from .wire import Fragments

_CHILD = Path(__file__).with_name("child.py")
_SOCKET_PATH_LIMIT = 100
_LEAVES = 1.0
"""Seconds in which a child leaves by itself; to kill it loses nothing."""
_HEADROOM = 2 * 2**30
"""Bytes beyond the estimate that the child may take before its allocations fail: stacks, buffers, grammars."""
_NEEDED = re.compile(
    "PATH|HOME|USERPROFILE|TMPDIR|LANG|LC_[A-Z]+|PYTHON(HOME|PATH|USERBASE|NOUSERSITE)|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|"
    "NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)|(CUDA|GGML|HIP|HSA|ROCR|ROCM|VK|METAL|ONEAPI|SYCL|ZE|OMP|GOMP|KMP|OPENBLAS|MKL)_[A-Z0-9_]+"
)
"""Variables of the environment that find libraries, devices and threads. No key or other secret goes to the child."""
_WAITING = {"GOMP_SPINCOUNT": "1000"}
"""How OpenMP's threads wait for each other, some five hundred times a token: 50 µs on the processor, then asleep. Its
default of 15 ms keeps the processor from the one that is waited for, where other work is: 1 token a second."""
_ERROR = re.compile(r"^[0-9.]+ E ")
_ERROR_SECONDS = 5.0
"""How long a child that could not load its model is given to log the reason, which it does from another thread."""


class KnownFile(msgspec.Struct, frozen=True):
    """A model file as it was read, and its split characters. ``stamp`` is another one when the file is."""

    stamp: tuple[int, int, int, int]
    file: ModelFile
    fragments: Fragments

    @classmethod
    def read(cls, path: Path, known: KnownFile | None = None) -> KnownFile:
        """The file; ``known`` itself while it has not changed. Errors are those of `read_model_file`."""
        if known is not None and path.is_file() and _stamp(path) == known.stamp:
            return known
        file = read_model_file(path)
        return cls(_stamp(path), file, file.fragments())


def _stamp(path: Path) -> tuple[int, int, int, int]:
    at = path.stat()
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns


class ChildProcess:
    """A started, loaded child, and a client of it. Whoever has its ``socket`` and its ``key`` may be another one."""

    def __init__(
        self, process: asyncio.subprocess.Process, folder: Path, log: _Log, file: KnownFile, key: str
    ) -> None:  # fmt: skip
        self.file = file
        self.socket, self.key = _socket_in(folder), key
        self._process = process
        self._folder = folder
        self._log = log
        self._client: LlamaClient | None = None
        self.model = ServedModel(0, 0, 0, frozenset())

    @classmethod
    async def start(cls, settings: LlamaCppSettings, known: KnownFile | None = None) -> ChildProcess:
        """Checks, starts and loads, and reads what the server reports. ModelError says why a model cannot run.

        ``known`` is the file of an earlier life: if it is the same still, it is not read again.
        """
        known = await asyncio.to_thread(KnownFile.read, settings.model, known)
        file = known.file
        free = free_memory() if settings.memory_limit is None else settings.memory_limit
        check_memory(file, settings, free)
        await asyncio.to_thread(check_ranking, file, settings)
        if settings.projector is not None:
            await asyncio.to_thread(read_model_file, settings.projector)
        folder = private_folder()
        key = secrets.token_urlsafe(32)
        log = _Log()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", str(_CHILD), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for the parent.
            env=child_environment(os.environ),
        )  # fmt: skip
        child = cls(process, folder, log, known, key)
        try:
            log.follow(process)
            async with asyncio.timeout(settings.load_seconds):
                await child._load(_orders(settings, file, folder, key, free))
                child._client = client_at(child.socket, key, settings, known.fragments)
                child.model = await child._client.model(embeddings=settings.embeddings)
        except TimeoutError as error:
            await child.stop()
            raise ModelError(f"loading {settings.model} took more than {settings.load_seconds:g} s") from error
        except BaseException:
            await child.stop()
            raise
        return child

    @property
    def client(self) -> LlamaClient:
        assert self._client is not None
        return self._client

    @property
    def pid(self) -> int:
        return self._process.pid

    async def gone(self) -> str:
        """Wait until the process ends; how it ended, for people."""
        code = await self._process.wait()
        how = f"signal {-code}" if code < 0 else f"status {code}"
        return f"{how}: {self._log.last_line()}"

    async def stop(self) -> None:
        """End the process, close what was opened, remove the socket. May be called twice."""
        if self._client is not None:
            await self._client.aclose()
        if self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # The child leaves at the end of its input.
            try:
                await asyncio.wait_for(self._process.wait(), _LEAVES)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        await self._log.finish()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _load(self, orders: dict[str, object]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(orders) + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # It is gone already; its output is read below.
        line = await self._process.stdout.readline()
        answer = msgspec.json.decode(line) if line else {"error": f"the engine process ended by {await self.gone()}"}
        if "error" in answer:
            reason = await self._log.first_error() or answer["error"]
            raise ModelError(f"the model cannot be loaded: {reason}", code="model_load")


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Picks the part of the server's environment that the child gets, which may say itself how threads wait."""
    picked = {name: value for name, value in environment.items() if _NEEDED.fullmatch(name)}
    return picked if "OMP_WAIT_POLICY" in picked else _WAITING | picked


def _orders(
    settings: LlamaCppSettings, file: ModelFile, folder: Path, key: str, free: int | None
) -> dict[str, object]:  # fmt: skip
    """Says what the child is to load, and how. Whatever the server would choose by itself is named here."""
    need = file.needs(settings)
    spare = settings.cache_mib if free is None else max(0, free - need) // 2 // 2**20
    cache = min(settings.cache_mib, spare)
    batch = settings.context if settings.embeddings else settings.batch  # An input must be evaluated whole there.
    params: dict[str, object] = {
        "n_ctx": settings.context * settings.slots,
        "n_parallel": settings.slots,
        "n_batch": max(batch, 2048),
        "n_ubatch": batch,
        "n_gpu_layers": settings.gpu_layers,
        "kv_unified": settings.kv_unified,
        "cache_ram_mib": cache,
        "slot_prompt_similarity": settings.similarity,
        "embedding": settings.embeddings,
        "fit_params": False,  # Else it lowers the context in silence.
        "ctx_shift": False,  # Else it forgets the start of a conversation in silence.
        "hostnames": [_socket_in(folder)],
        "api_keys": [key],
        "n_threads_http": settings.streams + SIDE_CALLS + 2,
        "endpoint_slots": True,
        "endpoint_props": False,  # Reading them is always possible; this is writing.
        "ui": False,
        "use_jinja": False,
        "mmproj_use_gpu": settings.gpu_layers > 0,
        "warmup": True,
        "verbosity": 2,
    }
    pooling = settings.pooling.name if settings.embeddings else None
    return {
        "model": str(settings.model), "projector": str(settings.projector or ""), "folder": str(folder),
        "threads": settings.thread_count(), "params": params,
        "flash_attention": file.flash_attention(settings),
        "pooling": f"LLAMA_POOLING_TYPE_{pooling}" if pooling else None,
        "memory": None if settings.gpu_layers else need + cache * 2**20 + _HEADROOM,
    }  # fmt: skip


def client_at(path: str, key: str, settings: LlamaCppSettings, fragments: Fragments) -> LlamaClient:
    """A client of the child whose socket is at ``path``."""
    connect = over_socket(path)
    return LlamaClient("http://engine", streams=settings.streams, connect=connect, key=key, fragments=fragments)


def _socket_in(folder: Path) -> str:
    return str(folder / "engine.sock")


def private_folder() -> Path:
    """A folder that only this user can enter (mode 0700), with room for a socket's name."""
    if sys.platform == "win32":
        raise ConfigError("the embedded engine needs Unix sockets", hint="Use an external llama.cpp server.")
    usual = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="antiphon-", dir=usual if len(usual) < _SOCKET_PATH_LIMIT - 40 else "/tmp"))  # noqa: S108


class _Log:
    """The last lines that the child wrote to its standard error."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=100)
        self._more = asyncio.Event()
        self._ended = False
        self._task: asyncio.Task[None] | None = None

    def follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        self._task = asyncio.create_task(self._read(process.stderr))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        rest = ""
        while data := await stream.read(4096):
            *lines, rest = (rest + data.decode("utf-8", "replace")).split("\n")
            self._lines.extend(lines)
            self._more.set()
            rest = rest[-4096:]
        self._lines.append(rest)
        self._ended = True
        self._more.set()

    async def first_error(self) -> str:
        """Gives the first error of a failed start, from which the others follow. Empty when none comes soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ERROR_SECONDS):
                while not self._ended and not any(map(_ERROR.search, self._lines)):
                    self._more.clear()
                    await self._more.wait()
        return next((line for line in self._lines if _ERROR.search(line)), "").partition(" E ")[2]

    def last_line(self) -> str:
        return next((line.strip() for line in reversed(self._lines) if line.strip()), "it wrote nothing")

    async def finish(self) -> None:
        if self._task is not None:
            await self._task
