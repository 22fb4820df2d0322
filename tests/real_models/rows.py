"""The rows of the table: ways to ask a model, each with its cases and with what counts as right.

A case is a function of a side that tells whether its answer was right. What llama.cpp has no way for is asked of us
alone (``alone``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jsonschema_rs

from real_models.questions import (
    CHOICES,
    COMPLETIONS,
    DOCUMENT,
    IN_DOCUMENT,
    NEAREST,
    PATTERNS,
    QUESTIONS,
    REMEMBERED,
    VALUES,
)
from real_models.sides import Answer, Json, Side
from real_models.tool_tasks import CALLS, LOOPS, PLAIN, TASKS, Loop, Task, fits
from real_models.typed import TYPED

Case = Callable[[Side], bool | list[bool]]
"""Asks a side, and tells whether its answer was right; of several checks in one conversation, of each."""

SHORT, MIDDLE, LONG = 24, 60, 120
"""Tokens at most of an answer."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way. ``format``: the format that the model is made to speak, where that is not its own.

    ``exact``: each case must hold. ``sampled``: chance has a part in it. ``runs`` is what the row needs: a model that
    can `chat`, the same through the `library`, or one that can `embed`.
    """

    name: str
    what: str
    cases: Sequence[Case]
    alone: bool = False
    exact: bool = False
    sampled: bool = False
    format: str | None = None
    runs: str = "chat"


def body(messages: Sequence[Json], tokens: int, **more: Any) -> Json:
    return {"messages": list(messages), "max_tokens": tokens, "temperature": 0, **more}


def user(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


def asked(side: Side, request: Json) -> Answer:
    """The answer to a request whose prompt lies in the cache already.

    A model's arithmetic depends on how many tokens it evaluates at once, and where two words are as good it may choose
    the other: so both sides evaluate the last token of the prompt alone.
    """
    side.chat({**request, "max_tokens": 1})
    return side.chat(request)


def answers(ask: str, right: str, side: Side) -> bool:
    return bool(re.search(right, asked(side, body(user(ask), MIDDLE)).text, re.IGNORECASE))


def sampled(ask: str, right: str, seed: int, side: Side) -> bool:
    """The same with nothing said of sampling but the seed."""
    request = {"messages": user(ask), "max_tokens": MIDDLE, "seed": seed}
    return bool(re.search(right, side.chat(request).text, re.IGNORECASE))


def same_streamed(request: Json, side: Side) -> bool:
    """Whether a stream says what the whole answer says."""
    whole, streamed = asked(side, request), side.chat(request, streamed=True)
    return whole.error is None and whole.said == streamed.said


def offered(task: Task, **more: Any) -> Json:
    return body(task.messages, LONG, tools=list(task.tools), **more)


def calls_right(task: Task, more: Json, side: Side) -> bool:
    """One call, and the right one."""
    found = asked(side, offered(task, **more)).calls
    return len(found) == 1 and task.wants(*found[0])


def tells_in_text(task: Task, more: Json, side: Side) -> bool:
    """An answer in words: no call, no text that only looks like one, and not the marks of a template alone."""
    found = asked(side, {**offered(task, **more), "max_tokens": MIDDLE})
    words = re.sub(r"<\|\w*(\|>)?", "", found.text).strip()
    return found.error is None and not found.calls and bool(words) and not looks_like_call(words, task)


def looks_like_call(text: str, task: Task) -> bool:
    names = "|".join(re.escape(tool["function"]["name"]) for tool in task.tools)
    return bool(re.search(rf'"(name|function)"\s*:\s*"({names})"|<tool_call>|^\s*({names})\(', text))


def named(task: Task) -> Json:
    return {"tool_choice": {"type": "function", "function": {"name": task.name}}}


def loop_holds(loop: Loop, side: Side) -> list[bool]:
    """Plays the loop: whether each call was right, and each answer holds what it must.

    An answer counts where the calls were made of whose results it tells: what is said without them is invented.
    """
    messages = [{"role": "system", "content": loop.system}] if loop.system else []
    checks: list[bool] = []
    called = True
    for turn in loop.turns:
        messages += user(turn.ask)
        reply = side.chat(body(messages, LONG, tools=list(loop.tools)))
        messages.append(reply.message)
        if turn.name is not None:
            task = Task(turn.ask, loop.tools, loop.system, turn.name, turn.arguments)
            checks.append(len(reply.calls) == 1 and task.wants(*reply.calls[0]))
            called = called and turn.name in [name for name, _ in reply.calls]
        if turn.name is not None and reply.calls:
            messages += results(reply, turn.result)
            reply = side.chat(body(messages, LONG, tools=list(loop.tools)))
            messages.append(reply.message)
        checks.append(called and not reply.calls and turn.holds.search(reply.text) is not None)
    return checks


def results(reply: Answer, result: str) -> list[Json]:
    return [{"role": "tool", "tool_call_id": call["id"], "content": result} for call in reply.message["tool_calls"]]


def continues_cached(loop: Loop, side: Side) -> bool:
    """Whether each request of the loop evaluates no more than what was added since the last one."""
    messages = [{"role": "system", "content": loop.system}] if loop.system else []
    before: Answer | None = None
    for turn in loop.turns:
        messages += user(turn.ask)
        for result in (turn.result, None):
            reply = side.chat(body(messages, LONG, tools=list(loop.tools)))
            messages.append(reply.message)
            if before is not None and evaluated(reply) > reply.prompt_tokens - before.prompt_tokens + EDGE:
                return False
            before = reply
            if not reply.calls or result is None:
                break
            messages += results(reply, result)
    return True


EDGE = 2
"""Tokens beside the new ones: the last of a prompt is always evaluated again."""


def evaluated(reply: Answer) -> int:
    return reply.prompt_tokens - (reply.cached_tokens or 0)


def value_right(ask: str, schema: Json, right: Any, side: Side) -> bool:
    form = {"type": "json_schema", "json_schema": {"name": "value", "strict": True, "schema": schema}}
    text = asked(side, body(user(ask), LONG, response_format=form)).text
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return jsonschema_rs.is_valid(schema, value) and fits(right, value)


def pattern_right(ask: str, pattern: str, grammar: str, right: str, side: Side) -> bool:
    form: Json = {"grammar": grammar} if side.peer else {"structured_outputs": {"regex": pattern}}
    text = asked(side, body(user(ask), SHORT, **form)).text
    return re.fullmatch(pattern, text) is not None and text == right


def choice_right(ask: str, choices: Sequence[str], right: str, side: Side) -> bool:
    grammar = "root ::= " + " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    form: Json = {"grammar": grammar} if side.peer else {"structured_outputs": {"choice": list(choices)}}
    return asked(side, body(user(ask), SHORT, **form)).text == right


def continues(prompt: str, right: str, side: Side) -> bool:
    return bool(re.search(right, side.complete(prompt, SHORT).text, re.IGNORECASE))


def found_in_document(ask: str, right: str, side: Side) -> bool:
    return answers(f"{DOCUMENT}\n\nQuestion: {ask} Answer briefly.", right, side)


def remembered(number: int, turns: Sequence[str], right: str, side: Side) -> bool:
    """A fact of the first turn, asked for in the last: ours in a session, llama.cpp's with the history sent again."""
    messages: list[Json] = []
    for place, turn in enumerate(turns):
        if side.peer:
            messages += user(turn)
            reply = side.chat(body(messages, MIDDLE))
            messages.append(reply.message)
        else:
            reply = side.chat(body(user(turn), MIDDLE, session_id=f"s{number}", sequence_start=place == 0))
    return bool(re.search(right, reply.text, re.IGNORECASE))


