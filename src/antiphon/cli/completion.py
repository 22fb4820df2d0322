"""``antiphon completion``: what a shell reads to complete commands, options and names."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_shared import get_completion_script  # typer's own options for it would be on every command

from .completions import VARIABLE
from .options import JsonOption, print_json
from .terminal import tell


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


HOW = {
    Shell.BASH: 'eval "$(antiphon completion bash)"  # in ~/.bashrc',
    Shell.ZSH: 'eval "$(antiphon completion zsh)"  # in ~/.zshrc, behind compinit',
    Shell.FISH: "antiphon completion fish > ~/.config/fish/completions/antiphon.fish",
}
"""How a shell takes it."""


def command(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")], json: JsonOption = False
) -> None:
    """Print the script with which a shell completes commands, options, models, formats, keys and clients.

    bash: put `eval "$(antiphon completion bash)"` into ~/.bashrc. zsh: the same with zsh, behind compinit.
    fish: `antiphon completion fish > ~/.config/fish/completions/antiphon.fish`.
    """
    script = get_completion_script(prog_name="antiphon", complete_var=VARIABLE, shell=shell)
    print_json({"shell": shell, "script": script, "use": HOW[shell]}) if json else tell(script)
