# /// script
# dependencies = ["llm>=0.36"]
# ///
"""The `llm` command line: a prompt, streamed and not, a schema, a tool, a completion. Embeddings are its plugins'."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from steps import CHAT, CITIES, CONNECTION, MORNING, OBEDIENT, URL, WEATHER, expect_text, finish, step

written = Path(CONNECTION["file"])
folder = Path(tempfile.mkdtemp())
(folder / written.name).write_text(f"""{written.read_text()}
- model_id: here-text
  model_name: {CHAT}
  api_base: {URL}
  completion: true
""")
HERE = f"antiphon/{CHAT}"
SCHEMA = {"type": "object", "properties": {"city": {"enum": [*CITIES]}}, "required": ["city"]}


def llm(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "llm", "-m", *arguments, "-o", "max_tokens", "200"],
        env={**os.environ, "LLM_USER_PATH": str(folder)}, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@step
def chat():
    expect_text(llm(HERE, MORNING, "--no-stream"), "Good morning.")


@step
def chat_stream():
    expect_text(llm(HERE, MORNING), "Good morning.")


@step
def chat_schema():
    place = json.loads(llm(HERE, "--schema", json.dumps(SCHEMA), 'say: {"city": "Bern"}'))
    assert place["city"] in CITIES


@step
def chat_tools():
    code = "def weather(city: str) -> str:\n    return '18 degrees in ' + city\n"
    output = llm(HERE, "--functions", code, WEATHER)
    assert not OBEDIENT or "18 degrees in Bern" in output


@step
def completions():
    output = llm("here-text", "say: Good")
    assert output.endswith("Good") or not OBEDIENT


finish("llm")
