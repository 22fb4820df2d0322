"""`antiphon serve --workers 2`: real processes at one port."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from antiphon.catalog.files.store import ModelStore
from antiphon.config import ModelEntry
from antiphon.http.gate.keys import KeyFile, Scope, new_key
from kit.certificates import signed
from kit.program import antiphon, no_more_files
from kit.waiting import PATIENCE, wait_until
from kit.workers import Connection, Workers, workers

CONFIG = """
model = "demo"
[models.demo]
engine = "scripted"
format = "chatml"
reply = "The first reply, word by word, for as long as it takes."
delay = 0.04
[server]
public_metrics = true
[sessions]
store = "memory"
"""
ENDLESS = CONFIG.replace("it takes.", f"it takes. {'And on. ' * 4000}")
SAID = "The first reply, word by word, for as long as it takes."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """A server that every test leaves with both of its workers and as it is configured."""
    with workers(tmp_path_factory.mktemp("server"), CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def leasing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """The same, with longer replies, which another worker goes on with a second after the end of their own."""
    config = CONFIG.replace("delay = 0.04", "delay = 0.01").replace("it takes.", f"it takes. {'And on. ' * 20}")
    with workers(tmp_path_factory.mktemp("leasing"), f"{config}lease = 1.0\n") as running:
        yield running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Workers]:
    with workers(tmp_path, CONFIG) as running:
        yield running


def test_each_worker_has_its_connections_and_what_they_count_is_summed(server: Workers) -> None:
    before, connections = server.count("antiphon_turns_total"), server.connect_to_each()
    assert [connection.ask() for connection in connections * 2] == [SAID] * 4
    others = [server.connect() for _ in range(6)]
    for other in others:
        other.get("/health")
    having = [server.worker_of(connection).pid for connection in [*connections, *others]]
    assert sorted(having.count(pid) for pid in set(having)) == [4, 4]
    assert server.count("antiphon_turns_total") == before + 4
    assert server.count("antiphon_workers") == 2
    assert all(os.getsid(worker.pid) == worker.pid for worker in server.workers), "Ctrl-C is for the supervisor alone"


def test_a_worker_that_is_killed_takes_its_own_requests_along_and_is_replaced(server: Workers) -> None:
    turns, restarts = map(server.count, ("antiphon_turns_total", "antiphon_worker_restarts_total"))
    one, other = server.connect_to_each()
    assert [one.ask(), other.ask()] == [SAID, SAID]
    assert server.count("antiphon_turns_total") == turns + 2
    killed = server.worker_of(one)
    living, dying = other.stream(), one.stream()
    killed.kill()
    with pytest.raises(IncompleteRead):
        dying.read()
    assert living.read().endswith(b"data: [DONE]\n\n")
    server.wait_for_workers(without=killed.pid)
    assert f"the worker {killed.pid} ended by signal 9; another takes its place" in server.log
    assert [connection.ask() for connection in server.connect_to_each()] == [SAID, SAID]
    assert server.count("antiphon_turns_total") == turns + 5, "what a dead worker had counted still counts"
    assert server.count("antiphon_worker_restarts_total") == restarts + 1


def test_all_workers_end_what_runs_when_the_server_is_stopped(own: Workers) -> None:
    streams = [connection.stream() for connection in own.connect_to_each()]
    processes = own.workers
    own.process.send_signal(signal.SIGTERM)
    assert [stream.read()[-14:] for stream in streams] == [b"data: [DONE]\n\n"] * 2
    assert own.process.wait(PATIENCE) == 0
    assert not any(process.is_running() for process in processes)
    with pytest.raises(ConnectionRefusedError):
        own.connect()


def test_what_takes_longer_than_it_may_is_ended_with_an_error_at_each_worker(tmp_path: Path) -> None:
    with workers(tmp_path, ENDLESS.replace("[server]", "[server]\ndrain = 1")) as server:
        streams = [connection.stream() for connection in server.connect_to_each()]
        server.process.send_signal(signal.SIGTERM)
        ends = [stream.read().decode() for stream in streams]
        assert all('"code":"draining"' in end for end in ends)
        assert server.process.wait(PATIENCE) == 0


def test_a_second_signal_ends_at_once_what_runs(tmp_path: Path) -> None:
    with workers(tmp_path, ENDLESS.replace("[server]", "[server]\ndrain = 3600")) as server:
        streams = [connection.stream() for connection in server.connect_to_each()]
        for worker in server.workers:  # None handles the first signal before the second has come.
            worker.suspend()
        wait_until(lambda: all(worker.status() == psutil.STATUS_STOPPED for worker in server.workers))
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refused(server))
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: all(pending(worker) >= {signal.SIGTERM, signal.SIGINT} for worker in server.workers))
        for worker in server.workers:
            worker.resume()
        assert all('"code":"draining"' in stream.read().decode() for stream in streams)
        assert server.process.wait(PATIENCE) == 0


def pending(process: psutil.Process) -> set[int]:
    """The signals that a process has been sent and has not taken."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    mask = int(next(line for line in lines if line.startswith("ShdPnd:")).split()[1], 16)
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


