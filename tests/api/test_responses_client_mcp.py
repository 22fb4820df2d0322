"""MCP servers that a client names in its request: listed once, called within bounds, approved by its user."""

from __future__ import annotations

import ipaddress
import json
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.engines import ScriptedEngine
from antiphon.tokens import Piece
from antiphon.tools import FunctionToolSet, Toolbox
from antiphon.tools.mcp import ClientServers
from kit.api import END, call, ids, request, running, scripted
from kit.responses import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    FINAL,
    MESSAGE,
    START,
    THOUGHT,
    checked_response,
    events_of,
    harmony_ids,
    respond,
    responses_app,
    turns,
)
from kit.waiting import PATIENCE

HERE = ClientServers((ipaddress.ip_network("127.0.0.0/8"),))
SIZE = ids(*call("pages__size", '{"page": "bern"}'), END)
ERASE = ids(*call("pages__erase", '{"page": "bern"}'), END)
DONE = ids("Done.", END)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(Remote()) as url:
        yield url


@pytest.fixture
def remote() -> Iterator[tuple[Remote, str]]:
    server = Remote()
    with serving(server) as url:
        yield server, url


def pages(url: str, **fields: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": "pages", "server_url": url, **fields}


def app(*replies: Sequence[int], **options: Any) -> Any:
    return responses_app(small=scripted(turns(*replies)), client_mcp=HERE, **options)


def prompts(engine: ScriptedEngine) -> list[str]:
    return [bytes(id for id in prompt if id < 256).decode() for prompt, *_ in engine.requests]


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in checked_response(response)["output"]]


def test_the_tools_are_listed_and_called_as_the_events_say(remote: tuple[Remote, str]) -> None:
    server, url = remote
    with running(app(SIZE, DONE)) as base:
        tool = pages(url, require_approval="never")
        events = events_of(respond(base, {"stream": True, "tools": [tool]}))
    names = [event["type"].removeprefix("response.") for event in events]
    assert names[2:6] == [
        "output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done",
    ]  # fmt: skip
    begun = names.index("mcp_call.in_progress")
    ended = ["mcp_call_arguments.done", "mcp_call.completed", "output_item.done"]
    assert [name for name in names[begun:] if name in ended][:3] == ended
    listing, ran, answer = checked_response(events[-1]["response"])["output"]
    assert (listing["type"], listing["server_label"], listing["error"]) == ("mcp_list_tools", "pages", None)
    assert [tool["name"] for tool in listing["tools"]] == ["size", "erase"]
    assert listing["tools"][0]["input_schema"]["required"] == ["page"]
    assert (ran["type"], ran["server_label"], ran["name"]) == ("mcp_call", "pages", "size")
    assert "".join(event["delta"] for event in events if "arguments.delta" in event["type"]) == ran["arguments"]
    assert ("4 letters" in ran["output"], ran["error"], ran["approval_request_id"]) == (True, None, None)
    assert answer["content"][0]["text"] == "Done."
    assert (server.methods["tools/list"], server.methods["tools/call"]) == (1, 1)


def test_a_chain_lists_a_server_once(remote: tuple[Remote, str]) -> None:
    server, url = remote
    body = {"tools": [pages(url, require_approval="never")]}
    with running(app(DONE, SIZE, DONE)) as base:
        first = respond(base, body).json
        second = respond(base, {**body, "previous_response_id": first["id"], "input": "And?"}).json
        sent_back = [{"role": "user", "content": "Hi"}, *first["output"], {"role": "user", "content": "And?"}]
        third = respond(base, {**body, "input": sent_back, "store": False}).json
    assert [kinds(one) for one in (first, second, third)] == [
        ["mcp_list_tools", "message"], ["mcp_call", "message"], ["message"],
    ]  # fmt: skip
    assert (server.methods["tools/list"], server.methods["tools/call"]) == (1, 1)


def test_the_client_is_let_in_by_what_nobody_else_sees(
    remote: tuple[Remote, str], caplog: pytest.LogCaptureFixture
) -> None:
    server, url = remote
    server.secret = "hush-hush"
    caplog.set_level("DEBUG")
    tool = pages(f"{url}?key=in-the-address", require_approval="never", headers={"X-Room": "behind-the-door"})
    with running(app(SIZE, DONE)) as base:
        let_in = respond(base, {"tools": [{**tool, "authorization": "hush-hush"}]})
        outside = respond(base, {"tools": [{**tool, "authorization": "hush-wrong"}]})
        stored = request(base, "GET", f"/v1/responses/{let_in.json['id']}").body.decode()
    assert kinds(let_in.json) == ["mcp_list_tools", "mcp_call", "message"]
    assert {headers.get("x-room") for headers in server.headers} == {"behind-the-door"}
    listing = outside.json["output"][0]
    assert (outside.status, listing["tools"], "401" in listing["error"]) == (200, [], True)
    origin = url.removesuffix("/mcp")
    assert let_in.json["tools"] == [
        {"type": "mcp", "server_label": "pages", "server_url": f"{origin}/<redacted>", "require_approval": "never"}
    ]
    ours = "".join(record.getMessage() for record in caplog.records if record.name.startswith("antiphon"))
    for secret in ("hush-", "behind-the-door", "in-the-address"):
        assert not any(secret in text for text in (let_in.body.decode(), outside.body.decode(), stored, ours)), secret
    assert not any("hush-" in record.getMessage() or "behind-the" in record.getMessage() for record in caplog.records)


