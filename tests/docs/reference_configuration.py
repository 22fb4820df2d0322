"""reference-configuration.md: every key, its type and its default, from the classes that read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import NODEFAULT

from antiphon.config import Config, ModelEntry
from antiphon.config.load import PREFIX
from antiphon.config.models import HarmonyEntry, SamplingEntry
from antiphon.engines import engine_kind
from antiphon.engines.registry import built_in_kinds
from docs.text import cell, code, docstring

HEAD = f"""\
# Every key of the configuration

Each key of the configuration file with its type, bounds and default. [Models and
configuration](catalog.md#configuration) says where the file is and which value counts, [Operations](operations.md) what
the keys of a server are for. The page is made from the code (`make docs`).

A key of a table is also an environment variable, `{PREFIX}TABLE_KEY`: `server.port` is `{PREFIX}SERVER_PORT`.
`antiphon config` prints every key with its value and where that came from.
"""
FREE = {"models", "from_catalogue"}
NAMES = {
    "int": "whole number", "float": "number", "str": "text", "bool": "`true` or `false`", "none": "nothing",
}  # fmt: skip
Struct = type[msgspec.Struct]


def configuration_page() -> str:
    lines = [HEAD, *table("The top of the file", Config, top=True)]
    for field in msgspec.structs.fields(Config):
        if is_struct(field.type):
            lines += table(f"[{field.name}]", field.type)
    lines += table("[models.NAME]", ModelEntry)
    lines += table("[models.NAME.sampling]", SamplingEntry)
    lines += table("[models.NAME.harmony]", HarmonyEntry)
    for kind in built_in_kinds():
        lines += table(f"[models.NAME.engine], kind {kind}", engine_kind(kind))
    return "\n".join(lines).rstrip() + "\n"


def table(title: str, struct: Struct, *, top: bool = False) -> Iterator[str]:
    """The section of one table of the file."""
    yield f"## {title}\n"
    if not top and (about := docstring(struct)):
        yield f"{about}\n"
    yield "| key | type | default |\n|---|---|---|"
    for field in msgspec.structs.fields(struct):
        if not (is_struct(field.type) or field.name in FREE or "Struct" in str(type(field.default))):
            kind = cell(words(msgspec.inspect.type_info(field.type)))
            yield f"| `{field.encode_name}` | {kind} | {default_of(field)} |".replace("|  |", "| |")
    yield ""


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.default is NODEFAULT and field.default_factory is NODEFAULT:
        return "required"
    value = field.default if field.default is not NODEFAULT else field.default_factory()
    return "" if value is None else code(msgspec.to_builtins(value))


def words(info: Any) -> str:
    """A type in words, with its bounds: ``whole number, 0 to 65535``."""
    name = type(info).__name__.removesuffix("Type").lower()
    match name:
        case "union":
            return " or ".join(words(one) for one in info.types if type(one).__name__ != "NoneType")
        case "literal":
            return " or ".join(code(value) for value in info.values)
        case "enum":
            return " or ".join(code(member.value) for member in info.cls)
        case "list" | "vartuple" | "set" | "frozenset":
            return f"list of: {words(info.item_type)}"
        case "dict":
            return f"table of: {words(info.value_type)}"
        case "struct":
            return "table"
    return NAMES.get(name, name) + bounds(info)


def bounds(info: Any) -> str:
    least = getattr(info, "ge", None)
    above, most = getattr(info, "gt", None), getattr(info, "le", None)
    if least is not None and most is not None:
        return f", {least:g} to {most:g}" if most < 1e8 else f", from {least:g}"
    if least is not None:
        return f", from {least:g}"
    return f", above {above:g}" if above is not None else ""
