"""Tools that are offered, and calls that were made, as a declared template writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .blocks import Calls, Offers

Offer = Mapping[str, Any]
"""A tool that is offered: ``name``, ``description``, ``parameters``."""

_PLACE = re.compile(r"\{(name|description|tool|arguments)\}")


def offered_text(offers: Offers, tools: Sequence[Offer], protect: Callable[[str], str]) -> str:
    """All tools, from ``open`` to ``close``. ``protect`` gives what is written for each text of a tool."""
    each = [_filled(offers.each, _texts(tool, offers.indent, protect)) for tool in tools]
    return f"{offers.open}{offers.between.join(each)}{offers.close}"


def call_text(calls: Calls, call: Mapping[str, Any]) -> str:
    """One call in the form of the OpenAI API, or its function alone; arguments stay the text that the model wrote."""
    function = call.get("function", call)
    arguments = function.get("arguments", "{}")
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    name = json.dumps(function.get("name", ""), ensure_ascii=False)[1:-1]
    return _filled(calls.each, {"name": name, "arguments": raw or "{}"})


def _filled(pattern: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: values[place[1]], pattern)


def _texts(tool: Offer, indent: int, protect: Callable[[str], str]) -> dict[str, str]:
    """What stands in the places of an offer's pattern; JSON in lines is as deep as a list's items are."""
    written = json.dumps(tool, ensure_ascii=False, indent=indent or None).replace("\n", "\n" + " " * indent)
    texts = {"tool": written, "name": str(tool.get("name", "")), "description": str(tool.get("description") or "")}
    return {place: protect(text) for place, text in texts.items()}
