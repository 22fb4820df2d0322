"""A page whose own name leads to this machine is no page of this server."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.datastructures import Headers

from antiphon.errors import AccessError
from antiphon.http.gate.keys import new_key
from antiphon.http.origins import check_host
from kit.api import END, app, ids, running, served

BODY = {"messages": [{"role": "user", "content": "Hi"}]}
SECRET, KEY = new_key("alice")


base = served(lambda: app(ids("ok", END), hosts=["Models.example"]))


def ask(base: str, host: str, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
    return httpx.post(f"{base}{path}", json=BODY, headers={"host": host, **headers})


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[fe80::1]", "192.168.0.7:80",
        "api.localhost", "gpu-box", "gpu-box:8080", "gpu_box.lan", "host.docker.internal:8080", "localhost.:8080",
        "models.example", "MODELS.EXAMPLE:443", "models.example.",
    ],
)  # fmt: skip
def test_names_of_this_machine_private_ones_and_those_configured_are_served(base: str, host: str) -> None:
    assert ask(base, host).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "page.example", "page.example:8080", "127.0.0.1.page.example", "localhost.page.example:80", "page.example.",
        "models.example.page.example", "other.models.example", "127.1.page.example", "1.2.3.example", "evil.local",
        "box.local:8080",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/api/chat", "/metrics"])
def test_another_public_name_is_refused(base: str, host: str, path: str) -> None:
    answer = ask(base, host, path)
    assert (answer.status_code, "is not to be called as" in answer.text) == (403, True)


NO_HOSTS = [
    "page.example#.localhost", "localhost#", "[::1].page.example", "[localhost]", "[::1", "::1", "local host", "a,b",
    "a/b", "a@localhost", "localhost:80:80", "localhost:port", "localhost:123456", "b%C3%BCcher.localhost",
    "a?b", "a\\b", "*",
]  # fmt: skip


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_is_no_host_is_not_served_with_a_key_either(base: str, host: str) -> None:
    assert ask(base, host).status_code == 400
    with running(app(ids("ok", END), keys=[KEY])) as url:
        assert ask(url, host, authorization=f"Bearer {SECRET}").status_code == 400


@pytest.mark.parametrize("host", NO_HOSTS)
def test_the_gate_refuses_it_where_another_server_read_the_head(host: str) -> None:
    with pytest.raises(AccessError) as refused:
        check_host(Headers({"host": host}), ["models.example"])
    assert refused.value.code == "host_not_allowed"


def test_whoever_has_a_key_may_call_a_server_by_any_name() -> None:
    with running(app(ids("ok", END), hosts=[], keys=[KEY])) as url:
        assert ask(url, "page.example", authorization=f"Bearer {SECRET}").status_code == 200
        assert ask(url, "page.example").status_code == 401


def test_an_application_that_is_mounted_does_not_know_its_names() -> None:
    transport = httpx.ASGITransport(app(ids("ok", END)))

    async def asked() -> int:
        async with httpx.AsyncClient(transport=transport, base_url="https://page.example") as client:
            return (await client.get("/v1/models")).status_code

    assert asyncio.run(asked()) == 200
