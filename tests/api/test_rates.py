"""How much a key may use: what is counted, when it is given back, and what is saved up."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from antiphon.api import Limits
from antiphon.errors import OverloadedError
from antiphon.http.gate.keys import Keyring, new_key
from antiphon.http.gate.rates import Bucket, Rates, duration
from antiphon.http.rules import Rules
from kit.api import END, app, ids, in_process, in_process_into, running, scripted
from kit.waiting import Clock, until

ONE_AT_ONCE = Limits(concurrent_per_key=1)
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "session": ("/v1/chat/interactive", {"prompt": "Hi", "session_id": 7, "interactive_mode": True}),
    "responses": ("/v1/responses", {"input": "Hi"}),
}


class KeptConnection:
    """A client that sends its next request when it has read the answer before, all on one connection."""

    def __init__(self, base: str) -> None:
        address = urlsplit(base)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port)
        self._connection.connect()
        self._socket = self._connection.sock

    def post(self, path: str, fields: dict[str, Any]) -> tuple[int, bytes]:
        self._connection.request("POST", path, json.dumps(fields), {"content-type": "application/json"})
        answer = self._connection.getresponse()
        status, body = answer.status, answer.read()
        assert self._connection.sock is self._socket
        return status, body

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_who_asks_one_after_the_other_needs_one_request_at_once(question: str, stream: bool) -> None:
    path, fields = QUESTIONS[question]
    with running(app(ids("ok", END), limits=ONE_AT_ONCE)) as base:
        client = KeptConnection(base)
        answers = [client.post(path, {**fields, "stream": stream}) for _ in range(40)]
        client.close()
    assert {status for status, _ in answers} == {200}, answers[-1]


async def test_whoever_has_read_the_end_of_a_stream_may_ask_again_though_its_answer_is_not_over() -> None:
    """The end of the events is all that many clients wait for."""
    application = app(ids("ok", END), limits=ONE_AT_ONCE)
    running_then: list[int] = []

    class Noting(list[Any]):
        def append(self, message: Any) -> None:
            if b"[DONE]" in message.get("body", b""):
                running_then.append(application.state.context.admission.running)
            super().append(message)

    got = await in_process_into(Noting(), application, stream=True)
    assert got.events[-1] == "[DONE]"
    assert running_then == [0]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.one_process("of what a key used the workers tell each other once a second")
async def test_a_key_runs_as_many_requests_at_once_as_it_may_and_no_more(stream: bool) -> None:
    engine = scripted(ids("word " * 400, END), delay=0.01)
    application = app(engine, limits=Limits(concurrent_per_key=2))
    first = asyncio.ensure_future(in_process(application, stream=stream))
    await until(lambda: engine.running == 1)
    second = asyncio.ensure_future(in_process(application, stream=stream))
    await until(lambda: engine.running == 2)
    refused = await in_process(application, stream=stream)
    assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
    assert refused.error["message"] == "This key may have 2 requests at once."
    for request in (first, second):
        request.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (await in_process(application, stream=stream, max_tokens=1)).status == 200


@pytest.mark.one_process("reads the account of its process")
async def test_a_refused_request_takes_nothing_from_what_a_key_may_use() -> None:
    application = app(ids("ok", END), limits=Limits(concurrent_per_key=1, requests_per_minute=100))
    rates = application.state.context.rates
    with rates.request(""):
        assert (await in_process(application)).status == 429
        assert rates.headers("")["x-ratelimit-remaining-requests"] == "99"


def rates(clock: Clock, **limits: int) -> Rates:
    return Rates(Rules(Limits(**limits)), Keyring(), clock)


def requests(rates: Rates, name: str = "") -> int:
    """How many requests come in one after the other before one is refused."""
    count = 0
    while count < 1000:
        try:
            with rates.request(name):
                count += 1
        except OverloadedError:
            return count
    return count


def test_a_key_that_rests_saves_up_one_minute_and_no_more() -> None:
    clock = Clock()
    of_key = rates(clock, requests_per_minute=6)
    assert requests(of_key) == 6
    clock.now += 20
    assert requests(of_key) == 2
    clock.now += 24 * 3600
    assert of_key.headers("")["x-ratelimit-remaining-requests"] == "6"
    assert of_key.headers("")["x-ratelimit-reset-requests"] == "0ms"
    assert requests(of_key) == 6


def test_a_refusal_says_after_how_many_seconds_the_next_is_taken() -> None:
    clock = Clock()
    of_key = rates(clock, requests_per_minute=6)
    requests(of_key)
    with pytest.raises(OverloadedError) as refused, of_key.request(""):
        pass
    assert (refused.value.code, refused.value.retry_after) == ("rate_limit_exceeded", 10.0)
    assert refused.value.message == "This key may use 6 requests a minute."
    clock.now += 9.9
    assert requests(of_key) == 0
    clock.now += 0.2
    assert requests(of_key) == 1


def test_an_answer_that_cost_more_than_was_left_is_paid_off_before_the_next() -> None:
    clock = Clock()
    of_key = rates(clock, tokens_per_minute=60)
    of_key.charge("", 90)
    assert of_key.headers("") == {
        "x-ratelimit-limit-tokens": "60", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s",
    }  # fmt: skip
    clock.now += 30.5
    assert requests(of_key) == 0
    clock.now += 1
    assert requests(of_key) == 1000


def test_what_a_key_may_use_is_its_own_where_it_says_so_and_everybody_s_where_not() -> None:
    keys = [new_key("alice", requests_per_minute=2)[1], new_key("bob")[1], new_key("carl", requests_per_minute=0)[1]]
    of_keys = Rates(Rules(Limits(requests_per_minute=5)), Keyring(keys), Clock())
    assert [requests(of_keys, name) for name in ("alice", "bob", "carl")] == [2, 5, 1000]


def test_limits_that_are_changed_count_at_once_and_leave_what_runs() -> None:
    rules, clock = Rules(Limits(concurrent_per_key=3, requests_per_minute=10)), Clock()
    of_key = Rates(rules, Keyring(), clock)
    with ExitStack() as running_requests:
        running_requests.enter_context(of_key.request(""))
        running_requests.enter_context(of_key.request(""))
        rules.limits = Limits(concurrent_per_key=2, requests_per_minute=20)
        assert requests(of_key) == 0
        assert of_key.headers("")["x-ratelimit-limit-requests"] == "20"
    assert requests(of_key) == 20


def test_work_behind_an_answer_counts_until_it_is_over() -> None:
    of_key = rates(Clock(), concurrent_per_key=2)
    with of_key.request(""):
        of_key.check("")
        with of_key.behind(""):
            of_key.check("")
            with of_key.behind(""), pytest.raises(OverloadedError) as refused:
                of_key.check("")
            assert refused.value.code == "rate_limit_exceeded"
            assert refused.value.message == "This key may have 2 requests at once, and 2 run in the background."
            of_key.check("")
    assert requests(rates(Clock(), concurrent_per_key=1)) == 1000


def test_an_empty_bucket_fills_by_its_rate() -> None:
    bucket = Bucket(30, 0.0)
    bucket.take(30, 0.0)
    assert (bucket.wait(0.0), bucket.reset(0.0)) == (2.0, 60.0)
    assert (bucket.level(2.0), bucket.wait(2.0)) == (1.0, 0.0)
    assert bucket.level(100.0) == 30


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0ms"), (0.0174, "17ms"), (0.9994, "999ms"), (1, "1s"), (59.4, "59s"), (60, "1m0s"), (360, "6m0s")],
)
def test_times_are_written_as_openai_writes_them(seconds: float, written: str) -> None:
    assert duration(seconds) == written


def test_work_behind_that_is_over_counts_no_more_and_no_less() -> None:
    of_key = rates(Clock(), concurrent_per_key=1)
    for _ in range(3):
        with of_key.behind(""):
            pass
    with of_key.request(""):
        of_key.check("")
        with of_key.behind(""), pytest.raises(OverloadedError):
            of_key.check("")


def test_a_bucket_is_full_again_after_what_was_taken() -> None:
    bucket = Bucket(120, 0.0)
    for taken, seconds in ((0, 0.0), (1, 0.5), (2, 1.5), (117, 60.0), (120, 120.0)):
        bucket.take(taken, 0.0)
        assert bucket.reset(0.0) == seconds
    assert bucket.wait(0.0) == 60.5
    assert (bucket.wait(60.5), bucket.reset(60.5)) == (0.0, 59.5)


def test_tokens_are_used_up_before_a_request_is_and_each_says_what_it_is() -> None:
    clock = Clock()
    of_key = rates(clock, requests_per_minute=2, tokens_per_minute=60)
    of_key.charge("", 60)
    with pytest.raises(OverloadedError, match="60 tokens a minute") as refused, of_key.request(""):
        pass
    assert refused.value.retry_after == 1.0
    assert of_key.headers("")["x-ratelimit-remaining-requests"] == "2", "a request that was refused took none"


@pytest.mark.one_process("of what a key used the workers tell each other once a second")
async def test_the_tokens_of_an_answer_are_what_its_key_has_less() -> None:
    application = app(ids("ok", END), limits=Limits(tokens_per_minute=1))
    first = await in_process(application)
    second = await in_process(application)
    assert (first.status, second.status, second.error["code"]) == (200, 429, "rate_limit_exceeded")
