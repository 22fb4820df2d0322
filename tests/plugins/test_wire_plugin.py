"""An installed package adds an API to the server: named in the configuration, and used over a socket."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.api import Wire
from kit.api import END, Got, app, ids, request, running, scripted
from kit.program import antiphon, serving

PACKAGE = Path(__file__).parent / "wire"
CONFIG = """
model = "demo"
[server]
port = 0
wires = "{wires}"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "All right."
"""


@contextmanager
def served(installed: Path, home: Path, wires: str) -> Iterator[str]:
    """The address of `antiphon serve`, a program that can import what is installed."""
    (home / "config.toml").write_text(CONFIG.format(wires=wires))
    with serving(home, PYTHONPATH=str(installed)) as (_, url):
        yield url


def say(base: str, **fields: object) -> Got:
    return request(base, "POST", "/echo/chat", json.dumps(fields).encode(), content_type="application/json")


def lines(got: Got) -> list[dict[str, str]]:
    return [json.loads(line) for line in got.body.splitlines() if line]


def test_a_wire_that_is_installed_and_named_is_served(installed: Path, tmp_path: Path) -> None:
    with served(installed, tmp_path, "echo-chat") as base:
        whole, streamed = say(base, say="Hi"), say(base, say="Hi", stream=True)
        refused, unknown = say(base, say=1), request(base, "GET", "/echo/nothing")
        metrics = request(base, "GET", "/metrics").body.decode()
        usual = request(base, "GET", "/v1/nothing")
    assert whole.json == {"heard": "All right.", "end": "stop_eos"}
    assert streamed.headers["content-type"] == "application/x-ndjson"
    assert "".join(line.get("heard", "") for line in lines(streamed)) == "All right."
    assert lines(streamed)[-1] == {"end": "stop_eos"}
    assert (refused.status, refused.json) == (400, {"oops": "invalid_type"})
    assert (unknown.status, unknown.json) == (404, {"oops": "unknown_url"})
    assert usual.error["code"] == "unknown_url", "other places have their own errors"
    assert 'antiphon_requests_total{method="POST",route="/echo/chat",status="200"} 2.0' in metrics
    assert 'antiphon_turns_total{model="demo",reason="stop_eos"} 2.0' in metrics


def test_a_wire_that_is_installed_and_not_named_is_not_there(installed: Path, tmp_path: Path) -> None:
    with served(installed, tmp_path, "") as base:
        assert say(base, say="Hi").error["code"] == "unknown_url"


def test_a_wire_that_nobody_brings_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(wires="echo-chat"))
    ran = antiphon("serve", home=tmp_path)
    assert ran.returncode != 0
    assert "there is no wire 'echo-chat'" in ran.stderr


def test_a_program_hands_a_wire_to_its_application() -> None:
    spec = importlib.util.spec_from_file_location("echo_chat", PACKAGE / "echo_chat.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["echo_chat"] = module  # msgspec looks its annotations up there
    spec.loader.exec_module(module)
    wire = module.WIRE
    assert isinstance(wire, Wire)
    with running(app(scripted(ids("Yes.", END)), wires=[wire])) as base:
        assert say(base, say="Hi").json == {"heard": "Yes.", "end": "stop_eos"}