def asked(base: str, url: str, **fields: Any) -> Any:
    """The response that asks for an approval, and its request."""
    response = respond(base, {"tools": [pages(url)], **fields}).json
    assert kinds(response)[-1] == "mcp_approval_request"
    return response, response["output"][-1]


def answer_to(request: dict[str, Any], approve: bool, **fields: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve, **fields}


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_runs_when_it_is_approved(remote: tuple[Remote, str], stored: bool, streamed: bool) -> None:
    server, url = remote
    engine = scripted(turns(ERASE, DONE))
    with running(responses_app(small=engine, client_mcp=HERE)) as base:
        first, request = asked(base, url, store=stored)
        assert (first["status"], server.erased) == ("completed", [])
        assert (request["server_label"], request["name"], request["arguments"]) == (
            "pages",
            "erase",
            '{"page": "bern"}',
        )
        before: Any = {"previous_response_id": first["id"], "input": []}
        if not stored:
            before = {"input": [{"role": "user", "content": "Erase it."}, *first["output"]], "store": False}
        before["input"].append(answer_to(request, True))
        got = respond(base, {**before, "tools": [pages(url)], "stream": streamed})
        events = events_of(got) if streamed else []
        second = events[-1]["response"] if streamed else got.json
        assert kinds(second) == ["mcp_call", "message"]
        ran = second["output"][0]
        assert (ran["approval_request_id"], ran["status"]) == (request["id"], "completed")
        assert ("bern is erased" in ran["output"], server.erased) == (True, ["bern"])
        prompt = prompts(engine)[-1]
        assert prompt.rindex("pages__erase") < prompt.index("bern is erased")
        assert "no result" not in prompt
        if stored:
            respond(base, {"previous_response_id": second["id"], "input": "And now?"})
        else:
            again = [*before["input"], *second["output"], {"role": "user", "content": "And now?"}]
            assert respond(base, {"input": again, "tools": [pages(url)], "store": False}).status == 200
    last = prompts(engine)[-1]
    assert last.count("bern is erased") == 1
    assert last.index("bern is erased") < last.index("Done.") < last.index("And now?")
    assert server.erased == ["bern"], "once, however often it is in the history"


def test_a_refusal_reaches_the_model_with_its_reason(remote: tuple[Remote, str]) -> None:
    server, url = remote
    engine = scripted(turns(ERASE, DONE))
    with running(responses_app(small=engine, client_mcp=HERE)) as base:
        first, request = asked(base, url)
        refusal = answer_to(request, False, reason="Bern stays.")
        second = respond(base, {"previous_response_id": first["id"], "input": [refusal]}).json
    assert (kinds(second), server.erased) == (["message"], [])
    assert "the user refused this call: Bern stays." in prompts(engine)[-1]


def test_a_call_that_fails_or_that_nobody_takes_is_an_item_that_says_so(address: str) -> None:
    wrong = ids(*call("pages__erase", '{"page": "missing"}'), END)
    with running(app(wrong, DONE)) as base:
        response = respond(base, {"tools": [pages(address, require_approval="never")]}).json
    ran = response["output"][1]
    assert (ran["status"], ran["output"], "no such page" in ran["error"]["content"]) == ("failed", None, True)


@pytest.mark.parametrize(
    ("url", "words"),
    [("http://127.0.0.1:9/mcp", "cannot be connected to"), ("http://nowhere.invalid/mcp", "cannot be connected to")],
)
def test_a_server_that_does_not_answer_is_a_listing_that_failed(url: str, words: str) -> None:
    with running(app(DONE)) as base:
        events = events_of(respond(base, {"stream": True, "tools": [pages(url)]}))
    assert "response.mcp_list_tools.failed" in [event["type"] for event in events]
    listing, answer = events[-1]["response"]["output"]
    assert (listing["tools"], words in listing["error"], answer["type"]) == ([], True, "message")
    assert "antiphon mcp login" not in listing["error"]


