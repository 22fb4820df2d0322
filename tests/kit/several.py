"""`make test-workers`: the servers of these tests have several workers."""

from __future__ import annotations

import os

SEVERAL = {"ANTIPHON_SERVER_WORKERS": os.environ["TEST_WORKERS"]} if "TEST_WORKERS" in os.environ else {}
"""For the environment of a server."""
