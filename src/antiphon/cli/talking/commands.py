"""The commands of a conversation: a table of what each takes and does. Whoever adds one adds its row."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from textwrap import wrap

import msgspec

from antiphon.catalog.toolbox import BUILTINS
from antiphon.cli.options import print_table
from antiphon.cli.terminal import print_note, safe, tell
from antiphon.conversation import ReasoningEffort
from antiphon.errors import AntiphonError, RequestError, near
from antiphon.generation import reasons
from antiphon.generation.request import RANGES
from antiphon.tokens import decode

from .session import Session, load, path_of, save, schema_format
from .talk import Answers

MOST_EDITED = 8_192
"""Characters of a question that can be edited at the prompt."""
DEFAULT = ("", "default", "off")
MOST_SHOWN = 400
"""Characters of a schema that `/schema` shows."""
USAGE, NARROW = 25, 60
"""Columns of a command's usage in `/help`, and of a terminal below which its purpose stands under it."""


class Leave(Exception):
    """No error: the conversation is over."""


class Edit(Exception):
    """No error: the question in ``args`` is to be edited, and asked in the place of the last one."""


Run = Callable[[Session, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """``takes`` is what follows the name, ``does`` a line for `/help`, ``run`` gets what followed."""

    takes: str
    does: str
    run: Run


def print_done(text: str) -> None:
    """Prints that a command did what it was to, where somebody watches."""
    if sys.stderr.isatty():
        print_note(text)


async def help_(session: Session, rest: str) -> None:
    """All commands, or those that are named, in lines as wide as the terminal."""
    chosen = {f"/{word.lstrip('/')}" for word in rest.split()}
    for word in chosen - {"/?"}:
        command_named(word)
    rows = {f"{name} {row.takes}".rstrip(): row.does for name, row in COMMANDS.items() if not chosen or name in chosen}
    width = shutil.get_terminal_size().columns
    beside = USAGE if width >= NARROW else 2
    for usage, does in rows.items():
        lines = wrap(does, max(width - beside, 20))
        first = f"{usage:{beside}}" if beside == USAGE and len(usage) < USAGE else f"{usage}\n{'':{beside}}"
        tell(f"{first}{f'{chr(10)}{chr(32) * beside}'.join(lines)}")
    if not chosen:
        tell("\n" + "\n".join(line for keys in KEYS for line in wrap(keys, width, subsequent_indent="  ")))


async def system(session: Session, rest: str) -> None:
    if rest:
        session.state = session.state.with_system("" if rest in DEFAULT else rest)
    print_done(f"the system message: {' '.join(session.state.system.split())[:200] or 'none'}")


async def tools(session: Session, rest: str) -> None:
    match rest.split():
        case []:
            show_tools(session)
        case ["off"]:
            session.offer(())
        case ["on"]:
            session.offer(None)
        case names:
            await session.choose_tools(tuple(names))
    if rest:
        offer = session.target.offer(session.state.answers.tools)
        print_done(f"offered: {', '.join(offer.router.recipients) if offer else 'no tools'}")


def show_tools(session: Session) -> None:
    """Each tool that is open, and whether it is offered."""
    toolbox = session.target.toolbox
    if toolbox is None:
        print_note("no tools are open: /tools browser, /tools python, or the path of a Python file")
        return
    offer = session.target.offer(session.state.answers.tools)
    offered = offer.router.recipients if offer else ()
    everything = toolbox.offered(builtins=session.target.model.format.framed).router.recipients
    print_table(("tool", "offered"), [(safe(name), "on" if name in offered else "off") for name in everything])


def tool_words(session: Session) -> list[str]:
    """Returns the words that `/tools` takes, beside paths of Python files."""
    toolbox = session.target.toolbox
    return [*(toolbox.offer.router.recipients if toolbox else ()), *BUILTINS, "on", "off"]


async def effort(session: Session, rest: str) -> None:
    level = rest.lower()
    if not rest:
        print_note(f"effort: {session.state.conversation.settings.reasoning_effort or 'the default of the model'}")
        return
    if level not in (*DEFAULT, *ReasoningEffort):
        raise RequestError(f"there is no effort {rest!r}", hint=f"One of {', '.join(ReasoningEffort)}, or default.")
    session.state = session.state.with_effort(None if level in DEFAULT else ReasoningEffort(level))
    if not reasons(session.target.model.format):
        print_note(f"{session.model} is not known to reason: this changes nothing")


async def schema(session: Session, rest: str) -> None:
    if not rest:
        form = session.state.conversation.response_format
        schema = msgspec.json.encode(form.schema).decode() if form is not None else "none"
        print_note(f"schema: {schema[:MOST_SHOWN]}{'…' if len(schema) > MOST_SHOWN else ''}")
        return
    form = None if rest in DEFAULT else schema_format(rest)
    if form is not None and not session.target.model.engine.info.grammar:
        raise RequestError(f"the engine of {session.model} takes no grammars, so answers cannot be constrained")
    session.state = session.state.with_format(form)
    print_note("answers are free" if form is None else "answers are JSON of this schema until /schema off")


async def raw(session: Session, rest: str) -> None:
    read = session.read
    tell(decode(session.target.model.tokenizer, read.ids) + read.text)


async def save_(session: Session, rest: str) -> None:
    if not rest:
        raise RequestError("/save needs a file's name")
    save(session.state.conversation, path_of(rest))
    print_note(f"saved {rest}")


async def load_(session: Session, rest: str) -> None:
    if not rest:
        raise RequestError("/load needs a file's name")
    found = load(path_of(rest), sees=session.sees)
    before = session.state.conversation
    settings = replace(before.settings, reasoning_effort=found.settings.reasoning_effort)
    found = replace(before, messages=found.messages, settings=settings)
    session.state = replace(session.state, conversation=found)
    open_question = found.messages[-1].role == "user"
    print_note(f"loaded {len(found.messages)} messages" + ("; /retry answers the last one" if open_question else ""))


async def retry(session: Session, rest: str) -> None:
    await session.again()


async def undo(session: Session, rest: str) -> None:
    question = session.state.last_question()
    session.state = session.state.before_last_question()
    print_note(f"without {' '.join(session.typed.get(question, question).split())[:60]!r} and what answered it")


async def edit(session: Session, rest: str) -> None:
    """With a text, asks that in the place of the last question; else the last question is to be edited."""
    last = session.state.last_question()
    if rest:
        await session.again(rest)
        return
    if len(last) > MOST_EDITED:
        raise RequestError("the last question is too long to be edited here", hint="/undo it, and ask another.")
    raise Edit(last)


async def clear(session: Session, rest: str) -> None:
    session.state = replace(session.state, conversation=replace(session.state.conversation, messages=())).with_system(
        session.state.system
    )
    print_done("all is forgotten" + (" but the system message" if session.state.system else ""))


async def model(session: Session, rest: str) -> None:
    if not rest:
        print_note(f"{session.model}; others: {', '.join(session.catalog.names)}")
        return
    await session.choose_model(rest)
    print_note(f"now {session.model}")


def with_setting(answers: Answers, name: str, text: str) -> Answers:
    """Raises `RequestError` for what is no value of the setting."""
    fields = {one.name: getattr(answers, one.name) for one in dataclass_fields(answers)}
    try:
        changed = msgspec.convert({**fields, name: None if text in DEFAULT else text}, Answers, strict=False)
    except msgspec.ValidationError:
        raise refused_setting(name, text) from None

    value = getattr(changed, name)
    if name in RANGES and value is not None and value not in RANGES[name]:
        raise refused_setting(name, text)
    return changed


def refused_setting(name: str, text: str) -> RequestError:
    takes = f"It is a number in {RANGES[name]}. " if name in RANGES else ""
    return RequestError(f"{name} cannot be {text!r}", hint=f"{takes}Without a value it is the model's default.")


async def set_(session: Session, rest: str) -> None:
    name, _, text = rest.partition(" ")
    text = text.strip()
    if name == "reasoning":
        if text not in ("on", "off"):
            raise RequestError("/set reasoning on, or off")
        session.reasoning = text == "on"
        print_done(f"reasoning: {dict(settings_of(session))[name]}")
    elif name in SETTINGS:
        session.state = replace(session.state, answers=with_setting(session.state.answers, name, text))
        print_done(f"{name}: {dict(settings_of(session))[name]}")
    elif name:
        raise RequestError(f"there is no setting {name!r}", hint=near(name, (*SETTINGS, "reasoning")))
    else:
        print_table(("setting", "value"), settings_of(session))


def settings_of(session: Session) -> list[tuple[str, str]]:
    answers = session.state.answers
    values = {name: getattr(answers, name) for name in SETTINGS}
    rows = [(name, "the model's default" if value is None else str(value)) for name, value in values.items()]
    return [*rows, ("reasoning", "shown" if session.reasoning else "hidden")]


async def show(session: Session, rest: str) -> None:
    state, target = session.state, session.target
    try:
        full = f"{len(session.read.ids)} of {target.model.context} tokens"
    except AntiphonError as error:  # the next question would be refused; the rest is shown all the same
        full = error.message
    conversation = state.conversation
    offer = target.offer(state.answers.tools)
    form = conversation.response_format
    rows = [
        ("model", target.model.name),
        ("format", target.model.format.name),
        ("engine", target.model.engine.info.name),
        ("messages", str(len(conversation.messages))),
        ("context", full),
        ("system", " ".join(state.system.split())[:80] or "none"),
        ("tools", ", ".join(offer.router.recipients) if offer else "none"),
        ("effort", str(conversation.settings.reasoning_effort or "the model's default")),
        ("answers", "free" if form is None else "JSON of a schema"),
        ("files", ", ".join(file.name for file in session.files) or "none"),
    ]
    print_table(("what", "value"), [(name, safe(value)) for name, value in [*rows, *settings_of(session)]])


async def file(session: Session, rest: str) -> None:
    if rest == "off":
        session.files.clear()
    elif rest == "-":
        raise RequestError("standard input is what you type here", hint="Name a file.")
    elif rest:
        session.attach(rest)
    names = ", ".join(f"{one.name} ({one.size})" for one in session.files)
    print_note(f"with the next question: {names or 'no file'}")


async def quit_(session: Session, rest: str) -> None:
    raise Leave


SETTINGS = ("temperature", "top_p", "max_tokens", "seed", "tool_choice")
"""Settings of `/set`, beside ``reasoning``."""
COMMANDS = {
    "/help": ChatCommand("[NAME]", "these commands", help_),
    "/system": ChatCommand("TEXT|off", "the system message", system),
    "/file": ChatCommand("PATH", "a text, or an image, that goes with the next question (off: none)", file),
    "/tools": ChatCommand("[NAME…|on|off]", "the tools that the model may call; without a name: lists them", tools),
    "/schema": ChatCommand("FILE|off", "answers are JSON of this JSON Schema", schema),
    "/effort": ChatCommand("LEVEL", "how much a model is to reason: low, medium, high … or default", effort),
    "/set": ChatCommand("[NAME VALUE]", f"{', '.join(SETTINGS)}; reasoning on|off", set_),
    "/model": ChatCommand("NAME", "goes on with another model", model),
    "/retry": ChatCommand("", "another answer to the last question", retry),
    "/edit": ChatCommand("[TEXT]", "another question in the place of the last one", edit),
    "/undo": ChatCommand("", "forgets the last question and its answer", undo),
    "/clear": ChatCommand("", "forgets all but the system message", clear),
    "/raw": ChatCommand("", "what the model read last and wrote, token by token", raw),
    "/show": ChatCommand("", "the model, the settings, and how full the context is", show),
    "/save": ChatCommand("FILE", "the conversation as OpenChatML, or as JSON where the name ends so", save_),
    "/load": ChatCommand("FILE", "goes on with a saved conversation, or one in another form", load_),
    "/quit": ChatCommand("", "leaves (so does Ctrl-D)", quit_),
}
ALIASES = {"/exit": "/quit", "/bye": "/quit", "/q": "/quit", "/?": "/help"}
"""Words of other programs, which people type here too."""
KEYS = (
    'A question of several lines stands between """ and """; Alt-Enter begins a line too.',
    "Ctrl-C stops an answer. Ctrl-R searches what you typed before.",
    "Tab completes commands and names of files. Ctrl-X Ctrl-E opens an editor.",
)


def command_named(word: str) -> ChatCommand:
    """Raises `RequestError` with the nearest name."""
    word = ALIASES.get(word, word)
    if word in COMMANDS:
        return COMMANDS[word]
    hint = near(word, list(COMMANDS))
    one_is_near = hint.startswith("Did you mean")
    raise RequestError(f"unknown command {word}; /help lists them", hint=hint if one_is_near else None)
