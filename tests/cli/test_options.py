"""Which options all commands share: what the page about the command line says of them."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
import typer

from antiphon.cli.app import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def options(name: str) -> set[str]:
    app = typer.Typer()
    app.command()(import_module(f"antiphon.cli.{name}").command)
    command = typer.main.get_command(app)
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_json(name: str) -> None:
    assert "--json" in options(name)


def test_the_page_names_the_commands_without_a_configuration() -> None:
    sentence = re.search(r"only (.*?) do not take it", PAGE, re.DOTALL)
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence.group(1))) == {n for n in COMMANDS if "--config" not in options(n)}