def typed_right(ask: str, type: Any, right: object, side: Side) -> bool:
    return bool(side.typed(ask, type) == right)


def nearest(text: str, others: Sequence[str], side: Side) -> bool:
    """Whether the first of the others is the nearest; vectors have length 1."""
    own, *vectors = side.embed([text, *others])
    close = [sum(a * b for a, b in zip(own, vector, strict=True)) for vector in vectors]
    return max(close) == close[0]


def well_formed(ask: str, side: Side) -> bool:
    """An answer that has a text and came to an end or to its limit, the same streamed."""
    whole = side.chat(body(user(ask), LONG))
    ended = bool(whole.text.strip() or whole.finish == "length")
    return ended and same_streamed(body(user(ask), LONG), side)


def ends_in_call(task: Task, side: Side) -> bool:
    """A forced call of an offered tool with arguments of its schema, whole at the limit too."""
    found = side.chat(offered(task, **named(task), finish="always")).calls
    return len(found) == 1 and Task(task.ask, task.tools, task.system, task.name).wants(*found[0])


def in_format(format: str) -> Row:
    schemas = [partial(value_right, ask, schema, {}) for ask, schema, _ in VALUES[:4]]
    cases = [partial(well_formed, ask) for ask, _ in QUESTIONS[:4]]
    cases += [partial(ends_in_call, task) for task in CALLS[::9]]
    return Row(f"format {format}", "well-formed, streamed = whole", [*cases, *schemas], alone=True, format=format)


