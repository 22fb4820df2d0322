"""Which format a model speaks."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from antiphon.config import ModelEntry
from antiphon.errors import ConfigError, ModelError, Position, TemplateError
from antiphon.formats import Format, FormatRegistry
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS as HARMONY_CONTROLS
from antiphon.formats.replies import PLAIN, ReplyDescription
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.formats.template import (
    TemplatedHarmony,
    TemplateFormat,
    jinja_format,
    load_template_json,
    load_template_python,
    replies_of,
    template_format,
    writes_harmony,
)
from antiphon.formats.template.parts import TemplateParts
from antiphon.tokens import Control

from .files.text import ModelText
from .replies import described, replies_file, responses_of

log = logging.getLogger("antiphon.catalog")

FALLBACK = "chatml"


def choose_format(
    name: str,
    entry: ModelEntry,
    text: ModelText,
    formats: FormatRegistry,
    *,
    fallback: str = FALLBACK,
) -> Format:
    """The format of the model, with the options that its entry has for it; see `_format_of` for which it is.

    Raises `ConfigError` for options of Harmony's where the model speaks another format.
    """
    format = _format_of(name, entry, text, formats, fallback)
    if isinstance(format, ReplyFormat):
        format.begin = text.begin
    options = harmony_options(entry)
    if not options:
        return format
    if not isinstance(format, Harmony):
        key = f"models.{name}.harmony.{next(iter(options))}"
        raise ConfigError(
            f"{key}: the model speaks {format.name}, and this is Harmony's alone",
            position=Position(path=key),
            hint='Leave it out, or say format = "harmony".',
        )
    idle = options.keys() - {"dialect", "spelled"}
    if isinstance(format, TemplatedHarmony) and idle:
        key = f"models.{name}.harmony.{min(idle)}"
        raise ConfigError(
            f"{key}: the model's chat_template writes its prompts, where this changes nothing",
            position=Position(path=key),
            hint="Leave it out, or the chat_template.",
        )
    return replace(format, **options)


def harmony_options(entry: ModelEntry) -> dict[str, Any]:
    """The options of Harmony that the entry has an opinion about."""
    return {name: value for name, value in msgspec.structs.asdict(entry.harmony).items() if value is not None}


def _format_of(name: str, entry: ModelEntry, text: ModelText, formats: FormatRegistry, fallback: str) -> Format:
    """The entry's own template, else its format, else Harmony where the vocabulary has its controls, else its files'.

    A model without a chat template gets ``fallback``, with a warning: perhaps it was never trained on that. Without
    a fallback it is a `ModelError` (resolution M-03). Its replies are read as the entry says, else as its files or the
    template do.
    """
    controls = text.tokenizer.controls
    replies = replies_file(Path(entry.replies).expanduser()) if entry.replies else None
    if entry.chat_template:
        path = Path(entry.chat_template).expanduser()
        return template_file(path, controls, text.special, replies=replies, teaches=entry.teach_tools)
    if entry.format:
        return described(formats.get(entry.format, controls), replies, controls)
    if set(HARMONY_CONTROLS) <= set(controls):
        return described(formats.get("harmony", controls), replies, controls)
    if text.template:
        return jinja_format(
            text.template,
            controls,
            text.special,
            name=f"{name}/chat_template",
            replies=replies,
            response_template=responses_of(name, text),
            teaches=entry.teach_tools,
        )
    if not fallback:
        hint = "Name a format or a chat_template in the model's table, or an engine.fallback_format."
        raise ModelError(f"the model {name!r} has no chat template", code="no_chat_template", hint=hint)
    log.warning("%s has no chat template; its prompts are in %s", name, fallback)
    return described(formats.get(fallback, controls), replies, controls)


def template_parts(name: str, entry: ModelEntry, text: ModelText) -> TemplateParts | None:
    """The Jinja template that the model's prompts are written with; None where they are written otherwise.

    A file that cannot be read is None too: who makes the format says so.
    """
    controls = tuple(control.spelling for control in text.tokenizer.controls)
    if entry.chat_template:
        path = Path(entry.chat_template).expanduser()
        source = _jinja(path)
        parts = None if source is None else TemplateParts(source=source, name=path.stem)
    elif entry.format or set(HARMONY_CONTROLS) <= set(text.tokenizer.controls) or not text.template:
        parts = None
    else:
        parts = TemplateParts(source=text.template, name=f"{name}/chat_template")
    if parts is None:
        return None
    return msgspec.structs.replace(parts, controls=controls, special_tokens=text.special, teaches=entry.teach_tools)


def _jinja(path: Path) -> str | None:
    try:
        return path.read_text("utf-8") if path.suffix in (".jinja", ".jinja2") else None
    except (OSError, UnicodeDecodeError):
        return None


def template_file(
    path: Path,
    controls: Collection[Control],
    special: Mapping[str, str],
    *,
    replies: ReplyDescription | None = None,
    teaches: bool = True,
) -> Format:
    """A user's own template: the first class that a Python file registers, the blocks of a JSON file, or Jinja.

    ``replies`` None: as the template, or the built-in one that it derives from, writes them; those to a template of
    Harmony's are Harmony, where the vocabulary has its controls.
    Raises `ConfigError` when the file cannot be read, `TemplateError` with the position when it is wrong.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the chat template {path}: {error}") from None
    match path.suffix:
        case ".py":
            templates, added = load_template_python(text, str(path))
            return template_format(added[0], controls, templates=templates, replies=replies)
        case ".json":
            try:
                name, template = load_template_json(text, default_name=path.stem)
            except TemplateError as error:
                raise TemplateError(f"{path}: {error.message}", code=error.code, hint=error.hint) from None
            return TemplateFormat(name, template, controls, replies=replies or replies_of(name, template))
        case ".jinja" | ".jinja2":
            if replies is None and writes_harmony(text) and set(HARMONY_CONTROLS) <= set(controls):
                prompts = jinja_format(text, controls, special, name=path.stem, replies=PLAIN, teaches=False)
                return TemplatedHarmony(template=prompts)
            return jinja_format(text, controls, special, name=path.stem, replies=replies, teaches=teaches)
        case _:
            raise ConfigError(f"{path} is no chat template by its name", hint="Known: .py, .json and .jinja.")
