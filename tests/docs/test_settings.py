"""The page about running a server names every key of a server, with the default that the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from typer.main import get_group

from antiphon.catalog import open_catalog
from antiphon.cli.app import build_app
from antiphon.config import Config, load_config
from antiphon.engines import engine_kind
from antiphon.engines.registry import built_in_kinds

TABLES = ("server", "limits", "sessions", "batches", "log", "traces", "engine", "ray")
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operations.md").read_text("utf-8")
CLUSTER = (ROOT / "docs/cluster.md").read_text("utf-8")


def documented(table: str) -> dict[str, str]:
    """Key → default, as the page's table tells them."""
    _, _, rest = (CLUSTER if table == "ray" else PAGE).partition(f"| `[{table}]` |")
    rows = re.findall(r"^\| (`.+?`) \| (.+?) \|", rest.partition("\n\n")[0], re.MULTILINE)
    return {key.strip("`"): default for keys, default in rows for key in keys.split(", ")}


@pytest.mark.parametrize("table", TABLES)
def test_every_key_stands_in_the_page_with_its_default(table: str) -> None:
    defaults = msgspec.to_builtins(getattr(Config(), table))
    defaults_shown = documented(table)
    assert list(defaults_shown) == list(defaults)
    for key, default in defaults.items():
        if default or not isinstance(default, str):  # An empty default is a place, which the page tells in words.
            assert defaults_shown[key] == f"`{default if isinstance(default, str) else json.dumps(default)}`", key


def test_the_example_of_a_configuration_is_one(tmp_path: Path) -> None:
    for example in re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / "config.toml").write_text(example)
        config = load_config({"ANTIPHON_HOME": str(tmp_path)}).config
    assert open_catalog(config).default == "gpt-oss"
    assert config.server.drain + 10 < int(re.findall(r"TimeoutStopSec=(\d+)", PAGE)[0])
    assert config.limits.max_connections < int(re.findall(r"LimitNOFILE=(\d+)", PAGE)[0])
    assert config.limits.turn_timeout < int(re.findall(r"proxy_read_timeout (\d+)s", PAGE)[0])
    assert config.limits.idle_timeout > int(re.findall(r"keepalive_timeout (\d+)s", PAGE)[0])
    assert config.limits.max_body == int(re.findall(r"client_max_body_size (\d+)m", PAGE)[0]) * 2**20


def test_every_flag_of_the_server_stands_in_the_page_of_commands() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8").partition("## serve")[2].partition("\n## ")[0]
    options = get_group(build_app("serve")).commands["serve"].params
    flags = {flag for option in options for flag in (*option.opts, *option.secondary_opts) if flag.startswith("--")}
    assert flags - set(re.findall(r"`(--[\w-]+)`", page)) == {"--config"}


@pytest.mark.parametrize("kind", built_in_kinds())
def test_every_setting_of_an_engine_stands_in_the_page_of_engines(kind: str) -> None:
    page = (ROOT / "docs/engines.md").read_text("utf-8").partition("| `kind` | settings |")[2]
    (row,) = re.findall(rf"^\| `{kind}` \| (.*) \|$", page, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == {field.name for field in msgspec.structs.fields(engine_kind(kind))}
