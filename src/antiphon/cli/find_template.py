"""The chat template that a word of the command line means: a model's name, a file or a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from antiphon.api.native.templates import template_of
from antiphon.catalog.files.text import SETTINGS_FILE, TOKENIZER_FILE, ModelText, template_text
from antiphon.catalog.replies import replies_file, responses_of
from antiphon.config import Config
from antiphon.errors import ConfigError, TokenError
from antiphon.formats.template import JinjaFormat, jinja_format
from antiphon.tokens import Tokenizer

from .select_format import model_format
from .streams import near_file

_ENDINGS = (".jinja", ".jinja2")
_FILES = (SETTINGS_FILE, TOKENIZER_FILE)


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """A template as a format; ``tokenizer`` None: of no model, so that nothing is counted in tokens."""

    format: JinjaFormat
    tokenizer: Tokenizer | None


def is_place(target: str) -> bool:
    """Whether the word is a file or a folder with a template, rather than a model."""
    path = Path(target).expanduser()
    return path.is_dir() or path.suffix in _ENDINGS or path.name in _FILES


def template_at(target: str, replies: Path | None) -> FoundTemplate:
    """The template of a folder (or of a file in one), with what the files beside it say.

    Raises `ConfigError` where there is none, `TemplateError` for one that is malformed.
    """
    path = Path(target).expanduser()
    text = _text(path if path.is_dir() else path.parent)
    if path.suffix in _ENDINGS:
        text = replace(text, template=_read(path))
    if text.template is None:
        raise ConfigError(
            f"{path} has no chat template", hint=f"Name a .jinja file, or a folder with a {SETTINGS_FILE}."
        )
    format = jinja_format(
        text.template,
        text.tokenizer.controls,
        text.special,
        name=path.name,
        replies=replies_file(replies) if replies else None,
        response_template=responses_of(path.name, text),
    )
    has_vocabulary = (path if path.is_dir() else path.parent).joinpath(TOKENIZER_FILE).is_file()
    return FoundTemplate(format, text.tokenizer if has_vocabulary else None)


def template_of_model(config: Config) -> FoundTemplate:
    """The configured model's template. Raises `UnsupportedError` for a model that has none."""
    format, text = model_format(config)
    found = template_of(config.model, format, text.tokenizer.controls, text.template, text.special)
    return FoundTemplate(found, text.tokenizer)


def _text(folder: Path) -> ModelText:
    try:
        return template_text(folder)
    except (OSError, TokenError) as error:
        raise ConfigError(f"cannot read the template's folder {folder}: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"the chat template {path} is no text in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"cannot read the chat template {path}: {error.strerror}", hint=near_file(path)) from None
