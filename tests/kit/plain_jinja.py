"""What a chat template writes by itself: Jinja in the documented environment, and nothing of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import date
from functools import lru_cache
from typing import Any

import jinja2
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from antiphon import read_chat
from antiphon.conversation import Conversation, Settings

TODAY = date(2024, 7, 26)
MARKS = "\ue100\ue101"


class Generation(Extension):
    tags = {"generation"}  # noqa: RUF012 - declared so by the base class

    def parse(self, parser: Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Marked(Generation):
    """Writes a character before and behind what a template marks."""

    def parse(self, parser: Parser) -> list[jinja2.nodes.Node]:
        opens, closes = (jinja2.nodes.Output([jinja2.nodes.TemplateData(mark)]) for mark in MARKS)
        return [opens, *super().parse(parser), closes]


def plain_jinja(source: str, variables: dict[str, Any], today: date = TODAY, *, marked: bool = False) -> str:
    """The text, with `MARKS` where it is wanted ``marked``; raises what Jinja raises."""
    return _compiled(source, today, marked).render(**variables)


@lru_cache(maxsize=64)
def _compiled(source: str, today: date, marked: bool) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Marked if marked else Generation]
    )

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = today.strftime
    return environment.from_string(source)


def plain_prompt(
    source: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    today: date = TODAY,
    *,
    marked: bool = False,
    **more: Any,
) -> str:
    """The prompt for messages in the form of the chat API, their arguments objects, reasoning under every name."""
    offered = [dict(message) for message in deepcopy(list(messages))]
    for message in offered:
        if reasoning := message.get("reasoning_content"):
            message |= dict.fromkeys(("reasoning", "thinking", "thought"), reasoning)
    variables = {"messages": offered, "tools": tools, "documents": None, "add_generation_prompt": True}
    return plain_jinja(source, {**variables, **more}, today, marked=marked)


def conversation_of(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = (), today: date = TODAY, **kwargs: Any
) -> Conversation:
    """The same messages as our server reads them, arguments in the spelling that models are trained on."""
    sent = json.loads(json.dumps(list(messages)))
    for call in (call for message in sent for call in message.get("tool_calls", ())):
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    body = {"model": "m", "messages": sent, **({"tools": list(tools)} if tools else {})}
    read = read_chat(body)
    return Conversation(read.messages, tools=read.tools, settings=Settings(current_date=today, template_kwargs=kwargs))
