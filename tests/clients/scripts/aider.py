# /// script
# dependencies = ["aider-chat>=0.86"]
# ///
"""aider, the program, with the .aider.conf.yml that `antiphon connect aider --write` writes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from steps import CONNECTION, MORNING, OBEDIENT, finish, step


@step
def chat():
    file = Path(CONNECTION["file"])
    quiet = ["--no-git", "--no-check-update", "--no-analytics", "--no-show-model-warnings", "--no-pretty"]
    done = subprocess.run(
        [sys.executable, "-m", "aider", *quiet, "--yes-always", "--message", MORNING],
        env={**os.environ, "HOME": str(file.parent), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        cwd=tempfile.mkdtemp(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Tokens:" in done.stdout, done.stdout
    assert not OBEDIENT or "\nGood morning." in done.stdout, done.stdout


finish("aider-chat")
