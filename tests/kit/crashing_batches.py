"""A server with batches over a store in a file, which a test kills: ``crashing_batches.py FOLDER`` prints its URL."""

from __future__ import annotations

import sys
from pathlib import Path

from antiphon.http.server.server import Server
from antiphon.store import SessionLimits, SqliteStore
from kit.api import END, app, ids, scripted

if __name__ == "__main__":
    engine = scripted(ids("word " * 2, END), delay=0.0005, slots=5)
    # What one that was killed had is the next one's in a second.
    limits = SessionLimits(lease=1.0)
    application = app(engine, store=SqliteStore(Path(sys.argv[1]) / "batches.db"), session_limits=limits)
    Server(application, on_ready=lambda url: print(url, flush=True)).run()
