"""How the child process lives, dies and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from antiphon.engines import EngineEnd, Sampling, Step
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.engines.llama_cpp.child_process import child_environment
from antiphon.engines.llama_cpp.host import ChildHost
from antiphon.errors import EngineError, EngineLostError, ModelError, OverloadedError, UnsupportedError
from kit.llama_server import FRANCE
from kit.waiting import PATIENCE, until_found

LONG = Sampling(max_tokens=400, temperature=0, ignore_eos=True)
SHORT = Sampling(max_tokens=24, temperature=0)


@asynccontextmanager
async def started(settings: LlamaCppSettings) -> AsyncIterator[LlamaCppEngine]:
    engine = await LlamaCppEngine.start(settings)
    try:
        yield engine
    finally:
        await engine.aclose()


async def test_a_killed_child_fails_what_it_was_doing_and_is_started_again(settings: LlamaCppSettings) -> None:
    async with started(settings) as engine:
        async with aclosing(engine.generate(FRANCE, LONG)) as steps:
            await anext(steps)
            assert engine.pid is not None
            os.kill(engine.pid, signal.SIGKILL)
            with pytest.raises(EngineLostError):
                async for _ in steps:
                    pass
        refusals, last = await ask_until_answered(engine)
        assert all(refusal.retry_after > 0 for refusal in refusals)
        assert last is EngineEnd.STOP
        assert engine.restarts == 1
        assert isinstance(engine.host, ChildHost)
        assert "signal 9" in (engine.host.last_failure or "")


async def test_a_grammar_that_crashes_the_server_costs_its_own_reply_only(settings: LlamaCppSettings) -> None:
    async with started(settings) as engine:
        with pytest.raises(EngineLostError):
            await anext(engine.generate(FRANCE, SHORT, grammar="root ::= " + "(" * 50_000 + '"a"' + ")" * 50_000))
        assert (await ask_until_answered(engine))[1] is EngineEnd.STOP


async def ask_until_answered(engine: LlamaCppEngine) -> tuple[list[OverloadedError], EngineEnd | None]:
    """Ask as an impatient client does, again and again; the refusals on the way, and how the reply ended."""
    refusals: list[OverloadedError] = []

    async def steps() -> list[Step] | None:
        try:
            return [step async for step in engine.generate(FRANCE, SHORT)]
        except EngineLostError:  # The kernel had not yet closed the dead child's socket.
            return None
        except OverloadedError as refusal:
            refusals.append(refusal)
            return None

    return refusals, (await until_found(steps))[-1].end


async def test_closing_ends_the_child_and_leaves_nothing_behind(
    settings: LlamaCppSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as private:
        monkeypatch.setattr(tempfile, "tempdir", private)
        engine = await LlamaCppEngine.start(settings)
        child = psutil.Process(engine.pid)
        (folder,) = Path(private).iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        await engine.aclose()
        await engine.aclose()
        assert not child.is_running()
        assert not folder.exists()
    with pytest.raises(EngineError, match="closed"):
        await anext(engine.generate(FRANCE, SHORT))


async def test_the_child_gets_no_secret_of_the_environment_and_none_is_in_its_arguments(
    settings: LlamaCppSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "NVIDIA_API_KEY", "HF_TOKEN", "LLAMA_API_KEY", "MY_PATH"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    async with started(settings) as engine:
        child = psutil.Process(engine.pid)
        assert "hunter2" not in child.environ().values()
        assert child.environ()["CUDA_VISIBLE_DEVICES"] == "", "it has to know which devices it may use"
        assert [Path(part).name for part in child.cmdline()[1:]] == ["-P", "child.py"]
        assert child.net_connections("inet") == []


@pytest.mark.parametrize(
    ("name", "value", "spins"),
    [("MY_PATH", "", "1000"), ("GOMP_SPINCOUNT", "5", "5"), ("OMP_WAIT_POLICY", "active", None)],
)
def test_threads_of_the_engine_wait_briefly_on_the_processor_but_as_the_environment_says(
    name: str, value: str, spins: str | None
) -> None:
    assert child_environment({name: value}).get("GOMP_SPINCOUNT") == spins


PARENT = """
import asyncio, sys
from pathlib import Path
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings

async def main() -> None:
    settings = LlamaCppSettings(model=Path(sys.argv[1]), context=256, slots=1, threads=1, cache_mib=0)
    engine = await LlamaCppEngine.start(settings)
    print(engine.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_child_dies_with_its_parent_and_removes_its_socket(smollm2_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(smollm2_path)]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": folder}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
            assert parent.stdout is not None
            child = psutil.Process(int(parent.stdout.readline()))
            assert list(Path(folder).iterdir()) != []
            parent.kill()
            assert psutil.wait_procs([child], timeout=PATIENCE)[1] == []
        assert list(Path(folder).iterdir()) == []


async def test_a_file_that_is_not_there_or_not_a_model_or_cut_is_a_clear_error(
    settings: LlamaCppSettings, tmp_path: Path
) -> None:
    whole = settings.model.read_bytes()
    names = {"model_not_found": b"", "not_gguf": b"PK\x03\x04 a zip", "gguf_truncated": whole[:100_000]}
    for code, content in names.items():
        path = tmp_path / f"{code}.gguf"
        if content:
            path.write_bytes(content)
        with pytest.raises(ModelError, match=r"model file|not a GGUF|ends") as caught:
            await LlamaCppEngine.start(replace(settings, model=path))
        assert caught.value.code == code


async def test_a_file_whose_weights_are_cut_short_is_refused_by_the_server_in_its_words(
    settings: LlamaCppSettings, tmp_path: Path
) -> None:
    path = tmp_path / "short.gguf"
    with settings.model.open("rb") as whole:
        path.write_bytes(whole.read(settings.model.stat().st_size - 1000))
    with pytest.raises(ModelError) as caught:
        await LlamaCppEngine.start(replace(settings, model=path))
    assert caught.value.code == "model_load"
    assert "not within the file bounds" in str(caught.value)


async def test_a_model_that_cannot_fit_is_refused_before_it_is_loaded(settings: LlamaCppSettings) -> None:
    with pytest.raises(ModelError, match=r"needs at least \d+ MiB of memory and 50 MiB are free") as caught:
        await LlamaCppEngine.start(replace(settings, memory_limit=50 * 2**20))
    assert caught.value.code == "model_memory"


async def test_a_start_that_takes_too_long_is_given_up(settings: LlamaCppSettings) -> None:
    with pytest.raises(ModelError, match=r"more than 0\.001 s"):
        await LlamaCppEngine.start(replace(settings, load_seconds=0.001))


async def test_a_generating_engine_refuses_to_embed(engine: LlamaCppEngine) -> None:
    with pytest.raises(UnsupportedError):
        await engine.embed([FRANCE])


async def test_an_embedding_engine_gives_vectors_of_length_one_and_refuses_to_generate(
    settings: LlamaCppSettings,
) -> None:
    async with started(replace(settings, embeddings=True, slots=2)) as engine:
        assert engine.info.embeddings
        first, same, other = (await engine.embed([FRANCE, FRANCE, FRANCE[3:9]])).vectors
        assert sum(x * x for x in first) == pytest.approx(1.0, abs=1e-4)
        assert sum(a * b for a, b in zip(first, same, strict=True)) == pytest.approx(1.0, abs=1e-4)
        assert sum(a * b for a, b in zip(first, other, strict=True)) < 0.999
        assert (await engine.embed([FRANCE, FRANCE])).tokens == 2 * len(FRANCE)
        with pytest.raises(UnsupportedError):
            await anext(engine.generate(FRANCE, SHORT))
