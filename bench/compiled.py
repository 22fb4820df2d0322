"""Antiphon with its hot modules compiled by mypyc beside the same source as it is, in turns.

    python bench/compiled.py [--rounds 5] [--loads text,whole] [--json FILE]

Needs a C compiler; the compiled copy lies in ``.peers``. First the application by itself, called in its process with no
socket: processor time of a streamed token and of a whole request, the least of the rounds, each in a process of its
own. Then, with ``--loads``, what `gateway.py` measures over HTTP, and the start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gateway
from gateways import antiphon
from stub.folder import make_folder
from stub.says import Speaker

from antiphon.api import create_app
from antiphon.catalog.files.store import ModelStore
from antiphon.catalog.static import StaticCatalog
from antiphon.config import load_config, shipped_entries
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import Harmony
from antiphon.generation import Model
from antiphon.tokens import decoder, o200k_harmony

ROOT = Path(__file__).parents[1]
COPY, SETUPTOOLS = ROOT / ".peers" / "compiled", ROOT / ".peers" / "setuptools"
MODULES = """
formats/harmony/machine formats/harmony/parser formats/harmony/render formats/harmony/stream
formats/template/reply/call_texts formats/template/reply/messages formats/template/reply/reader
formats/template/reply/source formats/template/reply/typed formats/template/user_text generation/reader/channels
generation/reader/choice generation/reader/counts generation/reader/ends generation/reader/ids
generation/reader/logprobs generation/reader/stops tokens/bpe tokens/decoder tokens/encode tokens/slices tokens/table
wire/chat/write wire/projection wire/sse
""".split()
"""What a profile of a streamed reply names, and mypyc takes."""
MYPYC = ("-m", "mypyc", "--config-file=", "--strict", "--explicit-package-bases", "--ignore-missing-imports")
HTTP = {"type": "http", "method": "POST", "query_string": b"", "headers": [(b"content-type", b"application/json")]}
TOKENS, REQUESTS = 4000, 200


def compiled() -> Path:
    """The folder of a copy of the package whose `MODULES` are compiled, which takes some minutes."""
    if not SETUPTOOLS.is_dir():
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--target", SETUPTOOLS, "setuptools>=75")
        subprocess.run(pip, check=True)
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "antiphon", COPY / "antiphon", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, *MYPYC, *(f"antiphon/{module}.py" for module in MODULES)]
    environ = {**os.environ, "PYTHONPATH": str(SETUPTOOLS)}
    subprocess.run(command, cwd=COPY, env=environ, check=True, stdout=subprocess.DEVNULL)
    return COPY


async def request(app: Any, tokens: int, *, stream: bool) -> bytes:
    """The body of an answer of the application."""
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": tokens, "stream": stream}
    came, said = [{"type": "http.request", "body": json.dumps(asked).encode()}], list[bytes]()

    async def receive() -> Mapping[str, Any]:
        return came.pop() if came else await asyncio.get_running_loop().create_future()

    async def send(message: Mapping[str, Any]) -> None:
        said.append(message.get("body", b""))

    await app({**HTTP, "path": "/v1/chat/completions"}, receive, send)
    return b"".join(said)


async def alone() -> dict[str, float]:
    """Microseconds of processor time of a token that is streamed, and of a request that is not."""
    tokenizer = o200k_harmony()
    ids = {control.spelling: id for control, id in tokenizer.controls.items()}
    words = tokenizer.encode("The quick brown fox jumps over the lazy dog; naïve façades don't help anybody. " * 250)
    said = [ids["<|channel|>"], *tokenizer.encode("final"), ids["<|message|>"], *words]
    engine = ScriptedEngine(said, context=100_000)
    app = create_app(StaticCatalog({"m": Model(name="m", engine=engine, tokenizer=tokenizer, format=Harmony())}))
    async with app.router.lifespan_context(app):
        for _ in range(2):  # The first time warms up.
            began = time.process_time()
            answer = await request(app, TOKENS, stream=True)
            streamed = time.process_time() - began
            assert answer.count(b"data: ") > TOKENS * 0.9, answer[:500]
            began = time.process_time()
            for _ in range(REQUESTS):
                await request(app, 4, stream=False)
            whole = time.process_time() - began
    return {"a streamed token": streamed / TOKENS * 1e6, "a whole request": whole / REQUESTS * 1e6}


def apart(source: Path) -> dict[str, float]:
    """`alone` in a process of its own, which has the package from ``source``."""
    command, environ = [sys.executable, __file__, "--alone"], {**os.environ, "PYTHONPATH": str(source)}
    found = json.loads(subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE).stdout)
    if Path(found["from"]).parents[2] != source or found["from"].endswith(".so") != (source == COPY):
        raise SystemExit(f"another package was measured: {found['from']}")
    return dict(found["spent"])


def over_http(sources: Mapping[str, Path], loads: str, rounds: int) -> Iterator[gateway.Row]:
    """The rows of `gateway.py` for each source."""
    model = ModelStore(Path(load_config(os.environ).config.store.folder)).path("smollm2", shipped_entries()["smollm2"])
    if model is None:
        raise SystemExit("the default model is not here: make model")
    with tempfile.TemporaryDirectory(prefix="compiled-") as place:
        call_tokens = Speaker(make_folder(model, Path(place))).call_tokens
        gateways = {name: antiphon(Path(place), source) for name, source in sources.items()}
        chosen = [load for load in gateway.LOADS if load.name in loads.split(",")]
        yield from gateway.compare(gateways, chosen, rounds, call_tokens)
        yield from gateway.starts(gateways, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loads", default="")
    parser.add_argument("--json", type=Path, default=ROOT / "bench" / "results" / "compiled.json")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps({"from": decoder.__file__, "spent": asyncio.run(alone())}))
        return
    about, sources = gateway.described(), {"pure": ROOT / "src", "compiled": compiled()}
    rounds = [{name: apart(source) for name, source in sources.items()} for _ in range(options.rounds)]
    least = {name: {what: min(one[name][what] for one in rounds) for what in rounds[0][name]} for name in sources}
    for what in least["pure"]:
        pure, own = (least[name][what] for name in sources)
        print(f"{what:17} {pure:8.2f} µs, compiled {own:8.2f} µs: {pure / own:.2f} x", flush=True)
    rows = list(over_http(sources, options.loads, options.rounds)) if options.loads else []
    print("\n".join(map(gateway.line, rows)))
    options.json.write_text(json.dumps({**about, "in_process": least, "rows": [*map(asdict, rows)]}, indent=1))


if __name__ == "__main__":
    main()
