"""reference-cli.md: every command with its arguments and options, from the tree that parses them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from typer.main import get_group

from antiphon.cli.app import COMMANDS, build_app
from docs.text import cell, docstring

HEAD = """\
# Every command

Each command of `antiphon` with its arguments, options and defaults, as `antiphon COMMAND --help` prints them.
[The command line](cli.md) says what they are for. The page is made from the code (`make docs`).
"""
WORDS = {int: "number", float: "number", str: "text", Path: "path"}


def cli_page() -> str:
    lines = [HEAD]
    for name in COMMANDS:
        command = get_group(build_app(name)).commands[name]
        lines += described(command, f"antiphon {name}")
    return "\n".join(lines).rstrip() + "\n"


def described(command: Any, path: str, depth: int = 2) -> Iterator[str]:
    """The section of a command, and those of its actions."""
    yield f"{'#' * depth} {path.removeprefix('antiphon ')}\n"
    about = docstring(command.callback) if command.callback else ""
    yield f"{about or command.help}\n"
    actions = getattr(command, "commands", {})
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    kinds = get_type_hints(inspect.unwrap(command.callback)) if command.callback else {}
    if not actions:
        yield f"```text\n{usage(path, shown, kinds)}\n```\n"
    if shown:
        yield "| | value | default | |\n|---|---|---|---|"
        yield from (row(param, kinds) for param in shown)
        yield ""
    for name, action in actions.items():
        yield from described(action, f"{path} {name}", depth + 1)


def usage(path: str, params: list[Any], kinds: Mapping[str, Any]) -> str:
    """``antiphon batch run IN --out PATH [OPTIONS]``."""
    positional = [named(param) if param.required else f"[{named(param)}]" for param in params if is_argument(param)]
    required = [
        f"{param.opts[0]} {value(kinds[param.name]).upper()}"
        for param in params
        if not is_argument(param) and param.required
    ]
    return " ".join([path, *positional, *required, "[OPTIONS]"])


def row(param: Any, kinds: Mapping[str, Any]) -> str:
    names = [named(param)] if is_argument(param) else [*param.opts, *param.secondary_opts]
    said = f"{param.help or ''}{' May be repeated.' if getattr(param, 'multiple', False) else ''}"
    cells = [", ".join(f"`{name}`" for name in names), value(kinds[param.name]), default(param), cell(said)]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def is_argument(param: Any) -> bool:
    return not param.opts[0].startswith("-")


def named(param: Any) -> str:
    name: str = (param.metavar or param.name).strip("[]").upper()
    return f"{name}…" if param.nargs == -1 else name


def value(annotated: Any) -> str:
    """What is given: ``number``, ``text``, ``path``, or the words between which to choose; empty for a switch."""
    kind = innermost(annotated)
    if kind is bool:
        return ""
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return " or ".join(f"`{member.value}`" for member in kind)
    return WORDS.get(kind, "text")


def innermost(kind: Any) -> Any:
    """The type of one value: of ``list[Path] | None``, Path."""
    while get_origin(kind) is not None or isinstance(kind, UnionType):
        kind = next(inner for inner in get_args(kind) if inner is not type(None))
    return kind


def default(param: Any) -> str:
    if param.required:
        return "required"
    given = param.default
    if given is None or given is False or given == () or given == [] or callable(given):
        return ""
    return f"`{given.value if isinstance(given, Enum) else given}`"
