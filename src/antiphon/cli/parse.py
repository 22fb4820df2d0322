"""``antiphon parse``: a model's raw reply, or a whole conversation as a model sees it, back into messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.conversation import Incident, Message, MessageEnded, Role
from antiphon.formats import Format
from antiphon.tokens import ControlScanner

from .options import ConfigOption, JsonOption, ModelOption, TemplateOption, configure, print_json
from .spoken import read_input, spoken_by
from .transcript import incident_form, message_form


def command(
    file: Annotated[Path, typer.Argument(help="The text; - reads standard input.")],
    format: Annotated[str | None, typer.Option("--from", "--format", help="The format that the text is in.")] = None,
    model: ModelOption = None,
    chat_template: TemplateOption = None,
    whole: Annotated[bool, typer.Option("--whole", help="A whole conversation, and not one reply.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on what would be repaired (exit code 1).")] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Read raw model output back into messages. What had to be repaired is told as incidents."""
    loaded = configure(config, model=model, format=format, chat_template=chat_template)
    spoken = spoken_by(loaded.config, named=format)
    messages, incidents = parse_text(
        spoken.format, read_input(file).decode("utf-8", "replace"), whole=whole, strict=strict
    )
    if json:
        print_json({"messages": [*map(message_form, messages)], "incidents": [*map(incident_form, incidents)]})
        return
    for message in messages:
        print(f"{header(message)}\n{message.text}\n")
    for incident in incidents:
        print(f"! {incident.code} at {incident.position}: {incident.text!r}")


def parse_text(
    format: Format, text: str, *, whole: bool = False, strict: bool = False
) -> tuple[list[Message], list[Incident]]:
    """The messages of ``text``, whose control spellings are controls. ``strict`` raises `ParseError`."""
    scanner = ControlScanner(format.controls)
    parser = format.parser(reply_as=None if whole else Role.ASSISTANT, strict=strict)
    events = [*parser.feed([*scanner.feed(text), *scanner.close()]), *parser.close()]
    messages = [event.message for event in events if isinstance(event, MessageEnded)]
    return messages, [event for event in events if isinstance(event, Incident)]


def header(message: Message) -> str:
    """A message's header on one line: ``assistant → functions.f  channel=commentary  json``."""
    who = f"{message.role}:{message.name}" if message.name else str(message.role)
    to = f" → {message.recipient}" if message.recipient else ""
    tags = [f"{name}={getattr(message, name)}" for name in ("channel", "intent", "content_type", "call_id", "end")
            if getattr(message, name)]  # fmt: skip
    return f"[{who}{to}] " + " ".join(tags)
