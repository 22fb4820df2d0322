"""The JavaScript package in a real browser: ``check_package.py CHROMIUM``; the exit code says whether the suite passes.

A page imports the package as it is, without a bundler, and sends a report on each case back to this process.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from antiphon.cli.conformance import load, shipped, summary
from antiphon.formats.openchatml import run_conformance
from kit.javascript import FOLDER

PAGE = """<!doctype html><script type="module">
import { report } from "./report.js";
const cases = await (await fetch("/cases")).json();
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const reports = cases.map(({ base64, flags }) => report(bytes(base64), flags));
await fetch("/reports", { method: "POST", body: JSON.stringify(reports) });
</script>"""
PATIENCE = 60


class Site(ThreadingHTTPServer):
    """The package's folder, a page, and what the page sends back."""

    def __init__(self, cases: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(FOLDER)))
        self.cases = cases
        self.reports: list[Any] = []
        self.done = Event()


class _Handler(SimpleHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        texts = {"/": ("text/html", PAGE), "/cases": ("application/json", json.dumps(self.server.cases))}
        if self.path not in texts:
            return super().do_GET()
        kind, text = texts[self.path]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())
        return None

    def do_POST(self) -> None:
        self.server.reports = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.done.set()

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


def main(arguments: Sequence[str]) -> int:
    suite = load(shipped())
    site = Site([{"base64": base64.b64encode(case.input).decode(), "flags": case.flags} for case in suite])
    Thread(target=site.serve_forever, daemon=True).start()
    with TemporaryDirectory() as profile:
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]
        browser = subprocess.Popen(
            [arguments[0], *words, f"http://127.0.0.1:{site.server_port}/"], stderr=subprocess.PIPE
        )
        arrived = site.done.wait(PATIENCE)
        browser.terminate()
        said = browser.communicate()[1].decode("utf-8", "replace")
    site.shutdown()
    if not arrived:
        print(f"no reports within {PATIENCE} seconds\n{said[-1000:]}")
        return 1
    reports = iter(site.reports)
    found = summary(list(run_conformance(suite, lambda transcript, flags: next(reports))))
    print(f"{Path(arguments[0]).name}: {found['passed']} of {found['total']} demands met")
    for failed in found["failed"]:
        print(failed)
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
