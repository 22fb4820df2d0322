# /// script
# dependencies = ["llm>=0.36"]
# ///
"""The `llm` command line: a prompt, streamed and not, a schema, a tool, a completion, embeddings are its plugins'."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from steps import URL, finish, step

folder = Path(tempfile.mkdtemp())
(folder / "extra-openai-models.yaml").write_text(f"""
- model_id: small
  model_name: small
  api_base: {URL}
  supports_tools: true
  supports_schema: true
- model_id: small-text
  model_name: small
  api_base: {URL}
  completion: true
""")


def llm(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "llm", "-m", *arguments, "--key", "any"],
        env={**os.environ, "LLM_USER_PATH": str(folder)}, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@step
def prompt():
    assert llm("small", "say: Good morning.", "--no-stream") == "Good morning."


@step
def stream():
    assert llm("small", "say: Good morning.") == "Good morning."


@step
def schema():
    assert llm("small", "--schema", "city, river", 'say: {"city": "Bern", "river": "Aare"}').endswith('"Aare"}')


@step
def tools():
    code = "def weather(city: str) -> str:\n    return '18 degrees in ' + city\n"
    assert "18 degrees in Bern" in llm("small", "--functions", code, 'call: weather {"city": "Bern"}')


@step
def completion():
    assert llm("small-text", "say: Good").endswith("Good")


finish("llm")
