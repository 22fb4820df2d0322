"""Formats by name. A name gives a factory; a vocabulary's controls make it a format."""

from __future__ import annotations

from collections.abc import Callable, Collection

from antiphon.errors import NotFoundError, near
from antiphon.tokens import Control

from .format import Format

FormatFactory = Callable[[Collection[Control]], Format]
"""Takes the controls of the model's vocabulary: those parts of the format's structure that exist as control tokens."""


class FormatRegistry:
    """Format factories under unique names; passed to where it is needed, not a global."""

    def __init__(self) -> None:
        self._factories: dict[str, FormatFactory] = {}

    def register(self, name: str, factory: FormatFactory) -> None:
        """Raises ValueError when the name is taken."""
        if name in self._factories:
            raise ValueError(f"a format named {name!r} is registered already")
        self._factories[name] = factory

    @property
    def names(self) -> list[str]:
        return sorted(self._factories)

    def get(self, name: str, controls: Collection[Control]) -> Format:
        """The format of that name for a vocabulary with these controls. Raises `NotFoundError` with near names."""
        factory = self._factories.get(name)
        if factory is None:
            raise NotFoundError(f"unknown format {name!r}", code="format_not_found", hint=near(name, self._factories))
        return factory(controls)
