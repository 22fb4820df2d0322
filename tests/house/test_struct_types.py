"""Types that msgspec decodes in several threads: worked out by one of them, before."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import antiphon

SOURCES = Path(antiphon.__file__).parent
ALONE = ("catalog/files/", "cli/", "config/", "integrations/", "ray/", "structs.py")
"""Rooms whose types are decoded by one thread: programs, and what is read before a server begins."""
PLAIN = {"Any", "bool", "bytes", "dict", "float", "int", "list", "msgspec.Raw", "object", "str", "tuple"}

RACE = """
import sys, threading, types
import msgspec
from antiphon.structs import ready

sys.setswitchinterval(1e-6)
text = "from __future__ import annotations\\nimport msgspec\\n" + "".join(f'''
class Outer{i}(msgspec.Struct):
    number: int = 0
    some: list[Inner{i}] = []
    named: dict[str, Inner{i}] = {{}}

class Inner{i}(msgspec.Struct):
    more: list[Innermost{i}] = []

class Innermost{i}(msgspec.Struct):
    values: dict[str, list[int | str]] = {{}}
''' for i in range(400))
module = sys.modules["module"] = types.ModuleType("module")
exec(text, module.__dict__)
data = b'{"number":1,"some":[{"more":[{}]}],"named":{"k":{}}}'
for i in range(400):
    together, kind = threading.Barrier(4), getattr(module, f"Outer{i}")

    def decode():
        together.wait()
        msgspec.json.decode(data, type=ready(kind))

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_first_decode_a_type_at_the_same_time_live_on() -> None:
    assert subprocess.run([sys.executable, "-c", RACE], check=False).returncode == 0


def decoded_types(text: str) -> Iterator[ast.expr]:
    """What is handed to msgspec as the type to decode."""
    for node in ast.walk(ast.parse(text)) if re.search(r"msgspec[\w.]*\.(?:decode|convert|Decoder)", text) else ():
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("msgspec."):
            continue
        named = [keyword.value for keyword in node.keywords if keyword.arg == "type"]
        match ast.unparse(node.func).rpartition(".")[2]:
            case "decode":
                yield from named
            case "convert":
                yield from named or node.args[1:2]
            case "Decoder":
                yield from named or node.args[:1]


def is_plain(kind: ast.expr) -> bool:
    return all(
        ast.unparse(node) in PLAIN
        for node in ast.walk(kind)
        if isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) != "msgspec"
    )


def test_a_server_decodes_only_types_that_are_ready() -> None:
    missing = [
        f"{file.relative_to(SOURCES)}:{kind.lineno}: {ast.unparse(kind)}"
        for file in sorted(SOURCES.rglob("*.py"))
        if not file.relative_to(SOURCES).as_posix().startswith(ALONE)
        for kind in decoded_types(file.read_text("utf-8"))
        if not ast.unparse(kind).startswith("ready(") and not is_plain(kind)
    ]
    assert not missing, missing
