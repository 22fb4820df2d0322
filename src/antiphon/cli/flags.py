"""Commands whose help shows no type behind a flag, which takes no value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:  # what Typer brings along of Click has no public name
    from typer._click.core import Context, Parameter


class PlainCommand(TyperCommand):
    """A command with plain flags."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        return plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands with plain flags."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        return plain(super().get_params(ctx))


def plain(parameters: list[Parameter]) -> list[Parameter]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
