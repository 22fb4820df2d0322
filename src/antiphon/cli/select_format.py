"""The format and the vocabulary that a command's options select, without running a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.errors import NotFoundError, RequestError
from antiphon.formats import Format
from antiphon.tokens import Tokenizer, o200k_harmony

from .files import unreadable
from .options import Dialect, Types

if TYPE_CHECKING:
    from antiphon.config import Config


@dataclass(frozen=True)
class SelectedFormat:
    """A format and its vocabulary, which ``load`` gives; None: it is written as text and needs none."""

    format: Format
    load: Callable[[], Tokenizer | None]

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """Loaded when it is first used: gpt-oss's takes a tenth of a second, and text needs no ids."""
        return self.load()


def select_harmony(
    named: str | None, model: str | None, *, dialect: Dialect | None = None, types: Types | None = None
) -> SelectedFormat | None:
    """Harmony with the vocabulary of gpt-oss, where it is named without a model; None for all else.

    Raises `RequestError` for options of Harmony's that nothing could honour.
    """
    if named == "harmony" and model is None:
        from antiphon.formats.harmony import Harmony

        format = Harmony(dialect=(dialect or Dialect.A).value, types=(types or Types.REFERENCE).value)
        return SelectedFormat(format, o200k_harmony)
    if dialect or types:
        option = "--dialect" if dialect else "--types"
        raise RequestError(f"{option} is Harmony's alone", hint="Name the format harmony, and no model.")
    return None


def select_format(config: Config, *, named: str | None, ids: bool = False) -> SelectedFormat:
    """The format of the configured model, or the format that is ``named`` alone, with every known control.

    ``ids`` requires the model's vocabulary in any case. Raises `ModelError` when its file is needed and not here.
    """
    # All formats together take long to import, and Harmony alone needs none of the others.
    from antiphon.catalog.known_formats import KNOWN_CONTROLS, known_formats

    if named and not ids:
        # A transcript is text: without a vocabulary its controls are spelled out, and what spells one is escaped.
        try:
            format = known_formats().get(named, () if named == "openchatml" else KNOWN_CONTROLS)
        except NotFoundError as error:
            from antiphon.config import named_by

            if named_by(named, {name: (name, *entry.aliases) for name, entry in config.entries.items()}) is None:
                raise
            raise NotFoundError(error.message, code=error.code, hint=f"It is a model: --model {named}.") from None
        return SelectedFormat(format, lambda: None)
    from antiphon.catalog.loading import model_format

    format, text = model_format(config)
    return SelectedFormat(format, lambda: text.tokenizer)


def read_input(file: Path) -> bytes:
    """A file's bytes; ``-`` is standard input."""
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise unreadable(file, error) from None
