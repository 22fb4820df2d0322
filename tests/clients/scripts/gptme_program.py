# /// script
# dependencies = ["gptme>=0.35"]
# ///
"""gptme, the program: it answers, and it reads, changes and shows a file in one session, by tools of the API."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from steps import CHAT, MORNING, OBEDIENT, URL, finish, step

home = tempfile.TemporaryDirectory()
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": home.name, "NO_PROXY": "127.0.0.1",
    "OPENAI_BASE_URL": URL, "OPENAI_API_KEY": "any",
}  # fmt: skip


def gptme(*words):
    command = [Path(sys.executable).parent / "gptme", "--non-interactive", "--model", f"local/{CHAT}", *words]
    ran = subprocess.run(command, cwd=home.name, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@step
def chat():
    text = gptme("--tools", "none", MORNING)
    assert "Good morning." in text.replace(MORNING, "") if OBEDIENT else text, text


if OBEDIENT:

    @step
    def chat_loop():
        note = Path(home.name, "note.txt")
        note.write_text("There is marzipan.\n")
        plan = (
            'plan: call shell {"command": "cat note.txt"} ;; '
            'call shell {"command": "sed -i s/marzipan/nougat/ note.txt"} ;; say It is done.'
        )
        text = gptme("--tools", "shell", "--tool-format", "tool", plan)
        assert note.read_text() == "There is nougat.\n", text


finish("gptme")
home.cleanup()
