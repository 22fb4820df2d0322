"""Thousands of requests made from ``/openapi.json`` by schemathesis: ``fuzz_api.py [CASES AN OPERATION] [SECONDS]``.

No answer may be a 5xx, have an undocumented status or type, or differ from its schema. Every name is a model's, so that
requests go further than to a 404, and the model keeps to the grammar of what is asked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from antiphon.api import create_app  # noqa: E402
from antiphon.catalog.static import StaticCatalog  # noqa: E402
from antiphon.generation import Model  # noqa: E402
from antiphon.tools.mcp import ClientServers  # noqa: E402
from kit.api import running  # noqa: E402
from kit.client_server import ENVIRONMENTS, uv  # noqa: E402
from kit.obedient import counting, matching  # noqa: E402
from kit.obliging import ObligingEngine, constrained  # noqa: E402

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


class AnyName(StaticCatalog):
    """Answers to every name: one that begins with ``e`` embeds, with ``r`` ranks, any other writes."""

    async def get(self, name: str) -> Model:
        return await super().get({"e": "embed", "r": "rank"}.get(name[:1], "write"))


def main(cases: str = "100", seconds: str = "600") -> int:
    catalog = AnyName(
        {"write": constrained(ObligingEngine(), "obliging"), "embed": counting(), "rank": matching(context=65536)}
    )
    command = [
        uv(), "run", "--quiet", "--no-project", "--python", sys.executable, "--with", "schemathesis>=4",
        "schemathesis", "run", "--max-examples", cases, "--max-time", seconds, "--phases", "coverage,fuzzing,stateful",
        "--checks", CHECKS, "--continue-on-failure", "--no-shrink", "--generation-database", "none",
    ]  # fmt: skip
    with running(create_app(catalog, client_mcp=ClientServers(seconds=1))) as base:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        cache = {"UV_CACHE_DIR": str(ENVIRONMENTS / "cache")}
        return subprocess.run([*command, f"{base}/openapi.json"], env={**env, **cache}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