def test_a_name_of_a_private_address_is_not_connected_to(remote: tuple[Remote, str]) -> None:
    server, url = remote
    port = url.split(":")[2]
    public = ClientServers((ipaddress.ip_network("10.99.0.0/24"),))
    with running(responses_app(small=scripted(turns(DONE)), client_mcp=public)) as base:
        response = respond(base, {"tools": [pages(f"http://localhost:{port}")]}).json
        literal = respond(base, {"tools": [pages(url)]})
    assert response["output"][0]["error"]
    assert not server.headers
    assert (literal.status, literal.error["param"]) == (400, "tools[0].server_url")


FILTERS: Any = [
    ({"allowed_tools": ["size"]}, {"size"}, {"size"}),
    ({"allowed_tools": {"tool_names": ["erase"]}, "require_approval": "never"}, {"erase"}, set()),
    ({"allowed_tools": {"read_only": True}, "require_approval": "always"}, {"size"}, {"size"}),
    ({"allowed_tools": []}, set(), set()),
    ({"require_approval": {"never": {"tool_names": ["size"]}}}, {"size", "erase"}, {"erase"}),
    ({"require_approval": {"never": {"read_only": True}}}, {"size", "erase"}, {"erase"}),
    (
        {"require_approval": {"always": {"tool_names": ["size"]}, "never": {"tool_names": ["size", "erase"]}}},
        {"size", "erase"},
        {"size"},
    ),
    ({"require_approval": {"always": {"tool_names": ["erase"]}}}, {"size", "erase"}, {"size", "erase"}),
]


@pytest.mark.parametrize(("fields", "offered", "gated"), FILTERS)
def test_filters_say_what_is_offered_and_what_is_approved(
    address: str, fields: dict[str, Any], offered: set[str], gated: set[str]
) -> None:
    found = set()
    for name in ("size", "erase"):
        engine = scripted(turns(ids(*call(f"pages__{name}", '{"page": "x"}'), END), DONE))
        with running(responses_app(small=engine, client_mcp=HERE)) as base:
            response = respond(base, {"tools": [pages(address, **fields)]}).json
        assert (f'"pages__{name}"' in prompts(engine)[0]) is (name in offered)
        if kinds(response)[1:2] == ["mcp_approval_request"]:
            found.add(name)
    assert found == gated


@pytest.mark.parametrize("streamed", [True, False])
def test_a_model_that_thinks_before_it_calls_goes_on_from_its_own_words(
    remote: tuple[Remote, str], streamed: bool
) -> None:
    server, url = remote
    header = "assistant to=functions.pages__erase"
    erase: tuple[Piece, ...] = (START, header, CHANNEL, "commentary ", CONSTRAIN, "json")
    called = harmony_ids(*THOUGHT, *erase, MESSAGE, '{"page":  "bern"}', CALL)
    engine = scripted(turns(called, harmony_ids(*FINAL)))
    with running(responses_app(oss=engine, client_mcp=HERE)) as base:
        first, request = asked(base, url)
        approval = {"previous_response_id": first["id"], "input": [answer_to(request, True)], "tools": [pages(url)]}
        got = respond(base, {**approval, "stream": streamed})
        second = events_of(got)[-1]["response"] if streamed else got.json
    assert (kinds(first), kinds(second)) == (
        ["mcp_list_tools", "reasoning", "mcp_approval_request"], ["mcp_call", "message"],
    )  # fmt: skip
    assert second["output"][0]["arguments"] == '{"page":  "bern"}'
    prompt = engine.requests[-1][0]
    assert bytes(id for id in prompt if id < 256).decode().count('{"page":  "bern"}') == 1
    assert "The user wants the weather." in bytes(id for id in prompt if id < 256).decode()
    assert server.erased == ["bern"]


def test_an_approval_is_answered_once(remote: tuple[Remote, str]) -> None:
    server, url = remote
    with running(app(ERASE, DONE)) as base:
        first, request = asked(base, url)
        body = {"input": [answer_to(request, True)], "tools": [pages(url)]}
        second = respond(base, {**body, "previous_response_id": first["id"]}).json
        again = respond(base, {**body, "previous_response_id": second["id"]})
        without = respond(base, {"input": body["input"], "previous_response_id": first["id"]})
    assert (again.status, again.error["param"]) == (400, "input[0].approval_request_id")
    assert (without.status, without.error["param"]) == (400, "input[0].approval_request_id")
    assert server.erased == ["bern"]


