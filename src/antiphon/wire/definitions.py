"""What chat and Responses define alike: a function that the model may call, and the format of its answer."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Literal, Protocol

from antiphon.conversation import JsonSchema, ResponseFormat, ToolSpec

from .errors import refused

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class FunctionFields(Protocol):
    """A function tool's definition, wherever its wire puts it."""

    name: str
    description: str | None
    parameters: dict[str, Any] | bool | None
    strict: bool | None


class SchemaFields(Protocol):
    """The JSON Schema of an answer. A wire may let ``name`` be absent; here it is needed."""

    @property
    def name(self) -> str | None: ...

    description: str | None
    schema: JsonSchema | None
    strict: bool | None


def read_function(
    function: FunctionFields,
    path: str,
    *,
    namespace: str | None = None,
    taken: Collection[str] = (),
    any_name: bool = False,
) -> ToolSpec:
    """The function at ``path`` as a tool, named ``namespace.name`` where there is a namespace.

    Raises `RequestError` at ``path.name`` for a malformed name and for one that is ``taken``; ``any_name`` lets both
    pass, for a body that is converted and never answered.
    """
    name = f"{namespace}.{function.name}" if namespace else function.name
    if not any_name:
        if not NAME.fullmatch(function.name):
            raise refused(f"{path}.name", "must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -.")
        if name in taken:
            raise refused(f"{path}.name", f"another tool is named {name!r}.")
    return ToolSpec(name, function.description or "", function.parameters, strict=function.strict)


def read_response_format(
    kind: Literal["text", "json_object", "json_schema"], schema: SchemaFields | None, path: str
) -> ResponseFormat | None:
    """The answer's format; None for ``text``, which requires nothing.

    ``path`` is where ``schema`` is. Raises `RequestError` at what ``json_schema`` needs and lacks.
    """
    if kind == "text":
        return None
    if kind == "json_object":
        return ResponseFormat(kind)
    if schema is None:
        raise refused(path, "is needed for type json_schema.", code="missing_required_parameter")
    for field in ("name", "schema"):
        if getattr(schema, field) is None:
            raise refused(f"{path}.{field}", "is needed for type json_schema.", code="missing_required_parameter")
    return ResponseFormat(kind, schema.name, schema.description, schema.schema, schema.strict)
