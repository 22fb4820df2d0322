"""What a model thinks reaches no client that may not see it: in no field, error, header, stream or count of words."""

from __future__ import annotations

import json
from itertools import cycle, product
from typing import Any

import pytest

from kit.api import END, THINK, UNTHINK, call, ids, request, running, scripted
from kit.breaking import Losing
from kit.responses import CALL, FINAL, PREAMBLE, WEATHER, harmony_ids, responses_app
from kit.responses import CHANNEL as OSS_CHANNEL
from kit.responses import END as OSS_END
from kit.responses import MESSAGE as OSS_MESSAGE

SECRET = "the quick brown secret"
THOUGHT = (OSS_CHANNEL, "analysis", OSS_MESSAGE, SECRET, OSS_END)
REPLIES = {
    "small": {
        "answer": ids(THINK, SECRET, UNTHINK, "Fine.", END),
        "call": ids(THINK, SECRET, UNTHINK, *call("weather", "{}"), END),
        "unclosed": ids(THINK, SECRET),
        "opened twice": ids(THINK, THINK, SECRET, UNTHINK, "Fine.", END),
    },
    "oss": {
        "answer": harmony_ids(*THOUGHT, *FINAL),
        "call": harmony_ids(*THOUGHT, *PREAMBLE, *WEATHER),
        "unclosed": harmony_ids(OSS_CHANNEL, "analysis", OSS_MESSAGE, SECRET),
        "a call in mid-thought": harmony_ids(OSS_CHANNEL, "analysis", OSS_MESSAGE, SECRET, CALL),
    },
}
TOOL = {"type": "function", "function": {"name": "weather"}}
FLAT = {"type": "function", "name": "weather", "parameters": {}}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "logprobs": True, "top_logprobs": 1}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL], "n": 2}),
    ("/v1/completions", {"prompt": "Hi", "use_raw_prompt": False, "logprobs": 1, "echo": False}),
    ("/v1/responses", {
        "input": "Hi", "tools": [FLAT], "reasoning": {"summary": "detailed"},
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
    }),
    ("/v1/chat/interactive", {"prompt": "Hi", "session_id": "s", "interactive_mode": True}),
]  # fmt: skip


class Distracted(Losing):
    """Is lost once it has thought for a while."""

    after = 15


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "lost"])
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in REPLIES.items() for kind in kinds])
def test_a_thought_is_shown_to_nobody(name: str, kind: str, lost: bool) -> None:
    engine = Distracted(REPLIES[name][kind]) if lost else scripted(REPLIES[name][kind])
    with running(responses_app(**{name: engine})) as base:
        for (path, body), (stream, cut) in zip(REQUESTS * 2, cycle(product((False, True), repeat=2)), strict=False):
            most = {"request_output_len" if "interactive" in path else MOST[path]: 12} if cut else {}
            sent = json.dumps({**body, **most, "stream": stream}).encode()
            got = request(base, "POST", path, sent, content_type="application/json")
            assert got.status in ((200, 503) if lost else (200,)), got.body
            answer = (got.body + repr(got.headers).encode()).decode()
            assert not any(part in answer for part in ("secret", "brown", "quick")), answer
        assert b"secret" not in request(base, "GET", "/metrics").body


MOST = {
    "/v1/chat/completions": "max_tokens",
    "/v1/completions": "max_tokens",
    "/v1/responses": "max_output_tokens",
}
