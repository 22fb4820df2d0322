"""Packages that import each of their names when it is first used: few programs use them all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def exports(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package, whose ``modules`` have these names each, between blanks.

    They are its ``__all__`` too, where it names no others.
    """
    home = {name: module for module, names in modules.items() for name in names.split()}
    sys.modules[package].__dict__["__all__"] = sorted(home)

    def get(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f".{home[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