def refused(server: Workers) -> bool:
    try:
        server.connect()
    except ConnectionRefusedError:
        return True
    return False


def test_all_workers_take_a_new_configuration_and_so_do_those_that_come_later(own: Workers) -> None:
    connections = own.connect_to_each()
    second = CONFIG.replace("The first", "The second")
    own.configure(second)
    hang_up(own, "read again: models.demo.engine.reply")
    own.configure(second + '[log]\nform = "json"\n')
    hang_up(own, "read again: log.form")
    assert {connection.ask()[:10] for connection in connections} == {"The second"}
    own.configure("[limits")
    hang_up(own, "the configuration stays as it was")
    killed = own.worker_of(connections[0])
    killed.kill()
    own.wait_for_workers(without=killed.pid)
    assert {connection.ask()[:10] for connection in own.connect_to_each()} == {"The second"}
    assert next(line for line in own.log.splitlines() if "takes its place" in line).startswith("{")


def hang_up(server: Workers, line: str) -> None:
    """SIGHUP, which gives the line once."""
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: line in server.log, why=lambda: server.log)
    assert server.log.count(line) == 1


def test_a_key_s_limits_hold_over_all_workers(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    (alice, hers), (bob, his) = new_key("alice", concurrent=1), new_key("bob", tokens_per_minute=6)
    keys.add(hers)
    keys.add(his)
    with workers(tmp_path, ENDLESS) as server:
        one, other = server.connect_to_each()
        one.key = other.key = alice
        one.stream()
        wait_until(lambda: other.ask(max_tokens=1) == "rate_limit_exceeded", why=lambda: "one at once")
        other.key = bob
        assert len(other.ask(max_tokens=60)) == 60, "it takes minutes to pay that off"
        for connection in server.connect_to_each():
            connection.key = bob
            wait_until(lambda: connection.ask(max_tokens=1) == "rate_limit_exceeded")  # noqa: B023 - called at once
        keys.remove("bob")
        hang_up(server, "keys: 1")
        assert other.ask() == "invalid_api_key"


def test_one_queue_is_before_all_workers_and_a_place_of_one_that_dies_is_free_again(tmp_path: Path) -> None:
    with workers(tmp_path, ENDLESS + "[limits]\nmax_concurrent = 1\nmax_queue = 0\n") as server:
        one, other = server.connect_to_each()
        one.stream()
        assert other.ask(max_tokens=1) == "queue_full"
        server.worker_of(one).kill()
        wait_until(lambda: other.ask(max_tokens=1) == "T")


def test_what_one_worker_stores_in_memory_another_finds(server: Workers) -> None:
    one, other = server.connect_to_each()
    made = json.loads(one.send("/v1/responses", input="Hi").read())
    found = json.loads(other.get(f"/v1/responses/{made['id']}"))
    assert found["output"] == made["output"]
    again = json.loads(other.send("/v1/responses", input="And?", previous_response_id=made["id"]).read())
    assert again["status"] == "completed"


@pytest.mark.parametrize("background", [False, True])
def test_a_response_of_a_worker_that_is_killed_goes_on_at_another_at_the_next_event(
    leasing: Workers, background: bool
) -> None:
    one, other = leasing.connect_to_each()
    undisturbed = events_of(other.send("/v1/responses", input="Hi", stream=True))
    killed = leasing.worker_of(one)
    made = one.send("/v1/responses", input="Hi", stream=True, background=background)
    seen = [event_of(made) for _ in range(30)]
    killed.kill()
    with pytest.raises(IncompleteRead):
        add_all(made, seen)
    id, last = seen[0]["response"]["id"], seen[-1]["sequence_number"]
    rest = events_of(other.request("GET", f"/v1/responses/{id}?stream=true&starting_after={last}"))
    assert [event["sequence_number"] for event in (*seen, *rest)] == list(range(len(seen) + len(rest)))
    text, whole = deltas(seen) + deltas(rest), deltas(undisturbed)
    seam = len(text) - len(whole)  # To whatever prompt this model says all of its reply: so the seam shows.
    assert (len(deltas(seen)) <= seam, text[:seam], text[seam:]) == (True, whole[:seam], whole)
    assert rest[-1]["type"] == "response.completed"
    leasing.wait_for_workers(without=killed.pid)
    assert json.loads(leasing.connect().get(f"/v1/responses/{id}"))["status"] == "completed"


def test_a_background_response_of_a_worker_that_is_killed_is_made_to_its_end_by_another(leasing: Workers) -> None:
    one, other = leasing.connect_to_each()
    killed = leasing.worker_of(one)
    made = json.loads(one.send("/v1/responses", input="Hi", background=True).read())
    killed.kill()

    def answered() -> bool:
        found = json.loads(other.get(f"/v1/responses/{made['id']}"))
        assert found["status"] in ("queued", "in_progress", "completed"), found
        return bool(found["status"] == "completed")

    wait_until(answered)
    (message,) = json.loads(other.get(f"/v1/responses/{made['id']}"))["output"]
    assert message["content"][0]["text"].endswith("And on. " * 20)
    leasing.wait_for_workers(without=killed.pid)


def test_an_answer_to_a_transcript_is_cancelled_at_any_worker(tmp_path: Path) -> None:
    with workers(tmp_path, ENDLESS) as server:
        one, other = server.connect_to_each()
        stream = one.events("/v1/openchatml", 'version: "2.2"\n<|start|>user<|message|>Hi<|end|>\n')
        id = event_of(stream)["message_id"].partition(".")[0]
        cancelled = other.request("POST", f"/v1/openchatml/{id}/cancel")
        assert (cancelled.status, json.loads(cancelled.read())) == (200, {"id": id, "cancelled": True})
        assert "response.cancel" in stream.read().decode()
        assert json.loads(other.request("POST", f"/v1/openchatml/{id}/cancel").read())["error"]["code"]


def event_of(stream: HTTPResponse) -> Any:
    """The next event."""
    while not (line := stream.readline()).startswith(b"data: "):
        if not line:
            raise IncompleteRead(b"")
    return json.loads(line.removeprefix(b"data: "))


def add_all(stream: HTTPResponse, events: list[Any]) -> None:
    """Adds what is still on its way."""
    while True:
        events.append(event_of(stream))


def events_of(stream: HTTPResponse) -> list[Any]:
    """All events."""
    lines = [line for line in stream.read().decode().split("\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def deltas(events: list[Any]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def test_a_model_that_one_worker_deletes_is_gone_for_all(smollm2_path: Path, tmp_path: Path) -> None:
    secret, key = new_key("keeper", [Scope.INFERENCE, Scope.MODELS])
    KeyFile(tmp_path / "keys.json").add(key)
    ModelStore(tmp_path / "models").pull("tiny", ModelEntry(source=str(smollm2_path)))
    table = f'[models.tiny]\nsource = "{tmp_path}/gone.gguf"\n[store]\nfolder = "{tmp_path / "models"}"\n'
    with workers(tmp_path, CONFIG + table) as server:
        one, other = server.connect_to_each()
        one.key = other.key = secret
        assert listed(one) == listed(other) == ["demo", "tiny"]
        assert one.request("DELETE", "/api/delete", {"model": "tiny"}).status == 200
        wait_until(lambda: listed(other) == ["demo"])


def listed(connection: Connection) -> list[str]:
    return sorted(model["name"] for model in json.loads(connection.get("/api/tags"))["models"])


def test_it_serves_https_and_ollama_s_clients_without(tmp_path: Path) -> None:
    cert, key = signed(tmp_path)
    config = CONFIG.replace("[server]", "[server]\nollama = true\nollama_port = 0")
    with workers(tmp_path, config, "--tls-cert", cert, "--tls-key", key) as server:
        trusted = ssl.create_default_context(cafile=cert)
        with urlopen(f"{server.announced['url']}/v1/models", context=trusted, timeout=PATIENCE) as answer:
            assert json.load(answer)["data"][0]["id"] == "demo"
        with urlopen(f"{server.announced['ollama']}/api/tags", timeout=PATIENCE) as answer:
            assert json.load(answer)["models"][0]["name"] == "demo"


def test_while_all_workers_die_young_clients_are_told_so_and_then_all_is_as_it_was(server: Workers) -> None:
    def refused() -> bool:
        for worker in server.workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
        with contextlib.suppress(OSError, HTTPException):  # of a worker that was killed at this very request
            answer = server.connect().request("GET", "/health")
            found.append((answer.status, answer.headers["retry-after"], json.loads(answer.read())))
        return bool(found) and found[-1][0] == 503 and "ended as they began" in str(found[-1][2])

    found: list[tuple[int, str | None, Any]] = []
    wait_until(refused, why=lambda: server.log)
    _, seconds, answer = found[-1]
    assert int(seconds or 0) >= 1
    assert answer["error"]["code"] == "overloaded"
    server.wait_for_workers(without=0)
    assert server.connect().ask() == SAID


def test_a_worker_that_could_not_be_started_is_started_later_and_the_log_says_why(server: Workers) -> None:
    killed = server.workers[0]
    with no_more_files(server.process.pid):
        killed.kill()
        why = "no worker can be started: Too many open files; another takes its place"
        wait_until(lambda: why in server.log, why=lambda: server.log)
    server.wait_for_workers(without=killed.pid)


def test_nothing_is_left_of_a_server_that_is_killed(own: Workers) -> None:
    processes = own.workers
    (folder,) = {Path(file.path).parent for worker in processes for file in worker.open_files() if ".db" in file.path}
    assert folder.is_dir()
    own.process.kill()
    _, alive = psutil.wait_procs(processes, PATIENCE)
    assert not alive
    assert not folder.exists()


def test_a_model_that_cannot_be_loaded_ends_the_server_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_text("no model")
    (tmp_path / "config.toml").write_text('model = "bad"\n[models.bad]\nsource = "no.gguf"\n')
    alone = antiphon("serve", "--port", "0", home=tmp_path)
    several = antiphon("serve", "--port", "0", "--workers", "2", home=tmp_path)
    assert (several.returncode, several.stderr) == (alone.returncode, alone.stderr)


def test_a_port_that_is_taken_is_named(server: Workers, tmp_path: Path) -> None:
    done = antiphon("serve", "--workers", "2", "--port", str(server.base.port), home=tmp_path)
    assert done.returncode == 2
    assert "port_taken" in done.stderr


def test_one_engine_works_for_all_workers_and_goes_with_the_server(smollm2_path: Path, tmp_path: Path) -> None:
    model = f'model = "real"\n[models.real]\nsource = "{smollm2_path}"\nformat = "chatml"\nthreads = 1\nslots = 2\n'
    with workers(tmp_path, model + "[server]\npublic_metrics = true\n") as server:
        one, other = server.connect_to_each()
        (engine,) = server.engines
        assert generated(one)
        usage = json.loads(other.send("/v1/chat/completions", messages=LONG, max_tokens=1).read())["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] > 0, "one worker's prompt is in the cache of the other's"
        both = [connection.stream(max_tokens=30) for connection in (one, other)]
        assert all(stream.read().endswith(b"[DONE]\n\n") for stream in both)
        engine.kill()
        wait_until(lambda: generated(one) and generated(other))
        (again,) = server.engines
        assert again.pid != engine.pid
        assert server.count("antiphon_engine_restarts_total") == 1
        server.worker_of(one).kill()
        assert generated(other)
        assert [process.pid for process in server.engines] == [again.pid]
        server.process.kill()
        psutil.wait_procs([again], PATIENCE)
        assert not again.is_running()


LONG = [{"role": "user", "content": "Say hello to everybody in this long list. " * 8}]


def generated(connection: Connection) -> bool:
    """Whether the engine answers."""
    answer = connection.send("/v1/chat/completions", messages=LONG, max_tokens=4)
    return bool(json.loads(answer.read()).get("usage", {}).get("completion_tokens") == 4)
