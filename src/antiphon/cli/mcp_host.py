"""Questions of MCP servers to the person at the terminal: forms, addresses to visit, signing in."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonschema_rs

from antiphon.catalog.toolbox import ToolSettings
from antiphon.tools import ToolLimits
from antiphon.tools.mcp import NOBODY, Elicitation, ElicitationAnswer, McpHost

from .terminal import print_note

LINE = 4_096
"""Characters of an answer."""
TRIES = 5
YES = frozenset({"y", "yes"})
DECLINE, CANCEL = ElicitationAnswer("decline"), ElicitationAnswer("cancel")


class NoAnswerError(Exception):
    """The input ended, or no answer would do."""


def at_terminal(settings: ToolSettings) -> tuple[ToolSettings, McpHost]:
    """Returns a host that asks the person at the terminal, and settings by which tools wait; without one, `NOBODY`."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return settings, NOBODY
    limits = ToolLimits(deadline=settings.limits.longest, longest=settings.limits.longest)
    return replace(settings, limits=limits), McpHost(elicit=elicit, sign_in=show_address)


async def elicit(elicitation: Elicitation) -> ElicitationAnswer:
    """A form, field by field; or an address that is opened once its reader agrees."""
    print_note(f"\nThe MCP server {elicitation.server!r} asks (never type a password here):\n{elicitation.message}")
    try:
        if elicitation.url is not None:
            if not await agreed(f"Open {elicitation.url} ?", default=False):
                return DECLINE
            await show_address(elicitation.server, elicitation.url)
            return ElicitationAnswer("accept")
        if elicitation.schema.get("properties") and not await agreed("Answer it?", default=True):
            return DECLINE
        return ElicitationAnswer("accept", await filled(elicitation.schema))
    except NoAnswerError:
        return CANCEL


async def filled(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a form. Raises `NoAnswerError`."""
    needed = schema.get("required") or ()
    content = {}
    for name, field in schema.get("properties", {}).items():
        value = await field_value(name, field, needed=name in needed)
        if value is not None:
            content[name] = value
    return content


async def field_value(name: str, field: Mapping[str, Any], *, needed: bool) -> Any:
    """Reads a typed value, as the field has it; its default, or None where it is not needed, for an empty line."""
    print_note(described(name, field, needed=needed))
    for _ in range(TRIES):
        text = await read_line()
        if not text and (not needed or "default" in field):
            return field.get("default")
        value = value_of(field, text)
        if jsonschema_rs.validator_for(dict(field), offline=True).is_valid(value):
            return value
        print_note("  that does not fit; once more:")
    raise NoAnswerError


def described(name: str, field: Mapping[str, Any], *, needed: bool) -> str:
    """Describes a field: its purpose, and ``title (one of a, b; needed) [default]:``."""
    listed = choices(field)
    kind = f"one of {', '.join(listed)}" if listed else str(field.get("format") or field.get("type"))
    several = "several, with commas; " if field.get("type") == "array" else ""
    default = f" [{field['default']}]" if "default" in field else ""
    purpose = f"  {field['description']}\n" if field.get("description") else ""
    return f"{purpose}  {field.get('title') or name} ({several}{kind}{'; needed' if needed else ''}){default}:"


def choices(field: Mapping[str, Any]) -> list[str]:
    """The values that a field can have, where they are listed."""
    source = field.get("items", {}) if field.get("type") == "array" else field
    named = source.get("oneOf") or source.get("anyOf") or ()
    return [str(value) for value in source.get("enum") or [one.get("const") for one in named]]


def value_of(field: Mapping[str, Any], text: str) -> Any:
    """The text as the field's type has it; as text where it has none of these."""
    try:
        match field.get("type"):
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "boolean":
                return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}[text.lower()]
            case "array":
                return [part.strip() for part in text.split(",") if part.strip()]
    except (ValueError, KeyError):
        return text
    return text


async def agreed(question: str, *, default: bool) -> bool:
    """Raises `NoAnswerError` where the input ends."""
    print_note(f"{question} [{'Y/n' if default else 'y/N'}]")
    text = (await read_line()).lower()
    return text in YES if text else default


async def show_address(server: str, url: str) -> None:
    """Opens the browser, and says where it was to go, for who has none here."""
    print_note(f"\nThe MCP server {server!r} is signed in to with a browser, at\n{url}")
    await asyncio.to_thread(webbrowser.open, url)


async def read_line() -> str:
    """A line from the terminal, which is given up with the call that wants it. Raises `NoAnswerError` at its end."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not typed.done():
            typed.set_result(None)

    loop.add_reader(sys.stdin.fileno(), ready)
    try:
        await typed
    finally:
        loop.remove_reader(sys.stdin.fileno())
    line = sys.stdin.readline(LINE)
    if not line:
        raise NoAnswerError
    return line.strip()
