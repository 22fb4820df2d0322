"""What a reviewer of security looks for first: no text becomes code, and starting up asks nobody."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import antiphon

SOURCE = Path(antiphon.__file__).parent
CODE_FROM_TEXT = {"eval", "exec", "compile", "__import__"}
UNSAFE = {
    ("pickle", "load"), ("pickle", "loads"), ("marshal", "loads"), ("shelve", "open"), ("os", "system"),
    ("os", "popen"), ("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load"), ("tempfile", "mktemp"),
}  # fmt: skip
SPELLED = re.compile(
    rf"(?<![.\w])(?:{'|'.join(CODE_FROM_TEXT)})\b|\b(?:{'|'.join(module for module, _ in UNSAFE if module != 'os')})\b"
    r"|\b(?:system|popen|shell|trust_remote_code|auto_map)\b"
)
"""A word of each call that is looked for: where there is none, nothing is parsed."""
OWN_CODE = {
    "tools/python/worker.py": "runs the model's cells, inside the sandbox",
    "formats/template/load.py": "runs the Python file of templates that the server's owner names",
}
"""Where code comes from text on purpose."""
OF_SHELLS = {"cli/completion.py": "prints a script for the shell that it names, and starts none"}

NO_NETWORK = """
import sys

def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        address = arguments[1] if event == "socket.connect" else arguments[0]
        host = address[0] if isinstance(address, tuple) else address
        if host not in ("127.0.0.1", "localhost", None, ""):
            raise SystemExit(f"{event} {arguments}")

sys.addaudithook(audit)
import pkgutil, importlib, antiphon
for module in pkgutil.walk_packages(antiphon.__path__, "antiphon."):
    if not module.name.endswith(("__main__", ".interpreter", ".child")):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # The one extra that developers have in an environment of its own.
            if error.name != "ray":
                raise
from kit.api import END, app, chat, ids, running
with running(app(ids("Fine.", END))) as base:
    assert chat(base).status == 200
print("nobody was asked")
"""


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if SPELLED.search(text) else ():
            if isinstance(node, ast.Call):
                yield path.relative_to(SOURCE).as_posix(), node


def test_no_text_becomes_code() -> None:
    found = []
    for where, node in calls():
        match node.func:
            case ast.Name(name) if name in CODE_FROM_TEXT and where not in OWN_CODE:
                found.append(f"{where}:{node.lineno} {name}")
            case ast.Attribute(ast.Name(module), name) if (module, name) in UNSAFE:
                found.append(f"{where}:{node.lineno} {module}.{name}")
            case _:
                pass
        if where not in OF_SHELLS and any(keyword.arg == "shell" for keyword in node.keywords):
            found.append(f"{where}:{node.lineno} shell")
        if any(keyword.arg in ("trust_remote_code", "auto_map") for keyword in node.keywords):
            found.append(f"{where}:{node.lineno} remote code")
    assert not found


def test_importing_everything_and_serving_asks_nobody_on_the_network() -> None:
    tests = Path(__file__).parents[1]
    printed = subprocess.run(
        [sys.executable, "-c", NO_NETWORK],
        env={"PYTHONPATH": f"{SOURCE.parent}:{tests}", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert printed.stdout.endswith("nobody was asked\n"), printed.stdout + printed.stderr
