"""Formats by name. A name gives a factory; a vocabulary's controls make it a format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from antiphon.errors import NotFoundError, near
from antiphon.tokens import Control

from .format import Format

FormatFactory = Callable[[Collection[Control]], Format]
"""Takes the controls of the model's vocabulary: those parts of the format's structure that exist as control tokens."""


class MoreFormats(Protocol):
    """Formats that a registry does not have itself, found only when they are requested."""

    def names(self) -> Iterable[str]: ...

    def find(self, name: str) -> FormatFactory | None: ...


class NoMoreFormats:
    """None at all."""

    def names(self) -> Iterable[str]:
        return ()

    def find(self, name: str) -> FormatFactory | None:
        return None


class FormatRegistry:
    """Format factories under unique names; passed to where it is needed. ``more`` has names not among them."""

    def __init__(self, more: MoreFormats | None = None) -> None:
        self._factories: dict[str, FormatFactory] = {}
        self._more = more or NoMoreFormats()

    def register(self, name: str, factory: FormatFactory) -> None:
        """Raises ValueError when the name is taken."""
        if name in self._factories:
            raise ValueError(f"a format named {name!r} is registered already")
        self._factories[name] = factory

    def __contains__(self, name: str) -> bool:
        return name in self._factories or name in self._more.names()

    @property
    def names(self) -> list[str]:
        return sorted({*self._factories, *self._more.names()})

    def get(self, name: str, controls: Collection[Control]) -> Format:
        """The format of that name for a vocabulary with these controls. Raises `NotFoundError` with near names."""
        factory = self._factories.get(name) or self._more.find(name)
        if factory is None:
            raise NotFoundError(f"unknown format {name!r}", code="format_not_found", hint=near(name, self.names))
        return factory(controls)
