"""How a model writes its replies: what its user says, what its files say, and what is logged of it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from antiphon.errors import ConfigError, TemplateError
from antiphon.formats import Format
from antiphon.formats.replies import ReplyDescription
from antiphon.formats.template import TemplateFormat
from antiphon.tokens import Control

from .files.text import ModelText

log = logging.getLogger("antiphon.catalog")


def replies_file(path: Path) -> ReplyDescription:
    """A user's description of replies: a JSON or a TOML file.

    Raises `ConfigError` when the file cannot be read, `TemplateError` that names it when it is wrong.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the description of replies {path}: {error}") from None
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
