"""Where the source spells `Message` out field by field for writing it down: one place, so that a new field is one line.

``python tests/house/message_codecs.py`` prints them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FIELDS = frozenset({"text", "recipient", "channel", "content_type", "call_id"})
"""Fields that only a message has together: a head of OpenChatML has no text, a tool call no text of that name."""
NOUN = "conversation/message.py"
"""Where `Message` itself is."""


def message_codecs(source: Path) -> list[str]:
    """``file:line`` of each class, literal or copying call below ``source`` that has all of `FIELDS`."""
    found: list[str] = []
    for file in sorted(source.rglob("*.py")):
        name = file.relative_to(source).as_posix()
        text = file.read_text("utf-8")
        if name != NOUN and all(field in text for field in FIELDS):
            found += [f"{name}:{line}" for line in sorted({*_spelled(ast.parse(text))})]
    return found


def _spelled(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if set(_names(node)) >= FIELDS:
            assert isinstance(node, ast.stmt | ast.expr)
            yield node.lineno


def _names(node: ast.AST) -> Iterator[str]:
    """The fields that a node spells: a class declares them, a literal lists them, a call copies each from its like."""
    match node:
        case ast.ClassDef(body=body):
            yield from (each.target.id for each in body if isinstance(each, ast.AnnAssign)
                        and isinstance(each.target, ast.Name))  # fmt: skip
        case ast.Dict(keys=elements) | ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            yield from (each.value for each in elements if isinstance(each, ast.Constant)
                        and isinstance(each.value, str))  # fmt: skip
        case ast.Call(keywords=keywords):
            yield from (each.arg for each in keywords if isinstance(each.value, ast.Attribute)
                        and each.arg == each.value.attr)  # fmt: skip


if __name__ == "__main__":
    print(*message_codecs(Path(__file__).parents[2] / "src" / "antiphon"), sep="\n")
