"""Templates by name: unique names, a decorator, several names a class (LMD-06 … LMD-11, LMD-53)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from antiphon.errors import TemplateError, near
from antiphon.structs import ready

from .base import BaseTemplate, Blocks, Rule
from .declared import DeclaredTemplate

AnyTemplate = TypeVar("AnyTemplate", bound=type[BaseTemplate])


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of templates.json: several names may share it."""

    names: tuple[str, ...]
    blocks: Blocks
    generation: dict[str, Any]
    rule: Rule


class TemplateRegistry:
    """A value that is made anew or copied; what a user's file registers stays in the copy that was made for it."""

    def __init__(self, name: str = "templates", declarations: Iterable[Declaration] = ()) -> None:
        self.name = name
        self._declared = {name: declaration for declaration in declarations for name in declaration.names}
        self._classes: dict[str, type[BaseTemplate]] = {}

    def register_module(self, name: str | Sequence[str], force: bool = False) -> Callable[[AnyTemplate], AnyTemplate]:
        """A decorator for a template's class. Raises ValueError for a name that is taken, unless ``force``."""
        names = [name] if isinstance(name, str) else list(name)
        taken = [name for name in names if name in self and not force]
        if taken or len(set(names)) < len(names) or not names:
            raise ValueError(
                f"{', '.join(map(repr, taken or names))}: a template's name must be there, and unique in {self.name!r}"
            )

        def register(template: AnyTemplate) -> AnyTemplate:
            if not (isinstance(template, type) and issubclass(template, BaseTemplate)):
                raise TypeError(f"{template!r} is not a class derived from BaseTemplate")
            self._classes.update(dict.fromkeys(names, template))
            return template

        return register

    def get(self, name: str) -> type[BaseTemplate]:
        """The class of that name. Raises `TemplateError` that lists near names (resolution L-03)."""
        if name in self._classes:
            return self._classes[name]
        declaration = self._declared.get(name)
        if declaration is None:
            raise TemplateError(
                f"unknown chat template {name!r}", code="template_not_found", hint=near(name, self.names)
            )
        return self._classes.setdefault(
            name, class_of(name, declaration.blocks, declaration.generation, declaration.rule)
        )

    def copy(self) -> TemplateRegistry:
        """The same templates; what is registered in one is not in the other."""
        twin = TemplateRegistry(self.name, self._declared.values())
        twin._classes.update(self._classes)
        return twin

    @property
    def names(self) -> list[str]:
        return sorted({*self._declared, *self._classes})

    def __contains__(self, name: object) -> bool:
        return name in self._declared or name in self._classes


def class_of(name: str, blocks: Blocks, generation: Mapping[str, Any], rule: Rule) -> type[DeclaredTemplate]:
    """A template's class from its data; a user may derive from it."""
    attributes = {"declared": blocks, "generation": generation, "rule": rule, "__doc__": f"The chat template {name!r}."}
    return type(name, (DeclaredTemplate,), attributes)


@cache
def declarations() -> tuple[Declaration, ...]:
    """The built-in table, read once. It ships inside the package and never changes."""
    table = files(__package__).joinpath("templates.json").read_bytes()
    return msgspec.json.decode(table, type=ready(tuple[Declaration, ...]))


def builtin_templates() -> TemplateRegistry:
    """A registry of its own with every built-in template."""
    return TemplateRegistry(declarations=declarations())


CHAT_TEMPLATES = builtin_templates()
"""LMD-07: the registry under the seed's name, for programs that add templates of their own to it."""
