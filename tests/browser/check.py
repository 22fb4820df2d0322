"""The playground in a real browser: ``check.py CHROMIUM FOLDER``; screenshots go to the folder.

Three servers of this process, whose model answers by a script, and one browser. The exit code says whether all passed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.config import Limits
from antiphon.engines import SAMPLING, ScriptedEngine
from antiphon.engines.engine import Sampling, Step
from antiphon.engines.scripted import Reply
from antiphon.errors import EngineLostError
from antiphon.formats import SamplingDefaults
from antiphon.formats.harmony import Harmony
from antiphon.generation import Layer, Model, Source
from antiphon.generation.compile import ReplyCompiler
from antiphon.http.gate.keys import new_key
from antiphon.playground.site import PLAYGROUND
from antiphon.store import SqliteStore
from antiphon.tokens import Control, decode, encode_pieces, o200k_harmony
from antiphon.tools import FunctionToolSet, Toolbox, ToolLimits
from antiphon.tools.browser import Browser, Corpus
from kit.api import (
    CALL,
    CHATML,
    END,
    START,
    THINK,
    TOKENIZER,
    UNCALL,
    UNTHINK,
    app,
    ids,
    model,
    running,
    sampled,
    scripted,
    token_bytes,
)
from kit.pictures import PAD, seeing_engine, seeing_model
from kit.pictures import TOKENIZER as EYES

HERE = Path(__file__).parent
MARKDOWN = """# A heading

Some **strong** words and `code`.

1. one
2. two

| a | b |
|---|---|
| 1 | 2 |

```python
print("hello")
```
"""
HOSTILE = """<script>window.ran = 1</script><img src=x onerror="window.ran = 2"> <b onclick="window.ran=3">b</b>

