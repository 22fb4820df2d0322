"""Which options all commands share: what the page about the command line says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from antiphon.cli.app import COMMANDS, build_app, run

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def spelled(words: str) -> Iterator[str]:
    """A command, or each of its actions: ``keys add``."""
    name = words.partition(" ")[0]
    command = typer.main.get_group(build_app(name)).commands[name]
    actions = getattr(command, "commands", None)
    yield from (f"{name} {action}" for action in actions) if actions else (name,)


def options(words: str) -> set[str]:
    name, _, action = words.partition(" ")
    command = typer.main.get_group(build_app(name)).commands[name]
    found = getattr(command, "commands", {}).get(action, command)
    return {option for parameter in found.params for option in parameter.opts}


EVERY = [words for name in COMMANDS for words in spelled(name)]


@pytest.mark.parametrize("words", EVERY)
def test_every_command_and_action_has_its_help_and_prints_json(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words.split(), "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_the_page_names_the_commands_without_a_configuration() -> None:
    sentence = re.search(r"only (.*?) do not take it", PAGE, re.DOTALL)
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence.group(1))) == {
        words.partition(" ")[0] for words in EVERY if "--config" not in options(words)
    }
