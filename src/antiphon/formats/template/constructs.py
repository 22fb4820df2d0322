"""What a template's text has that its sandbox refuses, found without running it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from jinja2 import nodes

from .sandbox import TemplateEnvironment

_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class UnsafeConstruct(msgspec.Struct, frozen=True):
    """A construct that fails where a rendering comes to it: an attribute of Python's insides, another file."""

    line: int
    what: str


def unsafe_constructs(source: str) -> tuple[UnsafeConstruct, ...]:
    """Those of a template that compiles, in the order of its lines."""
    parsed = TemplateEnvironment().parse(source)
    return tuple(sorted(_found(parsed), key=lambda each: (each.line, each.what)))


def _found(parsed: nodes.Template) -> Iterator[UnsafeConstruct]:
    for node in parsed.find_all((nodes.Getattr, nodes.Getitem, *_OTHER_FILES)):
        if isinstance(node, _OTHER_FILES):
            yield UnsafeConstruct(node.lineno, f"{type(node).__name__.lower()} of another template")
        elif (name := _attribute(node)).startswith("_"):
            yield UnsafeConstruct(node.lineno, f"the attribute {name!r}")


def _attribute(node: nodes.Node) -> str:
    """What a node looks up by a name that stands in the template; empty where it does not."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    key = node.arg if isinstance(node, nodes.Getitem) else None
    return key.value if isinstance(key, nodes.Const) and isinstance(key.value, str) else ""
