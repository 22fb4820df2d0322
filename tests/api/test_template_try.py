"""POST /v1/templates/try: a template's prompt and a reply, each piece by piece."""

from __future__ import annotations

import pytest

from kit.api import END, Got, app, ids, post, served
from kit.family_templates import FAMILIES

PATH = "/v1/templates/try"
CONTROLS = ["<|u|>", "<|a|>", "<|e|>"]
USER = {"role": "user", "content": "Hi <|u|>"}
CALL = 'Look: <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><|e|>'


base = served(lambda: app(ids("ok", END)))


def attempt(base: str, **fields: object) -> Got:
    return post(base, PATH, **{"template": FAMILIES["hermes"], "controls": CONTROLS, "messages": [USER], **fields})


def test_a_template_of_ones_own_writes_a_prompt_in_pieces(base: str) -> None:
    got = attempt(base).json
    assert got["text"] == "<|u|>Hi <|u|><|e|>\n<|a|>\n"
    assert got["pieces"][:3] == [{"control": "<|u|>"}, {"text": "Hi <|u|>"}, {"control": "<|e|>"}], "text stays text"
    assert (got["ids"], got["reply"], got["stop"]) == (None, None, ["<|e|>"])
    assert attempt(base, add_generation_prompt=False).json["text"] == "<|u|>Hi <|u|><|e|>\n"


def test_tools_are_written(base: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    assert '"name": "f"' in attempt(base, tools=[tool]).json["text"]


def test_a_reply_is_read_piece_by_piece(base: str) -> None:
    read = attempt(base, reply=CALL).json["reply"]
    assert read["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert read["ended"] == "<|e|>"
    steps = read["steps"]
    assert "".join(one.get("text") or one.get("control") or "" for one in steps) == CALL
    kinds = [event["type"] for one in steps for event in one["events"]]
    assert (kinds.count("started"), kinds.count("ended"), kinds[0]) == (2, 2, "started")
    assert len(read["messages"]) == 2


def test_a_model_gives_ids_whatever_it_speaks(base: str) -> None:
    got = post(base, PATH, messages=[{"role": "user", "content": "Hi"}], reply="<think>why</think>Yes<|im_end|>").json
    rendered = post(base, "/v1/render", messages=[{"role": "user", "content": "Hi"}]).json
    assert (got["text"], got["ids"]) == (rendered["text"], rendered["ids"])
    assert sum(len(piece["tokens"]) for piece in got["pieces"]) == len(got["ids"])
    assert (got["reply"]["message"]["content"], got["reply"]["message"]["reasoning"]) == ("Yes", "why")
    both = post(
        base, PATH, model="small", template=FAMILIES["hermes"], messages=[{"role": "user", "content": "Hi"}]
    ).json
    assert both["ids"] is not None


def test_what_is_no_reply_is_incidents(base: str) -> None:
    read = attempt(base, reply="<tool_call>{broken</tool_call><|e|> more").json["reply"]
    assert read["incidents"]


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"template": "{{ 1 }}\n{% for %}"}, "bad_template", "line 2"),
        ({"template": "\n{{ raise_exception('never') }}"}, "template_refused", "line 2"),
        ({"template": "{%- for i in range(10**9) %}{%- endfor %}"}, "template_limit", "too much"),
        ({"template": "x" * 70_000}, "template_too_large", ""),
        ({"messages": []}, "invalid_value", "messages"),
        ({"messages": [USER] * 300}, "invalid_value", "300"),
        ({"reply": "x" * 40_000}, "invalid_value", "reply"),
        ({"controls": ["x"] * 5000}, "invalid_value", "controls"),
    ],
)
def test_what_cannot_be_tried(base: str, fields: dict[str, object], code: str, words: str) -> None:
    got = attempt(base, **fields)
    assert (got.status, got.error["code"]) == (400, code)
    assert words in got.error["message"]


@pytest.mark.parametrize("source", ["{{ ''.__class__.__mro__ }}", "{{ cycler.__init__.__globals__ }}"])
def test_the_sandbox_holds(base: str, source: str) -> None:
    got = attempt(base, template=source)
    assert (got.status, got.error["code"]) == (400, "template_failed")