def test_calls_beside_one_that_waits_run_at_once(remote: tuple[Remote, str]) -> None:
    server, url = remote
    both = ids(*call("pages__size", '{"page": "x"}'), *call("pages__erase", '{"page": "y"}'), END)
    with running(app(both, DONE)) as base:
        tools = [pages(url, require_approval={"never": {"read_only": True}})]
        first = respond(base, {"tools": tools}).json
        assert kinds(first) == ["mcp_list_tools", "mcp_call", "mcp_approval_request"]
        answers = [answer_to(first["output"][-1], True), {"role": "user", "content": "Thanks."}]
        second = respond(base, {"tools": tools, "previous_response_id": first["id"], "input": answers}).json
    assert (kinds(second), server.erased) == (["mcp_call", "message"], ["y"])


def test_a_conversation_goes_on_by_its_name(remote: tuple[Remote, str]) -> None:
    server, url = remote
    with running(app(ERASE, DONE)) as base:
        conversation = request(base, "POST", "/v1/conversations", b"{}", content_type="application/json").json["id"]
        _, asks = asked(base, url, conversation=conversation)
        body = {"input": [answer_to(asks, True)], "tools": [pages(url)], "conversation": conversation}
        assert kinds(respond(base, body).json) == ["mcp_call", "message"]
        listed = request(base, "GET", f"/v1/conversations/{conversation}/items?order=asc").json["data"]
    assert [item["type"] for item in listed] == [
        "message", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call", "message",
    ]  # fmt: skip
    assert server.erased == ["bern"]


def test_what_a_client_calls_a_server_is_not_this_servers_name_too(address: str) -> None:
    toolbox = Toolbox([FunctionToolSet([pages__weight])])
    with running(app(DONE, tools=toolbox)) as base:
        taken = respond(base, {"tools": [pages(address)]})
        other = respond(base, {"tools": [pages(address, server_label="mine")]})
        own = respond(base, {"tools": [{"type": "mcp", "server_label": "pages"}]})
    assert (taken.status, taken.error["param"]) == (400, "tools[0].server_label")
    assert (other.status, own.status) == (200, 200)


def pages__weight(page: str) -> int:
    """The weight of a page.

    Args:
        page: its name.
    """
    return len(page)


def test_items_that_come_back_are_what_the_model_wrote(remote: tuple[Remote, str]) -> None:
    server, url = remote
    header = "assistant to=functions.pages__erase"
    erase: tuple[Piece, ...] = (START, header, CHANNEL, "commentary ", CONSTRAIN, "json")
    called = harmony_ids(*THOUGHT, *erase, MESSAGE, '{"page":  "bern"}', CALL)
    engine = scripted(turns(called, harmony_ids(*FINAL)))
    with running(responses_app(oss=engine, client_mcp=HERE)) as base:
        first, request = asked(base, url)
        sent = [{"role": "user", "content": "Erase it."}, *first["output"], answer_to(request, True)]
        second = respond(base, {"input": sent, "tools": [pages(url)]}).json
    prompt = bytes(id for id in engine.requests[-1][0] if id < 256).decode()
    assert kinds(second) == ["mcp_call", "message"]
    assert ('{"page":  "bern"}' in prompt, "The user wants the weather." in prompt) == (True, True)
    assert (prompt.count("bern is erased"), server.erased, server.methods["tools/list"]) == (1, ["bern"], 1)


@dataclass(slots=True)
class Remote:
    """What the server was sent: its messages by their method, the headers of each, and the pages that it erased."""

    methods: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)
    secret: str = ""
    """Without it as a bearer's token every request is a 401, where there is one."""

    @property
    def app(self) -> Starlette:
        application: Starlette = self._server().streamable_http_app()
        application.add_middleware(_Watching, remote=self)
        return application

    def _server(self) -> MCPServer:
        server = MCPServer("pages")

        @server.tool(annotations=ToolAnnotations(read_only_hint=True))
        def size(page: str) -> str:
            """The size of a page."""
            return f"{len(page)} letters"

        @server.tool()
        def erase(page: str) -> str:
            """Erases a page."""
            if page == "missing":
                raise ToolError("no such page")
            self.erased.append(page)
            return f"{page} is erased"

        return server


class _Watching:
    def __init__(self, app: ASGIApp, remote: Remote) -> None:
        self._app = app
        self._remote = remote

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self._remote.headers.append(headers)
        if self._remote.secret and headers.get("authorization") != f"Bearer {self._remote.secret}":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return

        async def noted() -> Message:
            message = await receive()
            if body := message.get("body"):
                self._remote.methods[str(json.loads(body).get("method"))] += 1
            return message

        await self._app(scope, noted, send)


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals stay the test's."""
        yield


@contextmanager
def serving(remote: Remote) -> Iterator[str]:
    """The address of the server."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = _Quiet(uvicorn.Config(remote.app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


if __name__ == "__main__":
    with serving(Remote()) as url:
        print(url, flush=True)
        sys.stdin.read()
