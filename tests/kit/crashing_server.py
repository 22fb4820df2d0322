"""A server over a store in a file, which a test kills: ``crashing_server.py FOLDER`` prints its URL."""

from __future__ import annotations

import sys
from pathlib import Path

from antiphon.http.server.server import Server
from antiphon.store import SqliteStore
from kit.api import END, ids, scripted
from kit.responses import responses_app

if __name__ == "__main__":
    engine = scripted(lambda prompt, sampling, choice: ids("word " * 2, END), delay=0.001)
    store = SqliteStore(Path(sys.argv[1]) / "responses.db")
    Server(responses_app(small=engine, store=store), on_ready=lambda url: print(url, flush=True)).run()
