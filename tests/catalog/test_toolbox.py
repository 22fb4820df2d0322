"""The operator's tools: what is named is open, what cannot be opened leaves nothing open."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil
import pytest

from antiphon.catalog.toolbox import ToolSettings, client_servers, open_toolbox
from antiphon.config import ToolsConfig
from antiphon.errors import ConfigError
from antiphon.tools import ToolCall

SERVER = Path(__file__).parent.parent / "kit" / "mcp_server.py"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text('def shout(text: str) -> str:\n    """Say it loud."""\n    return text.upper()\n')
    return file


@pytest.fixture
def mcp(tmp_path: Path) -> Path:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"t": {"command": sys.executable, "args": [str(SERVER)]}}}))
    return file


async def test_files_built_ins_and_servers_come_together_in_one_router(mine: Path, mcp: Path) -> None:
    settings = ToolSettings(names=("browser", str(mine)), mcp=mcp)
    async with open_toolbox(settings) as toolbox:
        assert {spec.name for spec in toolbox.specs} == {"shout", "t__add", "t__fail", "t__die"}
        assert [namespace.name for namespace in toolbox.builtins] == ["browser"]
        call = ToolCall(call_id="c", recipient="functions.shout", body='{"text": "hi"}')
        assert (await toolbox.router.call(call)).text(envelope=False) == "HI"


async def test_the_pages_that_come_along_are_our_own_documentation() -> None:
    async with open_toolbox(ToolSettings(names=("browser",))) as toolbox:
        call = ToolCall(call_id="c", recipient="browser.search", body='{"query": "tokenizer"}')
        assert "tokens.md" in (await toolbox.router.call(call)).text(envelope=False)


@pytest.mark.parametrize(
    ("name", "says"), [("brwser", "browser"), ("none.py", "there is no file"), ("", "unknown tool")]
)
async def test_what_is_unknown_is_refused_with_a_hint(name: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await open_toolbox(ToolSettings(names=(name,))).__aenter__()
    assert says in str(caught.value)


async def test_a_failure_leaves_nothing_open(mine: Path, mcp: Path, tmp_path: Path) -> None:
    twin = tmp_path / "again"
    twin.mkdir()
    (twin / "mine.py").write_text(mine.read_text())
    with pytest.raises(ConfigError, match="two tools are called"):
        await open_toolbox(ToolSettings(names=(str(mine), str(twin / "mine.py")), mcp=mcp)).__aenter__()
    assert not [child for child in psutil.Process().children(recursive=True) if str(SERVER) in child.cmdline()]


async def test_a_file_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        await open_toolbox(ToolSettings(names=(str(tmp_path / "bad.py"),))).__aenter__()


async def test_built_ins_are_functions_where_a_format_knows_functions_only(mine: Path) -> None:
    async with open_toolbox(ToolSettings(names=("browser", str(mine)))) as toolbox:
        offer = toolbox.offered(builtins=False)
        assert [spec.name for spec in offer.specs] == ["shout", "browser__search", "browser__open", "browser__find"]
        assert offer.builtins == ()
        known = [offer.has(name) for name in ("shout", "functions.shout", "browser", "nosuch")]
        assert known == [True, True, True, False]
        search = ToolCall(
            call_id="a", recipient="functions.browser__search", body='{"query": "tokenizer"}', session="s"
        )
        assert "tokens.md" in (await offer.router.call(search)).text(envelope=False)
        opened = ToolCall(call_id="b", recipient="functions.browser__open", body='{"id": 0}', session="s")
        assert (await offer.router.call(opened)).ok


def test_clients_name_servers_only_where_the_configuration_says_so() -> None:
    assert client_servers(ToolsConfig()) is None
    opened = client_servers(ToolsConfig(client_mcp=True, client_mcp_networks="127.0.0.0/8, fd00::/8"))
    assert opened is not None
    assert [str(network) for network in opened.networks] == ["127.0.0.0/8", "fd00::/8"]
    with pytest.raises(ConfigError, match="client_mcp_networks"):
        client_servers(ToolsConfig(client_mcp_networks="127.0.0.1/8"))
