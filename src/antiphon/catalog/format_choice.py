"""Which format a model speaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace as replace_fields

from antiphon.config import ModelEntry
from antiphon.engines.gguf_file import GgufFile, GgufValue, read_gguf
from antiphon.errors import ConfigError, ModelError, Position, TemplateError, TokenError, words_of
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
    program_format,
    program_of,
    replies_of,
    template_format,
    writes_harmony,
)
from antiphon.formats.template.jinja import TemplateParts
from antiphon.tokens import ByteTokenizer, Control

from .files.text import ModelText, gguf_text, read_model_text
from .known_formats import KNOWN_CONTROLS

# How a model writes its replies: what its user says, what its files say, and what is logged of it.

log = logging.getLogger("antiphon.catalog")


def replies_file(path: Path) -> ReplyDescription:
    """A user's description of replies: a JSON or a TOML file.

    Raises `ConfigError` when the file cannot be read, `TemplateError` that names it when it is wrong.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the description of replies {path}: {words_of(error)}") from None
    from antiphon.formats.template import load_replies  # few models are described by hand

    try:
        match path.suffix:
            case ".json":
                return load_replies(text, "json")
            case ".toml":
                return load_replies(text, "toml")
    except TemplateError as error:
        raise TemplateError(f"{path}: {error.message}", code=error.code, hint=error.hint) from None
    raise ConfigError(f"{path} is no description of replies by its name", hint="Known: .json and .toml.")


def responses_of(name: str, text: ModelText) -> ReplyDescription | None:
    """The response template of the model's files; None, with a warning, where it cannot be read."""
    if text.responses is None:
        return None
    from antiphon.formats.replies.response_template import from_response_template  # few models have one

    try:
        return from_response_template(text.responses.spec)
    except TemplateError as error:
        log.warning("%s: %s is not used: %s", name, text.responses.place, error.message)
        return None


def described(format: Format, replies: ReplyDescription | None, controls: Collection[Control]) -> Format:
    """The format with a user's description of replies. Raises `ConfigError` for one that reads its replies itself."""
    if replies is None:
        return format
    if isinstance(format, TemplateFormat):
        return TemplateFormat(format.name, format.template, controls, replies=replies)
    raise ConfigError(f"the replies of {format.name} are its own, and cannot be described", hint="Leave replies out.")


def log_replies(name: str, format: Format) -> None:
    """Says where the description of a model's replies is from, and warns of what is not understood."""
    from antiphon.formats.template import JinjaFormat, origin_words  # a format that is named has nothing to say
    from antiphon.formats.template.taught import WARNING as TAUGHT

    if not isinstance(format, JinjaFormat):
        return
    proof = format.found.proof
    counts = f"{len(proof.proven)} shapes are read back as they are written, {len(proof.failed)} are not"
    log.info("%s: its replies are known from %s; %s", name, origin_words(format.found), counts)
    for warning in format.found.warnings:
        log.log(logging.INFO if warning == TAUGHT else logging.WARNING, "%s: %s", name, warning)


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
        what = f"{key}: the model speaks {format.name}, and this is Harmony's alone"
        hint = 'Leave it out, or say format = "harmony".'
        raise ConfigError(what, position=Position(path=key), hint=hint)
    idle = options.keys() - {"dialect", "spelled"}
    if isinstance(format, TemplatedHarmony) and idle:
        key = f"models.{name}.harmony.{min(idle)}"
        what = f"{key}: the model's chat_template writes its prompts, where this changes nothing"
        hint = "Leave it out, or the chat_template."
        raise ConfigError(what, position=Position(path=key), hint=hint)
    return replace(format, **options)


def harmony_options(entry: ModelEntry) -> dict[str, Any]:
    """The options of Harmony that the entry has an opinion about."""
    return {name: value for name, value in msgspec.structs.asdict(entry.harmony).items() if value is not None}


def _format_of(name: str, entry: ModelEntry, text: ModelText, formats: FormatRegistry, fallback: str) -> Format:
    """The entry's own template, else its format, else Harmony where the vocabulary has its controls, else its files'.

    A model that ships a program instead of a template is known by its vocabulary. Any other without a template gets
    ``fallback``, with a warning: perhaps it was never trained on that. Without a fallback it is a `ModelError`
    (resolution M-03). Its replies are read as the entry says, else as its files or the
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
    if program := program_of(text.tokenizer):
        log.info("%s has no chat template; its prompts are in %s, as its vocabulary says", name, program)
        return program_format(program, controls, replies=replies, teaches=entry.teach_tools)
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
    parts = None
    if entry.chat_template:
        path = Path(entry.chat_template).expanduser()
        with suppress(OSError, UnicodeDecodeError):
            if path.suffix in (".jinja", ".jinja2"):
                parts = TemplateParts(source=path.read_text("utf-8"), name=path.stem)
    elif text.template and not entry.format and not set(HARMONY_CONTROLS) <= set(text.tokenizer.controls):
        parts = TemplateParts(source=text.template, name=f"{name}/chat_template")
    if parts is None:
        return None
    return msgspec.structs.replace(parts, controls=controls, special_tokens=text.special, teaches=entry.teach_tools)


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
        raise ConfigError(f"cannot read the chat template {path}: {words_of(error)}") from None
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


# What a model's files say, and the format that it is spoken to in.


class ModelSource(msgspec.Struct, frozen=True):
    """The contents of a model's files. ``metadata`` is that of its GGUF file, where it has one on this machine.

    ``parameters`` is how many that file has.
    """

    text: ModelText
    path: Path | None = None
    metadata: Mapping[str, GgufValue] = msgspec.field(default_factory=dict)
    parameters: int | None = None


async def read_source(entry: ModelEntry, path: Path | None) -> ModelSource:
    """Reads the model's file at ``path``, else its tokenizer's; a model without either has single bytes as vocabulary.

    Errors: `ModelError` for files that cannot be read and vocabularies that are not covered.
    """
    if path is not None:
        file = await asyncio.to_thread(read_file, path)
        try:
            text = await asyncio.to_thread(gguf_text, file.metadata)
            return ModelSource(text, path, file.metadata, file.parameters)
        except TokenError as error:
            raise ModelError(f"{path.name}: {error.message}", code=error.code) from None
    if entry.tokenizer:
        return ModelSource(await asyncio.to_thread(read_model_text, entry.tokenizer))
    return ModelSource(ModelText(tokenizer=ByteTokenizer(KNOWN_CONTROLS)))


def read_file(path: Path) -> GgufFile:
    """Reads the file at ``path``. Raises `ModelError` where there is none, or it is no GGUF file."""
    if not path.is_file():
        raise ModelError(f"there is no model file {path}", code="model_not_found")
    return read_gguf(path)


def format_of(name: str, entry: ModelEntry, text: ModelText, formats: FormatRegistry, *, fallback: str) -> Format:
    """The format of the model's prompts; of one that embeds or ranks, the frame of each text."""
    if entry.task != "chat":
        if text.sentences is None:
            hint = "Name its GGUF file."
            raise ModelError(f"the tokenizer of {name!r} does not define how texts are framed", hint=hint)
        return text.sentences
    any_will_do = not (entry.engine.needs_file or entry.tokenizer or entry.format or entry.chat_template)
    chosen = replace_fields(entry, format=FALLBACK) if any_will_do else entry
    return choose_format(name, chosen, text, formats, fallback=fallback)
