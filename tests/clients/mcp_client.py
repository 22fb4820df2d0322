"""Antiphon as the MCP client that the conformance suite starts: ``mcp_client.py URL``; the exit code says how it went.

It lists the server's tools and calls each, at a terminal where everything is answered with an empty line (a default)
and whose browser agrees to every sign-in.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from kit.program import PROGRAM, environment  # noqa: E402  (the path must be there first)
from kit.terminal import Ended, typed  # noqa: E402

BROWSER = f"{sys.executable} -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1]).read()' %s"
METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The address that the suite expects of a client that has one."""
DEFAULTS = "\n" * 40


def oauth(url: str, context: dict[str, Any], home: Path) -> dict[str, Any]:
    """What an operator would write for the scenario."""
    if context.get("name") == "auth/basic-cimd":
        return {"clientMetadataUrl": METADATA_URL}
    settings = {"clientId": context.get("client_id"), "clientSecret": context.get("client_secret")}
    if context.get("name", "").startswith("auth/client-credentials"):
        settings |= {"grant": "client_credentials", "issuer": issuer(url)}
    if "private_key_pem" in context:
        (home / "key.pem").write_text(context["private_key_pem"])
        settings |= {"privateKey": str(home / "key.pem"), "algorithm": context["signing_algorithm"]}
    return {name: value for name, value in settings.items() if value is not None}


def issuer(url: str) -> str:
    """The server's authorization server, which an operator knows."""
    origin, _, path = url.removeprefix("http://").partition("/")
    with urlopen(f"http://{origin}/.well-known/oauth-protected-resource/{path}") as found:
        servers: list[str] = json.load(found)["authorization_servers"]
    return servers[0]


def antiphon(*arguments: str, home: Path) -> Ended:
    ended = typed([*PROGRAM, *arguments], environment(home, BROWSER=BROWSER, NO_PROXY="*"), DEFAULTS)
    print(f"antiphon {' '.join(arguments)}: {ended.returncode}\n{ended.screen}", flush=True)
    return ended


def main(url: str) -> int:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    context.setdefault("name", os.environ.get("MCP_CONFORMANCE_SCENARIO", ""))
    with TemporaryDirectory() as folder:
        home = Path(folder)
        servers = {"mcpServers": {"tested": {"url": url, "oauth": oauth(url, context, home)}}}
        (home / "mcp.json").write_text(json.dumps(servers))
        (home / "config.toml").write_text('tools.mcp = "mcp.json"\n')
        listed = antiphon("tools", "list", "--json", home=home)
        if listed.returncode:
            return listed.returncode
        tools = json.loads(listed.screen[listed.screen.rindex("\n[") if "\n[" in listed.screen else 0 :])
        codes = [antiphon("tools", "call", tool["name"], '{"a": 5, "b": 3}', home=home).returncode for tool in tools]
    return max(codes, default=0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
