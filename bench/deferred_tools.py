"""Claude Code with 100 tools over 30 turns: how many tokens of its prompts the embedded engine evaluates, counted.

python bench/deferred_tools.py model.gguf [deferred|all]

The tools are an MCP server's. ``deferred``: Claude Code searches each before it calls it, and the definition stands
where it was found. ``all``: the hundred stand at the head. The engine reads each prompt and evaluates what its cache
lacks; what it writes is what the user of that turn orders. Claude Code has a short system prompt and one tool more of
its own, because its usual 40,000 tokens take a small machine half an hour. Needs npm; Claude Code goes to ``.clients``.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from antiphon.api import create_app  # noqa: E402  (the path must be there first)
from antiphon.catalog.static import StaticCatalog  # noqa: E402
from antiphon.engines import Sampling, Step  # noqa: E402
from antiphon.engines.gguf_file import read_gguf_metadata  # noqa: E402
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings  # noqa: E402
from antiphon.formats.template import jinja_format  # noqa: E402
from antiphon.generation import Model  # noqa: E402
from antiphon.http.server.server import Server  # noqa: E402
from antiphon.tokens import Tokenizer, decode, gguf_tokenizer  # noqa: E402
from kit.client_server import ENVIRONMENTS  # noqa: E402
from kit.obedient import order, spaced  # noqa: E402

TURNS, TOOLS, CONTEXT = 30, 100, 32768
TEMPLATE = ROOT / "tests" / "formats" / "template" / "jinja" / "qwen2.jinja"
MCP = f"""
from mcp.server import MCPServer
server = MCPServer("shop")
for number in range({TOOLS}):
    server.add_tool(lambda id, amount=1, note="": f"{{id}} is there", name=f"get_{{number}}",
                    description=f"Gets what is in box {{number}} of the shop, and how much of it is left.")
server.run()
"""


class Obedient:
    """An engine that reads its prompts as the one inside does, and writes what they order."""

    def __init__(self, engine: LlamaCppEngine, tokenizer: Tokenizer) -> None:
        self._engine, self._tokenizer = engine, tokenizer
        self.prompts: list[tuple[int, int]] = []
        """The tokens of each, and those of them that were in the cache."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, prompt: Sequence[int], sampling: Sampling, **options: Any) -> AsyncGenerator[Step, None]:
        verb, text = order(decode(self._tokenizer, prompt))
        if verb == "call":
            name, _, arguments = text.partition(" ")
            text = f'<tool_call>\n{{"name": "{name}", "arguments": {spaced(arguments)}}}\n</tool_call>'
        reply = [*self._tokenizer.encode(text), min(self._engine.info.end_ids)]
        options["grammar"] = "%llguidance {}\nstart: " + " ".join(f"<[{id}]>" for id in reply)
        cached = 0
        try:
            async with aclosing(self._engine.generate(prompt, replace(sampling, max_tokens=4096), **options)) as steps:
                async for step in steps:
                    cached = max(cached, step.cached_tokens or 0)
                    yield step
        finally:
            self.prompts.append((len(prompt), cached))


def orders(deferred: bool) -> list[str]:
    said = ["say: Hello."]  # Meanwhile the server of the tools begins.
    for number in range(TURNS // 2):
        search = json.dumps({"query": f"select:mcp__shop__get_{number}", "max_results": 1})
        said.append(f"call: ToolSearch {search}" if deferred else "say: Yes.")
        said.append(f'call: mcp__shop__get_{number} {{"id": {number}}}')
    return said


async def session(url: str, deferred: bool) -> str:
    """Runs Claude Code; what it printed."""
    claude = ENVIRONMENTS / "node_modules" / ".bin" / "claude"
    if not claude.exists():
        ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "@anthropic-ai/claude-code"], cwd=ENVIRONMENTS, check=True)
    with tempfile.TemporaryDirectory() as home:
        servers = {"mcpServers": {"shop": {"command": sys.executable, "args": ["-c", MCP]}}}
        process = await asyncio.create_subprocess_exec(
            claude, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
            "--model", "small", "--mcp-config", json.dumps(servers), "--strict-mcp-config",
            "--allowedTools", "mcp__shop,ToolSearch", "--tools", "ToolSearch,Read", "--system-prompt", "Be brief.",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=home, limit=2**24,
            env={
                "PATH": os.environ["PATH"], "HOME": home, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "none",
                "ANTHROPIC_SMALL_FAST_MODEL": "small", "ENABLE_TOOL_SEARCH": str(deferred).lower(),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "NO_PROXY": "127.0.0.1",
                "API_TIMEOUT_MS": "3000000",
            },
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        printed = []
        for text in orders(deferred):
            said = {"type": "user", "message": {"role": "user", "content": text}}
            process.stdin.write(f"{json.dumps(said)}\n".encode())
            while line := await process.stdout.readline():
                printed.append(line.decode())
                if json.loads(line)["type"] == "result":
                    break
        process.stdin.close()
        await process.wait()
        return "".join(printed)


def widened(path: Path, copy: Path) -> Path:
    """A copy of the model that says it was trained for as long a context as Claude Code's prompts need."""
    data, key = bytearray(path.read_bytes()), b"llama.context_length"
    at = data.index(key) + len(key) + 4  # behind the number of its type
    data[at : at + 4] = CONTEXT.to_bytes(4, "little")
    copy.write_bytes(data)
    return copy


async def main(path: Path, folder: Path) -> None:
    path = widened(path, folder / "model.gguf")
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    format = jinja_format(TEMPLATE.read_text(), tokenizer.controls.keys())
    for way in sys.argv[2:] or ("deferred", "all"):
        inner = await LlamaCppEngine.start(LlamaCppSettings(model=path, context=CONTEXT, slots=2))
        engine = Obedient(inner, tokenizer)
        model = Model(name="small", engine=engine, tokenizer=tokenizer, format=format)  # type: ignore[arg-type]  # it passes the rest on
        ready = asyncio.Event()
        server = Server(create_app(StaticCatalog({"small": model})), on_ready=lambda url, ready=ready: ready.set())
        task = asyncio.create_task(server.serve())
        await ready.wait()
        output = await session(server.url, way == "deferred")
        server.should_exit = True
        await task
        if not engine.prompts:
            raise SystemExit(output)
        found = output.count("is there")
        total, cached = (sum(counts) for counts in zip(*engine.prompts, strict=True))
        print(
            f"{way:>9}  {len(engine.prompts)} prompts, {total} tokens, evaluated {total - cached}, "
            f"{cached / total:.1%} from the cache; first prompt {engine.prompts[0][0]} tokens; {found} results"
        )


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(sys.argv[1]), Path(folder)))
