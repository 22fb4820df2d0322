"""An application by configuration: served by a server of its own, mounted, or used in process."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

import antiphon
from antiphon.config import Config, load_config
from antiphon.errors import ConfigError
from antiphon.formats.template import template_format
from antiphon.http.gate.keys import KeyFile, new_key
from antiphon.http.gate.keys import Scope as KeyScope
from antiphon.library.app import assembled
from antiphon.store import MemoryStore, Store

CONFIG = """
model = "demo"
embedding_model = ""
[sessions]
store = "memory"
[server]
keys = "keys.json"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "Paris."
"""
MESSAGES = [{"role": "user", "content": "Of France?"}]
QUESTION = {"model": "demo", "messages": MESSAGES}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "antiphon.toml"
    path.write_text(CONFIG)
    return path


def answer(client: TestClient, prefix: str = "") -> str:
    response = client.post(f"{prefix}/v1/chat/completions", json=QUESTION)
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


def test_a_server_starts_and_stops_it(file: Path) -> None:
    with TestClient(antiphon.open_app(file)) as client:
        assert answer(client) == "Paris."
        assert client.get("/health").status_code == 200


async def test_a_server_of_its_own_answers_to_its_machine_s_name_and_to_no_other_of_the_network(file: Path) -> None:
    file.write_text(CONFIG.replace('keys = "keys.json"', 'hosts = "llm.example"'))
    names = {f"{socket.gethostname().partition('.')[0]}.local": 200, "llm.example": 200, "other.local": 403}
    async with assembled(load_config({"ANTIPHON_CONFIG": str(file)}).config) as parts:
        with TestClient(parts.app) as client:
            found = {name: client.get("/v1/models", headers={"host": name}).status_code for name in names}
    assert found == names


def test_a_mounted_application_looks_at_its_own_part_of_the_path(file: Path) -> None:
    alice, bob = new_key("alice"), new_key("bob", [KeyScope.ADMIN])
    for key in (alice[1], bob[1]):
        KeyFile(file.with_name("keys.json")).add(key)
    llm = antiphon.open_app(file, flags={"server.keys": str(file.with_name("keys.json"))})
    with TestClient(Starlette(routes=[Mount("/llm", app=llm)])) as client:

        def status(path: str, **headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return client.get(f"/llm{path}", headers=named, follow_redirects=False).status_code

        link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
        assert (status("/livez"), status("/livez/"), status("//livez"), status("/v1/models")) == (200, 200, 200, 401)
        assert (status("/metrics", x_api_key=alice[0]), status("/metrics/", x_api_key=alice[0])) == (403, 403)
        assert status("/metrics", x_api_key=bob[0]) == 200
        assert (status("/playground", **link), status("/v1/models", x_api_key=alice[0], **link)) == (200, 403)
        assert status("/playground", origin="https://evil.example") == 403
        assert status("/playground", origin="http://testserver") == 200


def test_flags_come_before_the_file(file: Path) -> None:
    with TestClient(antiphon.open_app(file, flags={"limits.max_messages": 1})) as client:
        two = {**QUESTION, "messages": MESSAGES * 2}
        assert client.post("/v1/chat/completions", json=two).status_code == 400


def test_it_can_be_mounted_in_another_application(file: Path) -> None:
    app = antiphon.open_app(file)

    @asynccontextmanager
    async def lifespan(outer: Starlette) -> AsyncIterator[None]:
        async with app:
            yield

    outer = Starlette(routes=[Mount("/llm", app=app)], lifespan=lifespan)
    with TestClient(outer) as client:
        assert answer(client, "/llm") == "Paris."


def test_mounted_without_a_lifespan_it_starts_with_its_first_request(file: Path) -> None:
    client = TestClient(Starlette(routes=[Mount("/llm", app=antiphon.open_app(file))]))
    assert answer(client, "/llm") == "Paris."


def test_mounted_without_a_lifespan_it_is_closed_when_the_event_loop_ends(file: Path) -> None:
    events: list[str] = []

    class Closing(MemoryStore):
        async def aclose(self) -> None:
            events.append("closed")
            await super().aclose()

    def mine(address: str) -> Store:
        events.append("opened")
        return Closing()

    file.write_text(CONFIG.replace('"memory"', '"mine:here"'))
    outer = Starlette(routes=[Mount("/llm", app=antiphon.open_app(file, stores={"mine": mine}))])
    client = TestClient(outer)  # each request has an event loop of its own
    assert answer(client, "/llm") == "Paris."
    assert events == ["opened", "closed"]
    assert answer(client, "/llm") == "Paris."
    assert events == ["opened", "closed"] * 2


def test_a_start_without_a_lifespan_that_fails_is_the_request_s_error(file: Path) -> None:
    file.write_text(CONFIG + '[tools]\nnames = "no_such_tool"\n')
    client = TestClient(Starlette(routes=[Mount("/llm", app=antiphon.open_app(file))]))
    with pytest.raises(ConfigError, match="no_such_tool"):
        client.get("/llm/health")


def test_a_configuration_that_cannot_be_meant_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("[server]\nprot = 1\n")
    with pytest.raises(ConfigError, match=r"server\.prot"):
        antiphon.open_app(path)


def test_a_start_that_fails_says_why(file: Path) -> None:
    file.write_text(CONFIG + '[tools]\nnames = "no_such_tool"\n')
    with pytest.raises(ConfigError, match="no_such_tool"), TestClient(antiphon.open_app(file)):
        pass


def test_flags_beside_a_configuration_that_is_handed_in_are_refused() -> None:
    with pytest.raises(TypeError, match="flags"):
        antiphon.open_app(Config(), flags={"server.expose_reasoning": True})


def test_a_program_adds_its_own_format_and_store(file: Path) -> None:
    opened: list[str] = []

    def mine(address: str) -> Store:
        opened.append(address)
        return MemoryStore()

    file.write_text(CONFIG.replace('"chatml"', '"mine"').replace('"memory"', '"mine:here"'))
    app = antiphon.open_app(
        file, formats={"mine": lambda controls: template_format("chatml", controls)}, stores={"mine": mine}
    )
    with TestClient(app) as client:
        assert answer(client) == "Paris."
    assert opened == ["mine:here"]


def test_a_start_that_fails_leaves_no_store_open(file: Path) -> None:
    opened: list[str] = []

    def mine(address: str) -> Store:
        opened.append(address)
        return MemoryStore()

    file.write_text(CONFIG.replace('"memory"', '"mine:here"') + '[tools]\nnames = "no_such_tool"\n')
    with pytest.raises(ConfigError, match="no_such_tool"), TestClient(antiphon.open_app(file, stores={"mine": mine})):
        pass
    assert opened == []
