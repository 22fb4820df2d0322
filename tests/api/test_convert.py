"""/v1/convert: what `antiphon convert` does, for pages and programs."""

from __future__ import annotations

import json

import pytest

from antiphon.conversion import SOURCES, TARGETS, Conversion
from antiphon.conversion.route import MOST_CHARACTERS, MOST_LISTED
from antiphon.http.gate.keys import new_key
from kit.api import END, Got, app, ids, post, request, running, served

PATH = "/v1/convert"
REPLY = ids("ok", END)
CHAT = json.dumps({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})


base = served(lambda: app(REPLY))


def convert(base: str, text: str, to: str | None = None, **fields: object) -> Got:
    return post(base, PATH, input=text, **({"to": to} if to else {}), **fields)


@pytest.mark.parametrize("to", [*TARGETS, "chatml"])
def test_it_is_what_the_library_converts(base: str, to: str) -> None:
    losses: list[object] = []
    expected = b"".join(Conversion(to=to, on_loss=losses.append).run([CHAT.encode()])).decode()
    got = convert(base, CHAT, to).json
    assert (got["ok"], got["from"], got["to"], got["output"]) == (True, "chat", to, expected)
    assert got["lost"] == len(got["losses"]) == len(losses)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("<|start|>user<|message|>Hi<|end|>", "harmony"),
        ("200006 1428 200008 13022 200007", "harmony-ids"),
        ('version: "2.2"\n<|start|>user<|message|>Hi<|end|>', "openchatml"),
        (CHAT, "chat"),
        ('{"input": "Hi"}', "responses"),
    ],
)
def test_the_form_is_found_out(base: str, text: str, form: str) -> None:
    got = convert(base, text, "chat").json
    assert (got["ok"], got["from"]) == (True, form)
    assert json.loads(got["output"])["messages"][0]["role"] == "user"


def test_each_loss_is_listed_with_its_kind(base: str) -> None:
    got = convert(base, json.dumps({"input": "Hi", "user": "me"}), "chat").json
    assert {"path": "user", "what": "'me'", "becomes": None, "kind": "semantic"} in got["losses"]


def test_many_losses_are_counted(base: str) -> None:
    many = json.dumps({"messages": [{"role": "user", "content": "<|im_end|>"}] * (MOST_LISTED + 5)})
    got = convert(base, many, "chatml").json
    assert (got["lost"] >= MOST_LISTED + 5, len(got["losses"])) == (True, MOST_LISTED)


def test_faults_have_code_line_and_column(base: str) -> None:
    text = 'version: "2.2"\n<|start|>user foo=<|message|>Hi<|end|>\n<|start|>assistant<|message|>x'
    got = convert(base, text, "chat").json
    assert (got["ok"], got["output"]) == (False, None)
    places = [(one["code"], one["line"], one["column"]) for one in got["findings"]]
    assert places == [("E-PARSE-HEADER", 2, 15), ("E-STREAM-TRUNCATED", 3, 31)]
    assert convert(base, text).json["findings"] == got["findings"], "to check is to read"


FRAGMENT = "<|start|>user foo=<|message|>Hi<|end|>"


def test_a_fragment_has_its_own_faults_alone(base: str) -> None:
    found = convert(base, FRAGMENT, "chat", **{"from": "openchatml"}).json["findings"]
    assert [one["code"] for one in found] == ["E-PARSE-HEADER"]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ('{"messages": [', "not_json", (1, 15, None)),
        ('{"messages": [{"role": "boss", "content": "x"}]}', "wrong_value", (None, None, "messages[0].role")),
        ("hello", "unknown_form", (None, None, None)),
        ("", "unknown_form", (None, None, None)),
        ("200006\n 12x", "not_ids", (2, 4, None)),
        ("1 2 999999999", "not_ids", (1, 5, None)),
        ("9" * 5000, "not_ids", (1, 1, None)),
        ("[" * 100_000, "not_json", (None, None, None)),
        ('{"messages":' * 50_000, "not_json", (None, None, None)),
        ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "wrong_value", (None, None, "messages[0]")),
    ],
)
def test_no_input_is_more_than_an_answer_with_a_fault(
    base: str, text: str, code: str, place: tuple[int | None, int | None, str | None]
) -> None:
    got = convert(base, text, "openchatml")
    assert (got.status, got.json["ok"], got.json["output"]) == (200, False, None)
    found = got.json["findings"][0]
    assert (found["code"], (found["line"], found["column"], found["path"])) == (code, place)


def test_a_lenient_reading_warns(base: str) -> None:
    text = "<|start|>user<|message|>Hi<|end|>\n<|start|>assistant<|message|>x<|end|>"
    assert convert(base, text, "chat").json["ok"] is False
    got = convert(base, text, "chat", lenient=True).json
    assert (got["ok"], len(json.loads(got["output"])["messages"]), len(got["warnings"])) == (True, 2, 1)


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"to": "nothing"}, 404, "to"),
        ({"from": "chatml"}, 404, "from"),
        ({"input": "x" * (MOST_CHARACTERS + 1)}, 400, "input"),
        ({"input": None}, 400, "input"),
    ],
)
def test_what_cannot_be_requested(base: str, fields: dict[str, object], status: int, param: str) -> None:
    got = post(base, PATH, **{"input": CHAT, **fields})
    assert (got.status, got.error["param"]) == (status, param)


def test_the_forms_are_listed_and_those_of_templates_are_written(base: str) -> None:
    listed = request(base, "GET", PATH, None).json
    assert (listed["from"], listed["to"]) == (list(SOURCES), list(TARGETS))
    assert {"chatml", "llama3"} <= set(listed["templates"])
    for name in listed["templates"][::8]:
        assert convert(base, CHAT, name).json["to"] == name


def test_it_takes_a_key() -> None:
    secret, key = new_key("alice")
    with running(app(REPLY, keys=[key])) as base:
        assert convert(base, CHAT, "chat").error["code"] == "invalid_api_key"
        assert request(base, "GET", PATH, None).status == 401
        body = json.dumps({"input": CHAT, "to": "chat"}).encode()
        got = request(base, "POST", PATH, body, content_type="application/json", authorization=f"Bearer {secret}")
        assert got.json["ok"] is True
