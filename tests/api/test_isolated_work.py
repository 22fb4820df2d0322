"""Programs of clients run outside of the server: it answers all others, and none of what they did stays."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from starlette.applications import Starlette

from antiphon.http.context import Context
from kit.api import Got, app, chat, post, request, running, wire_bytes
from kit.hostile_programs import GRAMMARS, GREAT_SCHEMAS, hostile_grammars, hostile_patterns
from kit.masked import masked_app
from kit.waiting import wait_until

pytestmark = pytest.mark.one_process("it looks at the one process of a server")

USER = [{"role": "user", "content": "x"}]
NEVER = "{% for i in range(99999) %}{% for j in range(99999) %}{{ i * j }}{% endfor %}{% endfor %}"
TEMPLATES = (
    "{{ 1.5|round(60000000,'ceil') }}",
    "{{ ('a'*30000).join('b'*30000)|length }}",
    "{{ ('a'*40000).translate({97: 'b'*40000})|length }}",
    "{{ '\\t'.expandtabs(tabsize=10**9)|length }}",
    "{{ ('f'*390000)|int(0,16) // 3 }}",
    NEVER,
)
"""What computes or allocates; those that a render's budget lets pass are ended by the kernel."""


@pytest.fixture(scope="module")
def served() -> Starlette:
    return masked_app()


@pytest.fixture(scope="module")
def base(served: Starlette) -> Iterator[str]:
    with running(served) as url:
        yield url


def context(application: Starlette) -> Context:
    found: Context = application.state.context
    return found


def refused(got: Got) -> bool:
    return 400 <= got.status < 500 and bool(got.error["code"])


@pytest.mark.parametrize("path", ["/v1/templates/try", "/v1/templates/check"])
def test_hostile_templates_end_and_health_is_answered_meanwhile(base: str, path: str) -> None:
    more = {"messages": USER} if path.endswith("try") else {}
    with ThreadPoolExecutor(len(TEMPLATES)) as threads:
        working = [threads.submit(post, base, path, template=template, **more) for template in TEMPLATES]
        healthy = 0
        while not all(work.done() for work in working):
            assert request(base, "GET", "/health").status == 200
            healthy += 1
    answers = [work.result() for work in working]
    assert healthy > len(TEMPLATES), "each was answered before all of them had ended"
    assert all(got.status == 200 or refused(got) for got in answers), [got.body for got in answers]
    assert post(base, path, template="{{ messages[0].content }}", **more).status == 200


def test_what_a_hostile_program_takes_is_not_the_servers(served: Starlette, base: str) -> None:
    """An allocation that its process survives is gone with it."""
    here = psutil.Process()
    before = here.memory_info().rss
    for template in TEMPLATES[1:4]:
        post(base, "/v1/templates/try", template=template, messages=USER)
    assert here.memory_info().rss < before + 64 * 2**20


@pytest.mark.parametrize("name", ["three hundred patterns that meet", "two thousand denials", "a web"])
def test_a_schema_that_runs_away_is_refused_with_its_place(base: str, name: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": GREAT_SCHEMAS[name]}}
    got = chat(base, model="chatml", response_format=form)
    assert refused(got)
    assert got.status == 408 or str(got.error["param"]).startswith("response_format"), "a busy server says no place"
    tool = {"type": "function", "function": {"name": "f", "parameters": GREAT_SCHEMAS[name]}}
    called = chat(base, model="chatml", tools=[tool], tool_choice="required")
    assert called.status == 200 or refused(called), "as an object it may be less"
    checked = post(base, "/v1/schemas/check", schema=GREAT_SCHEMAS[name])
    assert refused(checked) or not checked.json["ok"]


@pytest.mark.parametrize("name", ["itself twice, exclusive", "itself twice, both", "a chain that doubles"])
def test_a_schema_that_leads_to_itself_twice_is_judged_in_no_time(base: str, name: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": GREAT_SCHEMAS[name]}}
    got = chat(base, model="chatml", response_format=form, max_tokens=400)
    assert got.status in (200, 400, 502), got.body


@pytest.mark.parametrize("fields", ["guided_grammar", "guided_regex"])
def test_hostile_grammars_and_patterns_are_honoured_or_refused(base: str, fields: str) -> None:
    few = [text for _, text in (hostile_grammars(2) if fields == "guided_grammar" else hostile_patterns(2))]
    with ThreadPoolExecutor(4) as threads:
        answers = threads.map(lambda text: chat(base, model="chatml", max_tokens=8, **{fields: text}), few)
    assert all(got.status == 200 or refused(got) for got in answers)


def test_a_plain_schema_starts_no_process() -> None:
    plain = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": plain, "strict": True}}
    application = masked_app()
    with running(application) as base:
        assert chat(base, model="chatml", response_format=form).status == 200
        assert context(application).isolation.pid is None
        assert chat(base, model="chatml", guided_grammar=GRAMMARS["ambiguous"], max_tokens=8).status in (200, 400)
        assert context(application).isolation.pid is not None


def test_a_template_whose_client_hangs_up_is_ended() -> None:
    application = app([])
    isolation, traffic = context(application).isolation, context(application).traffic

    def ended_with_its_client(address: tuple[str | None, int | None]) -> bool:
        """Whether it was ended because its client hung up; on a busy machine its own limit may come first."""
        with socket.create_connection(address) as client:
            client.sendall(wire_bytes("/v1/templates/try", {"template": TEMPLATES[0], "messages": USER}))
            wait_until(lambda: isolation.pid and psutil.Process(isolation.pid).children())
        assert isolation.pid is not None
        forks = psutil.Process(isolation.pid)
        wait_until(lambda: not [child for child in forks.children() if child.status() != psutil.STATUS_ZOMBIE])
        return traffic.clients_gone > 0

    with running(application) as base:
        url = urlsplit(base)
        wait_until(lambda: ended_with_its_client((url.hostname, url.port)))


def test_a_server_stops_while_hostile_programs_run() -> None:
    application = app([])
    isolation = context(application).isolation
    with ThreadPoolExecutor(2) as threads:
        with running(application, drain=3600) as base:
            works = [threads.submit(_posted, base, template) for template in (TEMPLATES[0], NEVER)]
            wait_until(lambda: isolation.pid is not None)
        assert isolation.pid is None, "none of them was waited for as long as an answer is"
        assert all(work.result() is None or work.result().status >= 400 for work in works)


def _posted(base: str, template: str) -> Any:
    try:
        return post(base, "/v1/templates/try", template=template, messages=USER)
    except OSError:
        return None