ONE: Json = {"parallel_tool_calls": False}
REQUIRED: Json = {"tool_choice": "required"}

ROWS = (
    Row("auto", "the right call", [partial(calls_right, task, ONE) for task in CALLS]),
    Row("auto: plain questions", "answered in text", [partial(tells_in_text, task, ONE) for task in PLAIN]),
    Row("auto: streamed", "= whole", [partial(same_streamed, offered(task)) for task in TASKS[::4]], exact=True),
    Row("required", "the right call", [partial(calls_right, task, REQUIRED | ONE) for task in CALLS[::2]]),
    Row(
        "required: as many as it likes",
        "one call, the right one",
        [partial(calls_right, task, REQUIRED) for task in CALLS[::4]],
    ),
    Row("named", "the right arguments", [partial(calls_right, task, named(task)) for task in CALLS[::3]]),
    Row("none", "answered in text", [partial(tells_in_text, task, {"tool_choice": "none"}) for task in TASKS[::5]]),
    Row("tool loops", "right calls, and answers that tell of them", [partial(loop_holds, loop) for loop in LOOPS]),
    Row("tool loops: what is evaluated", "only what is new", [partial(continues_cached, loop) for loop in LOOPS]),
    Row("chat", "the right answer", [partial(answers, *pair) for pair in QUESTIONS]),
    Row(
        "chat: streamed",
        "= whole",
        [partial(same_streamed, body(user(ask), MIDDLE)) for ask, _ in QUESTIONS[::3]],
        exact=True,
    ),
    Row(
        "chat: nothing said of sampling",
        "the right answer",
        [partial(sampled, *pair, seed) for pair in QUESTIONS for seed in (1, 2)],
        sampled=True,
    ),
    Row("JSON schema", "valid, and the right value", [partial(value_right, *case) for case in VALUES]),
    Row("regex", "matches, and is right", [partial(pattern_right, *case) for case in PATTERNS]),
    Row("choices", "the right one", [partial(choice_right, *case) for case in CHOICES]),
    Row("completions", "the right words", [partial(continues, *case) for case in COMPLETIONS]),
    Row("long prompts", "the right answer", [partial(found_in_document, *case) for case in IN_DOCUMENT]),
    Row(
        "sessions",
        "what was said is known",
        [partial(remembered, number, *case) for number, case in enumerate(REMEMBERED)],
    ),
    Row("typed answers", "the right value", [partial(typed_right, *case) for case in TYPED], runs="library"),
    in_format("harmony"),
    in_format("openchatml"),
    Row("embeddings", "the nearest text", [partial(nearest, *case) for case in NEAREST], runs="embed"),
)