![pixel](https://evil.example/pixel.png) [run](javascript:window.ran=4) [data](data:text/html,hi)
[plain](https://example.org/) <svg onload="window.ran=5"></svg> <style>body { display: none }</style>

<iframe src="https://evil.example"></iframe> \u202egnihtyreve esrever\u202c \u2066isolated

<form action="https://evil.example"><input name="key"></form><a href="//evil.example" style="position:fixed">x</a>
"""
PARAGRAPH = """Some **strong** words, a [link](https://example.org/) and `code` in a sentence of a usual length.

* one thing
* another thing, with *stress*

```python
for number in range(10):
    print(number)
```

"""
MATHS = r"""It costs $5 and $6, or from $5,000-$6,000; echo $HOME/$USER.

Einstein: $E = mc^2$, and \(a_1 \le b\), and

$$
x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}

$$

\[ \sum_{n=1}^{\infty} \frac{1}{n^2} = \frac{\pi^2}{6} \]

Bad: $\href{javascript:window.ran=9}{x}$ and $\includegraphics{https://evil.example/x.png}$
and $\text{<img src=x onerror=window.ran=9>}$.

| the first of the columns | four | a long heading of a column | another long heading | the last |
|---|---|---|---|---|
| Supercalifragilistic | four | unbreakablewordsstaywhole | anotherverylongwordhere | one_more_long_word |

```python
print("a line of code that is long enough to reach below where a button would be", "and further")
```
"""
STEADY = 8000
"""Characters of an answer in 2,000 steps, four each, of which the engine makes a hundred a second."""
CALLS = {
    "search": {"name": "browser__search", "arguments": {"query": "bears"}},
    "wait": {"name": "docs__wait", "arguments": {"seconds": 3}},
    "fail": {"name": "docs__wait", "arguments": {"seconds": -1}},
    "hang": {"name": "docs__wait", "arguments": {"seconds": 1000}},
}
"""What a model calls for these questions, until it has a result."""
TEXTS = {
    "slow": (PARAGRAPH * 12)[: STEADY // 4],
    "steady": (PARAGRAPH * (STEADY // len(PARAGRAPH) + 1))[:STEADY],
    "hello": "Hello yourself.",
    "bears": "There are bears in Bern.",
    "long": "word " * 4000,
    "hostile": HOSTILE,
    "json": '{"n":4}',
    "What is the weather in Oslo? Invent it.": '{"city":"Oslo","sky":"cloudy","degrees":4,"hours":[9,12]}',
    "Write a long story about a lighthouse keeper.": (PARAGRAPH * 12)[: STEADY // 4],
    "markdown": MARKDOWN,
    "maths": MATHS,
}


def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    """What the last message asks for: a text by its name, a call and what follows it, or the engine's end."""
    said = decode(TOKENIZER, prompt)
    last = said.rpartition(START.spelling + "user\n")[2].partition(END.spelling)[0].strip()
    if "clear" in last:
        return ids("It is clear in Oslo.", END)
    if last in CALLS:
        return ids(CALL, "\n" + json.dumps(CALLS[last]) + "\n", UNCALL, END)
    if "<tool_response>" in last:
        return ids(TEXTS["bears"], END)
    if last == "lost":
        return EngineLostError("The engine died.", code="engine_lost")
    if last == "weather":
        return ids(CALL, '\n{"name": "weather", "arguments": {"city": "Oslo"}}\n', UNCALL, END)
    thought = (THINK, "HIDDENTHOUGHT about it.", UNTHINK) if last == "markdown" else ()
    if last == "ponder":
        thought = (THINK, "HIDDENTHOUGHT " * 40, UNTHINK)
    return ids(*thought, TEXTS.get(last, "I do not know."), END)


def counted(prompt: Sequence[int], sampling: Sampling, choice: int) -> Reply:
    """Says how many images there are."""
    return sampled(EYES, [f"I see {prompt.count(EYES.controls[PAD])}.", END])


def servers(folder: Path) -> tuple[dict[str, Starlette], str]:
    engine = scripted(script, delay=0.002, chunk=4, context=60_000, end_ids=frozenset({TOKENIZER.controls[END]}))
    secret, key = new_key("alice", requests_per_minute=2)
    keyed = app(scripted(script), keys=[key], wires=[PLAYGROUND])
    pace: dict[str, Any] = {"delay": 0.01, "chunk": 4, "context": 60_000, "end_ids": engine.info.end_ids}
    large_steps = {**pace, "delay": 0.1, "chunk": 40}
    steady = scripted(script, **pace)
    return {
        "main": speaking(engine),
        "steady": speaking(steady, store=SqliteStore(folder / "sessions.db")),
        "steadyMemory": speaking(steady),
        "one": speaking(HalfCached(script, token_bytes=token_bytes, **large_steps), limits=Limits(max_concurrent=1)),
        "keyed": keyed,
        "loose": app(engine, wires=[PLAYGROUND]),
        "tools": speaking(engine, tools=toolbox(folder)),
        "harmony": harmony(),
        "two": two(engine),
        "eyes": create_app(StaticCatalog({"m": seeing_model(seeing_engine(counted, chunk=4))}), wires=[PLAYGROUND]),
        "thinks": speaking(scripted(script, delay=0.05, chunk=4, context=60_000, end_ids=engine.info.end_ids)),
        "loading": app(scripted(script), wires=[PLAYGROUND]),
    }, secret


async def docs__wait(seconds: float) -> str:
    """Waits.

    Args:
        seconds: how long.
    """
    if seconds < 0:
        raise ValueError("time does not run backwards")
    await asyncio.sleep(seconds)
    return f"waited {seconds} s"


def toolbox(folder: Path) -> Toolbox:
    """What a server has: the browser over a folder, and a function that takes its time."""
    (folder / "pages").mkdir()
    (folder / "pages" / "bern.md").write_text("# Bern\n\nThe capital of Switzerland has bears.\n")
    return Toolbox([Browser(Corpus(folder / "pages")), FunctionToolSet([docs__wait])], ToolLimits(deadline=4))


class HalfCached(ScriptedEngine):
    """An engine that has half of each prompt in its cache."""

    async def _play(self, prompt: Sequence[int], sampling: Sampling, choice: int) -> AsyncGenerator[Step, None]:
        async for step in super()._play(prompt, sampling, choice):
            yield msgspec.structs.replace(step, cached_tokens=len(prompt) // 2)


def speaking(engine: ScriptedEngine, **options: Any) -> Starlette:
    """The application whose model thinks, calls and keeps to schemas."""
    compiler = ReplyCompiler(CHATML, TOKENIZER, {TOKENIZER.controls[END]})
    catalog = StaticCatalog({"small": replace(model(engine), compiler=compiler)})
    return create_app(catalog, expose_reasoning=True, wires=[PLAYGROUND], **options)


def harmony() -> Starlette:
    """A model of Harmony, whose replies end otherwise than the next prompt has them."""
    vocabulary = o200k_harmony()
    end = Control("<|return|>")
    reply = encode_pieces([Control("<|channel|>"), "final", Control("<|message|>"), "Hello yourself.", end], vocabulary)
    engine = ScriptedEngine(reply, end_ids=frozenset({vocabulary.controls[end]}))
    oss = Model(name="oss", engine=engine, tokenizer=vocabulary, format=Harmony())
    return create_app(StaticCatalog({"oss": oss}), wires=[PLAYGROUND])


def two(engine: ScriptedEngine) -> Starlette:
    """Two models: one that recommends how it is sampled, and one whose engine takes few settings."""
    chat, narrow = model(engine), scripted(script, honours=SAMPLING - {"seed", "min_p", "logit_bias"})
    layer = Layer(Source.MODEL, SamplingDefaults(temperature=0.3, top_k=7), "its files")
    return create_app(
        StaticCatalog(
            {"first": replace(chat, name="first", layers=(layer,)), "second": replace(model(narrow), name="second")}
        ),
        wires=[PLAYGROUND],
    )


def main(chromium: str, folder: str) -> int:
    with ExitStack() as stack:
        applications, secret = servers(Path(stack.enter_context(TemporaryDirectory())))
        urls = {name: stack.enter_context(running(one)) for name, one in applications.items()}
        lifecycle = applications["loading"].state.context.lifecycle
        lifecycle.begin_loading()
        command = ["node", str(HERE / "run.mjs"), chromium, folder, json.dumps({**urls, "key": secret})]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as browser:
            assert browser.stdout is not None
            for line in browser.stdout:
                if line == "LOAD\n":
                    lifecycle.loading = False
                else:
                    print(line, end="", flush=True)
    return browser.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
