"""Streaming and not streaming are the same changes: the same message, usage and finish reason, however it is cut."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.any_reply import CUTS, LOOKING, MARKS, STOPS, chatml
from kit.api import app, in_process, scripted
from kit.call_ids import numbered


def assembled(events: list[Any]) -> dict[str, Any]:
    """What a client puts together from a stream."""
    choices: dict[int, dict[str, Any]] = {}
    usage = None
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            whole = choices.setdefault(choice["index"], {"content": "", "reasoning": "", "calls": [], "finish": None})
            assert whole["finish"] is None, "something came after the finish"
            whole["finish"] = choice["finish_reason"]
            whole["content"] += choice["delta"].get("content", "")
            whole["reasoning"] += choice["delta"].get("reasoning", "")
            for delta in choice["delta"].get("tool_calls", ()):
                if "id" in delta:
                    assert delta["index"] == len(whole["calls"])
                    whole["calls"].append([delta["id"], delta["function"]["name"], ""])
                whole["calls"][delta["index"]][2] += delta["function"]["arguments"]
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


def collected(answer: dict[str, Any]) -> dict[str, Any]:
    """The same of a whole answer."""
    return {
        "choices": [
            {
                "content": choice["message"]["content"] or "",
                "reasoning": choice["message"].get("reasoning", ""),
                "calls": [
                    [call["id"], call["function"]["name"], call["function"]["arguments"]]
                    for call in choice["message"].get("tool_calls", ())
                ],
                "finish": choice["finish_reason"],
            }
            for choice in answer["choices"]
        ],
        "usage": answer["usage"],
    }


@settings(max_examples=150, deadline=None)
@given(
    replies=st.lists(chatml(LOOKING, MARKS, most=6), min_size=1, max_size=2),
    cuts=CUTS,
    limit=st.one_of(st.none(), st.integers(0, 40)),
    stop=STOPS,
    parallel=st.booleans(),
    expose=st.booleans(),
    offered=st.sampled_from([["look"], ["other"], []]),
)
async def test_a_stream_and_a_whole_answer_agree(
    replies: list[list[int]],
    cuts: tuple[int, int],
    limit: int | None,
    stop: list[str] | None,
    parallel: bool,
    expose: bool,
    offered: list[str],
) -> None:
    fields: dict[str, Any] = {"n": len(replies), "max_tokens": limit, "stop": stop, "parallel_tool_calls": parallel}
    fields["tools"] = [{"type": "function", "function": {"name": name}} for name in offered]
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    one, other = (
        app(scripted(lambda prompt, sampling, choice: replies[choice], chunk=cut), expose_reasoning=expose)
        for cut in cuts
    )
    whole = await in_process(one, **fields)
    streamed = await in_process(other, **fields, **usage)
    assert (whole.status, streamed.status) == (200, 200), (whole.body, streamed.body)
    assert streamed.events[-1] == "[DONE]"
    assert numbered(assembled(streamed.events[:-1])) == numbered(collected(whole.json))
    calls = [call for choice in collected(whole.json)["choices"] for call in choice["calls"]]
    assert all(name in offered for _, name, _ in calls)
