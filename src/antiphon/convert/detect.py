"""Which form an input is in, by its first characters; a JSON value by its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from antiphon.errors import ParseError
from antiphon.formats.openchatml import is_v01

ENOUGH = 65_536
"""Bytes that always tell."""
HINT = "Name it with --from."
_OPENCHATML = re.compile(r"---\s*\n|version\s*:|(?s:.*?)(?:<\|literal\|>|<<\||\b(?:call_id|intent)=)")


def detect(head: bytes) -> str:
    """``openchatml``, ``openchatml-0.1``, ``harmony``, ``harmony-ids``, or ``json``. Raises `ParseError`."""
    text = head[:ENOUGH].decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if re.match(r"\[?\s*\d[\d\s,]*", text) and "<|" not in text:
        return "harmony-ids"
    if text[:1] in ("{", "["):
        return "json"
    if is_v01(text):
        return "openchatml-0.1"
    if text.startswith("<|start|>"):
        return "openchatml" if _OPENCHATML.match(text) else "harmony"
    if _OPENCHATML.match(text) or "<|start|>" in text:
        return "openchatml"
    raise ParseError("this looks like no form of a conversation that is known here", code="unknown_form", hint=HINT)


def detect_json(value: Any) -> str:
    """``harmony-json``, ``chat`` or ``responses``. Raises `ParseError`."""
    fields: Mapping[str, Any] = value if isinstance(value, dict) else {}
    elements = value if isinstance(value, list) else fields.get("messages")
    if "input" in fields or "output" in fields or (isinstance(value, list) and any(map(_is_item, value))):
        return "responses"
    if isinstance(elements, list) and any(map(_is_harmony, elements)):
        return "harmony-json"
    if isinstance(elements, list) and all(isinstance(element, dict) and "role" in element for element in elements):
        return "chat"
    raise ParseError("this JSON is no conversation that is known here", code="unknown_form", hint=HINT)


def _is_item(element: Any) -> bool:
    return isinstance(element, dict) and isinstance(element.get("type"), str)


def _is_harmony(element: Any) -> bool:
    if not isinstance(element, dict):
        return False
    content = element.get("content")
    typed = isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in ("system_content", "developer_content") for part in content
    )
    return typed or any(key in element for key in ("channel", "recipient", "content_type"))
