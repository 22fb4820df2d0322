"""What the page is told of the present."""

from __future__ import annotations

import json
from pathlib import Path

from antiphon.http.gate.keys import new_key
from antiphon.playground.routes import PROGRESS, TOOLS
from antiphon.playground.site import PLAYGROUND
from antiphon.store import SqliteStore
from antiphon.tools import FunctionToolSet, Toolbox
from antiphon.tools.browser import Browser, Corpus
from kit.api import END, THINK, UNTHINK, app, ids, post, request, running, scripted
from kit.toolbox import PythonSet, docs__size
from kit.waiting import wait_until

THOUGHT = ids(THINK, "hidden " * 4000, UNTHINK, "ok", END)


def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


def test_a_server_without_tools_lists_none_and_says_whether_answers_outlive_it(tmp_path: Path) -> None:
    with running(app(THOUGHT, wires=[PLAYGROUND])) as base:
        assert request(base, "GET", TOOLS).json == {"offered": False, "durable": False, "tools": []}
    with running(app(THOUGHT, wires=[PLAYGROUND], store=SqliteStore(tmp_path / "sessions.db"))) as base:
        assert request(base, "GET", TOOLS).json == {"offered": False, "durable": True, "tools": []}


def test_what_is_listed_can_be_requested_as_it_is_listed(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# A page\n\nOn moss.\n")
    tools = Toolbox([Browser(Corpus(tmp_path)), PythonSet(), FunctionToolSet([docs__size, shout])])
    with running(app(ids("Yes.", END), wires=[PLAYGROUND], tools=tools)) as base:
        listed = {tool["name"]: tool for tool in request(base, "GET", TOOLS).json["tools"]}
        assert {name: tool["functions"] for name, tool in listed.items()} == {
            "browser": ["search", "open", "find"], "python": [], "docs": ["size"], "shout": [],
        }  # fmt: skip
        assert [name for name, tool in listed.items() if tool["responses"] is None] == ["shout"]
        named = [tool["responses"] for tool in listed.values() if tool["responses"]]
        response = post(base, "/v1/responses", input="Hi", tools=named)
        assert (response.status, len(response.json["tools"])) == (200, 3), response.body
        assert "x-antiphon-ignored" not in response.headers
        message = {"role": "user", "content": "Hi"}
        assert post(base, "/v1/chat/completions", messages=[message], server_tools=list(listed)).status == 200


def test_what_a_model_thinks_is_counted_and_no_more_is_told_of_it() -> None:
    secret, key = new_key("ann", requests_per_minute=2)
    other, others = new_key("bob")
    with running(app(scripted(THOUGHT, delay=0.01), wires=[PLAYGROUND], keys=[key, others])) as base:
        ann = {"authorization": f"Bearer {secret}"}
        body = json.dumps({"input": "Hi", "background": True, "store": True}).encode()
        id = request(base, "POST", "/v1/responses", body, content_type="application/json", **ann).json["id"]
        path = f"{PROGRESS}/{id}"
        counts: list[int] = []

        def count() -> int:
            told = request(base, "GET", path, None, **ann).json
            assert set(told) == {"status", "waiting", "completion_tokens"}
            counts.append(told["completion_tokens"])
            return counts[-1]

        wait_until(lambda: count() >= 50)
        assert counts == sorted(counts)
        assert request(base, "GET", path).status == 401
        assert request(base, "GET", path, authorization=f"Bearer {other}").status == 404
        assert request(base, "POST", f"/v1/responses/{id}/cancel", b"", **ann).status == 200
        assert request(base, "GET", path, None, **ann).status == 404
