"""The documentation in a real browser, as a server has it under /docs: ``check_site.py CHROMIUM FOLDER [NAMES]``.

The exit code says whether every page passed axe, the policy and 360 pixels; screenshots go to the folder.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from antiphon.playground.site import site_wire
from kit.api import app, running

SCRIPT = Path(__file__).with_name("site.mjs")


def main(chromium: str, folder: str, *names: str) -> int:
    with running(app([], wires=[site_wire()])) as url:
        return subprocess.run(["node", str(SCRIPT), chromium, folder, f"{url}/docs/", *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
