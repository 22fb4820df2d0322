"""`antiphon serve --workers 2` in a home of its own, and which of its workers has which connection."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import psutil

from kit.program import PROGRAM, descendants, engines_of, environment
from kit.waiting import PATIENCE, wait_until

WORKERS = 2


class Workers:
    """The supervisor, as ``process``, and its workers. Its log is in the file that the configuration names."""

    def __init__(self, home: Path, config: str, *arguments: str) -> None:
        self.home = home
        self.configure(config)
        self._connections: list[Connection] = []
        self.process = subprocess.Popen(
            [*PROGRAM, "serve", "--port", "0", "--json", "--workers", str(WORKERS), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env=environment(home, ANTIPHON_LOG_FILE=str(home / "log")),
        )  # fmt: skip
        assert self.process.stdout is not None
        announced = ""
        while not announced.endswith("}\n") and (line := self.process.stdout.readline()):
            announced += line
        self.announced: dict[str, str] = json.loads(announced or "{}")
        self.base = urlsplit(self.announced.get("url", ""))

    def configure(self, text: str) -> None:
        (self.home / "config.toml").write_text(text)

    @property
    def log(self) -> str:
        return (self.home / "log").read_text()

    @property
    def workers(self) -> list[psutil.Process]:
        return descendants(self.process.pid, "antiphon.workers.worker")

    @property
    def engines(self) -> list[psutil.Process]:
        return engines_of(self.process.pid)

    def connect(self) -> Connection:
        self._connections.append(Connection(self))
        return self._connections[-1]

    def end(self) -> None:
        """The supervisor is killed; nothing of it may be left."""
        left = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        for connection in self._connections:
            connection.close()
        self.process.kill()
        self.process.communicate()
        _, alive = psutil.wait_procs(left, PATIENCE)
        assert not alive

    def worker_of(self, connection: Connection) -> psutil.Process:
        """The worker that has the connection."""
        port = connection.port
        (worker,) = [
            worker for worker in self.workers
            if any(one.raddr and one.raddr.port == port for one in worker.net_connections("tcp"))
        ]  # fmt: skip
        return worker

    def connect_to_each(self) -> list[Connection]:
        """A connection to each worker."""
        found: dict[int, Connection] = {}
        while len(found) < WORKERS:
            connection = self.connect()
            connection.get("/health")
            found.setdefault(self.worker_of(connection).pid, connection)
        return list(found.values())

    def count(self, name: str) -> float:
        """The value of a metric, or the sum of all of that name."""
        connection = self.connect()
        text = connection.get("/metrics").decode()
        connection.close()
        return sum(float(line.split()[-1]) for line in text.splitlines() if re.split("[{ ]", line)[0] == name)

    def wait_for_workers(self, *, without: int) -> None:
        """Waits until there are as many workers as there should be, and that one is not among them; all are asked."""

        def replaced() -> bool:
            pids = {worker.pid for worker in self.workers}
            return len(pids) == WORKERS and without not in pids and self.count("antiphon_workers") == WORKERS

        wait_until(replaced, why=lambda: self.log)


class Connection:
    """A connection that is kept."""

    def __init__(self, server: Workers) -> None:
        self._http = http.client.HTTPConnection(server.base.hostname or "", server.base.port, timeout=PATIENCE)
        self._http.connect()
        self.key = ""

    @property
    def port(self) -> int:
        port: int = self._http.sock.getsockname()[1]
        return port

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, path: str, fields: dict[str, Any] | None = None) -> http.client.HTTPResponse:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {self.key}"} if self.key else {})
        self._http.request(method, path, None if fields is None else json.dumps(fields), headers)
        return self._http.getresponse()

    def events(self, path: str, text: str) -> http.client.HTTPResponse:
        """A stream of events for a body of text."""
        self._http.request("POST", path, text, {"accept": "text/event-stream", "content-type": "text/plain"})
        return self._http.getresponse()

    def send(self, path: str, **fields: Any) -> http.client.HTTPResponse:
        return self.request("POST", path, fields)

    def get(self, path: str) -> bytes:
        return self.request("GET", path).read()

    def stream(self, **fields: Any) -> IO[bytes]:
        """A chat completion whose first event has come."""
        answer = self.send("/v1/chat/completions", messages=HI, stream=True, **fields)
        assert answer.status == 200, answer.read()
        answer.readline()
        return answer

    def ask(self, **fields: Any) -> Any:
        """What the model says, or the code of the error."""
        answer = json.loads(self.send("/v1/chat/completions", messages=HI, **fields).read())
        return answer["error"]["code"] if "error" in answer else answer["choices"][0]["message"]["content"]


HI = [{"role": "user", "content": "Hi"}]


@contextlib.contextmanager
def workers(home: Path, config: str, *arguments: str) -> Iterator[Workers]:
    """The server; in the end it is killed."""
    server = Workers(home, config, *arguments)
    try:
        assert server.base.port, "it did not start"
        yield server
    finally:
        server.end()
