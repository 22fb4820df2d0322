"""``antiphon template check``: a chat template tried before it is trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os.path import expanduser, isfile
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from antiphon.api.native.templates import CheckedTemplate, PromptChangeFound, checked, template_of
from antiphon.catalog.files.text import SETTINGS_FILE, TOKENIZER_FILE, ModelText, template_text
from antiphon.catalog.format_choice import replies_file, responses_of
from antiphon.errors import ConfigError, TokenError, words_of
from antiphon.formats.template import JinjaFormat, check_template, jinja_format, program_format, program_of
from antiphon.tokens import Tokenizer

from .files import near_file
from .options import ConfigOption, JsonOption, actions, configure, print_json
from .terminal import tell

# The chat template that a word of the command line means: a model's name, a file or a folder.

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
    elif text.template is None and (program := program_of(text.tokenizer)):
        described = replies_file(replies) if replies else None
        return FoundTemplate(program_format(program, text.tokenizer.controls, replies=described), text.tokenizer)
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


def _text(folder: Path) -> ModelText:
    try:
        return template_text(folder)
    except (OSError, TokenError) as error:
        raise ConfigError(f"cannot read the template's folder {folder}: {words_of(error)}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"the chat template {path} is no text in UTF-8") from None
    except OSError as error:
        raise ConfigError(f"cannot read the chat template {path}: {error.strerror}", hint=near_file(path)) from None


command = actions()


@command.command("check")
def check(
    target: Annotated[
        str, typer.Argument(metavar="MODEL|FILE|FOLDER", help="A model's name, a .jinja file, or a folder of a model.")
    ],
    replies: Annotated[
        Path | None, typer.Option("--replies", help="A description of its replies (.json, .toml) to check.")
    ] = None,
    prompts: Annotated[bool, typer.Option("--prompts", help="Print the prompts of some conversations too.")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Check what is understood of a chat template and its replies. Exit code 1 when something would be lost."""
    if not target.endswith(".gguf") and isfile(expanduser(target)) and not is_place(target):
        hint = f"Name a .jinja file, a {SETTINGS_FILE}, a GGUF file, or a folder with one of these."
        raise ConfigError(f"{target} is no file with a chat template", hint=hint)
    if is_place(target):
        found = template_at(target, replies)
    else:
        from antiphon.catalog.loading import model_format

        settings = configure(config, model=target).config
        format, text = model_format(settings)
        own = template_of(settings.model, format, text.tokenizer.controls, text.template, text.special)
        found = FoundTemplate(own, text.tokenizer)
        if replies:
            raise ConfigError("--replies is for files and folders", hint="Name it in the model's table: replies = …")
    result = checked(check_template(found.format, found.tokenizer))
    if json:
        print_json(result)
    else:
        tell("\n".join(lines(result, prompts=prompts)))
    if not result.ok:
        raise typer.Exit(1)


def lines(result: CheckedTemplate, *, prompts: bool) -> Iterator[str]:
    """The report for people."""
    found = result.replies
    yield f"{result.name}: {'nothing is lost' if result.ok else 'something is lost'}"
    yield from (f"  lost: {sentence}" for sentence in result.lost)
    yield f"replies are known from {found.source}"
    if result.harmony:
        yield "a model with Harmony's controls is prompted in Harmony, unless its table names this as its chat_template"
        for each in result.harmony:
            here, there = each.template or "", each.harmony or ""
            beside = "the same" if each.same else f"differs at character {each.at}: {here!r}, in Harmony {there!r}"
            yield f"  {each.prompt}: {beside}"
    else:
        yield f"  read back at every cut: {', '.join(found.proven) or 'nothing'}"
    written, shown, trained = found.evidence.history, found.evidence.instructions, found.evidence.vocabulary
    if written or shown or trained:
        yield f"  a call as the template writes it:  {written!r}" if written else "  the template writes no calls"
        yield f"    as it shows one to the model:    {shown!r}" if shown else "    it shows none to the model"
        yield f"    in the vocabulary, for calls:    {' '.join(trained) or 'nothing that is known'}"
    if found.unwritten:
        yield f"  the template does not write: {', '.join(found.unwritten)}"
    yield from (f"  warning: {warning}" for warning in found.warnings)
    for failure in found.failed:
        yield f"  {failure.shape} is written {failure.reply!r}"
        yield f"    and read {[part.text for part in failure.read]!r}"
    yield "prompts from turn to turn"
    yield from (f"  {_changed(change)}" for change in result.changes)
    yield f"variables: {', '.join(result.variables)}"
    yield f"template arguments: {', '.join(result.arguments) or 'none'}"
    yield from (f"refused at line {each.line}: {each.what}" for each in result.unsafe)
    yield from (f"refused, {name}: {words}" for name, words in result.refused.items())
    for name, text in result.prompts.items() if prompts else ():
        yield f"--- {name}\n{text}"


def _changed(change: PromptChangeFound) -> str:
    if change.refused:
        return f"{change.turn}: refused: {change.refused}"
    if change.stable:
        return f"{change.turn}: kept"
    token = "" if change.token is None else f", token {change.token}"
    return (
        f"{change.turn}: changes at character {change.at}{token}, because of {change.cause}:"
        f" {change.former or ''!r} becomes {change.next or ''!r}"
    )
