"""Which commands there are, and how their errors and exit codes leave the program."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

import typer
from typer._completion_classes import completion_init
from typer.core import TyperCommand, TyperGroup

from antiphon.errors import AntiphonError, ConfigError, EngineError, ModelError, RequestError

from .completions import line_to_complete
from .terminal import QUIET, tell

if TYPE_CHECKING:  # what Typer brings along of Click has no public name
    from typer._click.core import Command, Context, Parameter


# Commands whose help shows no type behind a flag, which takes no value.


class PlainCommand(TyperCommand):
    """A command with plain flags."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        return plain(super().get_params(ctx))

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            if "unexpected extra" in error.message and any("--model" in one.opts for one in self.params):
                error.message += ". A text with blanks needs quotes; a model is named with --model."
            raise


class PlainGroup(TyperGroup):
    """A group of commands with plain flags; one that it does not have is answered with those that it has."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            if "Did you mean" not in error.message:
                error.message += f" Known: {', '.join(self.list_commands(ctx))}."
            raise

    def get_params(self, ctx: Context) -> list[Parameter]:
        return plain(super().get_params(ctx))


def plain(parameters: list[Parameter]) -> list[Parameter]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


GROUPS = {
    "Run": {
        "serve": "Serve models over an OpenAI-compatible HTTP API.",
        "ps": "List the servers that run here, and what they do.",
        "stop": "Stop a server that runs here, once its answers are whole.",
        "batch": "Answer the requests of a file, without a server.",
        "doctor": "Check this machine: Python, engine, models, port.",
    },
    "Talk": {
        "chat": "Talk to a model in the terminal, or put one question to it.",
        "tools": "List and show the tools that run here, or call one.",
        "mcp": "Sign in to MCP servers, or be one: render, parse, convert, validate for any MCP client.",
        "connect": "Print or write the configuration with which a client uses a server.",
    },
    "Transcripts": {
        "render": "Write a conversation (JSON) as the prompt of a format.",
        "parse": "Read a model's raw reply back into messages.",
        "convert": "Convert a conversation from one form to another.",
        "dataset": "Check, render, pack and count the rows of data sets for training.",
        "validate": "Check transcripts of any length.",
        "fmt": "Write transcripts in canonical form.",
        "lint": "Check transcripts by named rules, and mend what can be mended.",
        "lsp": "Serve an editor: what is wrong with a transcript, and more.",
        "grammar": "Print what a reply may be, or check a text against it.",
        "template": "Check a chat template: what is understood of it, and what is lost.",
        "formats": "List the formats and chat templates.",
        "conformance": "Run a compliance suite, against us or another program.",
    },
    "Manage": {
        "models": "List, search, show, fetch and remove models.",
        "pull": "Fetch models into the store.",
        "rm": "Remove models from the store.",
        "keys": "Add, list, change and remove the API keys of the server.",
        "store": "Move, check and migrate what is stored between requests.",
        "config": "Show the configuration and where each value comes from.",
        "completion": "Print the script with which bash, zsh or fish completes commands and names.",
    },
}
COMMANDS = {name: (group, summary) for group, ones in GROUPS.items() for name, summary in ones.items()}
DEFAULT_ACTIONS = {"mcp": "serve", "models": "list"}
"""Action of a command where none is named."""
OK, FAILED, USAGE, BROKEN = 0, 1, 2, 3
UsageError: type[typer.BadParameter] = typer.BadParameter.__bases__[0]
"""An option or argument that is wrong. Typer has no public name for it; it has `BadParameter`'s methods."""


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; the exit code. Errors are printed in words, or as JSON with ``--json``."""
    try:
        code = run_command(arguments)
        sys.stdout.flush()  # here and not at the interpreter's end, which has no words for a disk that is full
    except OSError as error:
        return report_os_error(error, as_json="--json" in arguments)
    return code


def run_command(arguments: Sequence[str]) -> int:
    """The same without errors of the system. An `AntiphonError` is printed in words, never as a traceback.

    Garbage is collected from where the command begins: `main` stops it for the imports.
    """
    QUIET.set("--json" in arguments)
    completing = line_to_complete()
    requested = next((word for word in completing or arguments if not word.startswith("-")), None)
    try:
        if not arguments and completing is None:
            import_module("antiphon.cli.next_steps").print_next_steps()
            return OK
        app = build_app(requested)
        gc.enable()
        if completing is not None:
            completion_init()
            app(prog_name="antiphon")
        actions = actions_of(app, requested)
        ordered = action_first(arguments, requested, actions) if actions else list(arguments)
        if "--json" in arguments:  # Typer prints what is wrong with options for people, but for this mode
            if actions and not {*actions, "--help"} & {*ordered}:
                raise RequestError(f"{requested} needs an action", hint=f"One of {', '.join(actions)}.")
            return app(ordered, prog_name="antiphon", standalone_mode=False) or OK
        app(ordered, prog_name="antiphon")
    except UsageError as error:
        help_of = error.ctx.command_path if error.ctx else "antiphon"
        print_error(RequestError(error.format_message(), hint=f"{help_of} --help"), as_json=True)
        return USAGE
    except SystemExit as done:  # how Typer ends, whatever the outcome
        return done.code if isinstance(done.code, int) else OK
    except RecursionError as error:
        print_error(RequestError(f"what was read is nested too deeply: {error}"), as_json="--json" in arguments)
        return USAGE
    except AntiphonError as error:
        print_error(error, as_json="--json" in arguments)
        return exit_code(error)
    return OK


def report_os_error(error: OSError, *, as_json: bool) -> int:
    """The exit code where the system refuses to read or write, and no command says more about it."""
    if not error.filename:  # what could not be written is not tried again at the interpreter's end
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # whoever read has left: there is nobody to tell
        return FAILED
    what = f"cannot read or write {error.filename}" if error.filename else "cannot write the output"
    print_error(ConfigError(f"{what}: {error.strerror or error}", code="unwritable_output"), as_json=as_json)
    return USAGE


def build_app(requested: str | None) -> typer.Typer:
    """All commands by name and summary; only ``requested`` is more than that."""
    app = typer.Typer(
        help="The conversation layer for language models.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        cls=PlainGroup,
    )
    app.callback()(version_option)
    for name, (group, summary) in COMMANDS.items():
        command = import_module(f"antiphon.cli.{name}").command if name == requested else unloaded
        if isinstance(command, typer.Typer):
            for action in command.registered_commands:
                action.cls = PlainCommand
            app.add_typer(command, name=name, help=summary, cls=PlainGroup, rich_help_panel=group)
        else:
            app.command(name, help=summary, cls=PlainCommand, rich_help_panel=group)(command)
    return app


def actions_of(app: typer.Typer, name: str | None) -> list[str]:
    """The actions of a command: ``add``, ``list`` … of ``keys``; none for a command that is one itself."""
    groups = (group.typer_instance for group in app.registered_groups if group.name == name)
    return [action.name for group in groups if group for action in group.registered_commands if action.name]


def action_first(arguments: Sequence[str], command: str | None, actions: Collection[str]) -> list[str]:
    """The words with the action right behind its command: the default where none is named, before its options.

    ``models --json`` is ``models list --json``, and ``keys --json list`` is ``keys list --json``.
    """
    at = next(at for at, word in enumerate(arguments) if word == command) + 1
    before, rest = list(arguments[:at]), list(arguments[at:])
    if rest and (not rest[0].startswith("-") or rest[0] == "--help"):
        return [*before, *rest]
    action = next((word for word in rest if word in actions), None)
    if action is not None:
        rest.remove(action)
    action = action or DEFAULT_ACTIONS.get(command or "")
    return [*before, *([action] if action else []), *rest]


def unloaded() -> None:
    """A placeholder for a command that is not the one called."""


def version_option(version: bool = typer.Option(False, "--version", help="Show version and exit.")) -> None:
    """`antiphon --version` alone never comes here; this is for the help, and for a version among other words."""


def exit_code(error: AntiphonError) -> int:
    match error:
        case RequestError() | ConfigError():
            return USAGE
        case EngineError() | ModelError():
            return BROKEN
        case _:
            return FAILED


def error_object(error: AntiphonError) -> dict[str, str]:
    """An error for programs: what it has of ``code``, ``message``, ``position`` and ``hint``."""
    where = str(error.position) if error.position else None
    report = {"code": error.code, "message": error.message, "position": where, "hint": error.hint}
    return {key: value for key, value in report.items() if value}


def print_error(error: AntiphonError, *, as_json: bool) -> None:
    """An error for people or for programs, on stderr: code, position, hint."""
    if as_json:
        tell(json.dumps({"error": error_object(error)}), file=sys.stderr)
        return
    at = str(error.position or "")
    where = "" if error.message.startswith((f"{at}:", f"{at} ")) else f" at {at}" if at else ""
    tell(f"error: {error.message}{where}  [{error.code}]", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        tell(note, file=sys.stderr)
    if error.hint:
        tell(f"  {error.hint}", file=sys.stderr)
