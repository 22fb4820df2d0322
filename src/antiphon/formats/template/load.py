"""A user's own templates, from the text of a Python or a JSON file. Reading the file is the caller's business."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal

import msgspec

from antiphon.errors import Position, TemplateError, near, near_field
from antiphon.structs import ready

from . import base
from .base import BaseTemplate, Blocks, Rule
from .declared import DeclaredTemplate
from .registry import TemplateRegistry, builtin_templates, class_of

_TEMPLATE_MODULES = ("antiphon.formats.template", "lmdeploy.chat_template", "lmdeploy.model")


class JsonTemplate(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """LMDeploy's JSON file. null: not overridden. A known ``model_name`` keeps that template's rule."""

    model_name: str | None = None
    model_path: str | None = None
    system: str | None = None
    meta_instruction: str | None = None
    eosys: str | None = None
    user: str | None = None
    eoh: str | None = None
    assistant: str | None = None
    eoa: str | None = None
    separator: str | None = None
    tool: str | None = None
    eotool: str | None = None
    capability: Literal["completion", "infilling", "chat", "python"] | None = None
    stop_words: list[str] | None = None
    session_len: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None


def load_template_json(
    text: str | bytes, *, templates: TemplateRegistry | None = None, default_name: str = "custom"
) -> tuple[str, BaseTemplate]:
    """The name and template of a JSON file. Raises `TemplateError` that says where it is wrong."""
    try:
        given = msgspec.json.decode(text, type=ready(JsonTemplate))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        hint = near_field(str(error), *JsonTemplate.__struct_fields__)
        raise TemplateError(f"the chat template is no such JSON: {error}", code="bad_template", hint=hint) from error
    registry = templates if templates is not None else builtin_templates()
    name = given.model_name or default_name
    fields = {key: value for key, value in msgspec.structs.asdict(given).items() if value is not None}
    fields.pop("model_name", None)
    fields.pop("model_path", None)
    if name not in registry and not fields:
        what = f"no chat template is called {name!r}, and the file describes none"
        raise TemplateError(what, code="bad_template", hint=near(name, registry.names))
    template = registry.get(name) if name in registry else class_of(name, Blocks(), {}, Rule())
    return name, template(**fields)


def load_template_python(
    source: str, filename: str, *, templates: TemplateRegistry | None = None
) -> tuple[TemplateRegistry, list[str]]:
    """Runs a Python file that its operator named, and gives the registry with the names that it added.

    The file sees `CHAT_TEMPLATES` and `BaseTemplate`, and may import them from `antiphon.formats.template` (or from
    `lmdeploy.chat_template`): it gets a copy, so that one load leaves no trace in another. Never hand in what came with
    a request. Raises `TemplateError` with the line.
    """
    registry = (templates if templates is not None else builtin_templates()).copy()
    before = set(registry.names)
    offered = {"CHAT_TEMPLATES": registry, "MODELS": registry, "BaseTemplate": BaseTemplate}
    offered |= {"BaseModel": BaseTemplate, "BaseChatTemplate": DeclaredTemplate, "DeclaredTemplate": DeclaredTemplate}
    namespace: dict[str, Any] = {"__name__": "chat_template", "__file__": filename, **offered}
    namespace["__builtins__"] = {**vars(builtins), "__import__": _importer(offered)}
    try:
        exec(compile(source, filename, "exec"), namespace)  # noqa: S102 - the operator's own program, named on start
    except Exception as error:
        raise TemplateError(
            f"{filename} failed: {type(error).__name__}: {error}",
            code="bad_template",
            position=_position(error, filename),
        ) from error
    added = [name for name in registry.names if name not in before]
    if not added:
        raise TemplateError(
            f"{filename} registers no template",
            code="bad_template",
            hint='Put @CHAT_TEMPLATES.register_module(name="…") above its class.',
        )
    return registry, added


def _importer(offered: Mapping[str, object]) -> Any:
    """An `import` that gives this load's registry under the names by which files know it."""
    stand_in = ModuleType("antiphon.formats.template")
    stand_in.__dict__.update(vars(sys.modules[base.__package__ or ""]) | dict(offered))

    def import_(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and fromlist and name in _TEMPLATE_MODULES:
            return stand_in
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return import_


def _position(error: Exception, filename: str) -> Position | None:
    if isinstance(error, SyntaxError):
        return Position(line=error.lineno, column=error.offset)
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return Position(line=line) if line is not None else None
