"""Which form an input is in, by its first characters; a JSON value by its keys."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from antiphon.errors import ParseError, Position

from .json_text import Entry, entries

ENOUGH = 65_536
"""So many bytes always suffice to detect the form."""
HINT = "Name it with --from."
_OPENCHATML = re.compile(r"---\s*\n|version\s*:|(?s:.*?)(?:<\|literal\|>|<<\||\b(?:call_id|intent)=)")


def detect(head: bytes) -> str:
    """``openchatml``, ``harmony``, ``harmony-ids``, or ``json``. Raises `ParseError`."""
    text = head[:ENOUGH].decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if re.match(r"\[?\s*\d[\d\s,]*", text) and "<|" not in text:
        return "harmony-ids"
    if text[:1] in ("{", "["):
        return "json"
    if text.startswith("<|start|>"):
        return "openchatml" if _OPENCHATML.match(text) else "harmony"
    if _OPENCHATML.match(text) or "<|start|>" in text:
        return "openchatml"
    raise ParseError("this looks like no form of a conversation that is known here", code="unknown_form", hint=HINT)


def form_of(data: bytes) -> str:
    """The form that a whole input is in, by the name that reads it. Raises `ParseError`, also where JSON is none."""
    form = detect(data)
    return survey(entries(io.BytesIO(data))).form if form == "json" else form


@dataclass(slots=True)
class Survey:
    """What a JSON text is about: its members, of which a long list is (), and what the lists' elements look like."""

    members: dict[str, Any] = field(default_factory=dict)
    is_list: bool = False
    any_item: bool = False
    any_harmony: bool = False
    all_roles: bool = True

    def note(self, element: Any) -> None:
        self.any_item = self.any_item or _is_item(element)
        self.any_harmony = self.any_harmony or _is_harmony(element)
        self.all_roles = self.all_roles and isinstance(element, dict) and "role" in element

    @property
    def form(self) -> str:
        """``harmony-json``, ``chat`` or ``responses``. Raises `ParseError`."""
        if "input" in self.members or "output" in self.members or (self.is_list and self.any_item):
            return "responses"
        if self.is_list or self._is_list("messages"):
            if self.any_harmony:
                return "harmony-json"
            if self.all_roles:
                return "chat"
        raise ParseError("this JSON is no conversation that is known here", code="unknown_form", hint=HINT)

    def require(self, path: str) -> None:
        """Raises `ParseError` when there is no such list."""
        if not (self.is_list or self._is_list(path)):
            raise ParseError(f"{path} is not a list", code="wrong_value", position=Position(path=path))

    def _is_list(self, path: str) -> bool:
        return path in self.members and isinstance(self.members[path], list | tuple)


def survey(entries: Iterable[Entry]) -> Survey:
    """Reads all of a JSON text, and keeps what is not long."""
    found = Survey()
    for key, index, value in entries:
        if key is None:
            found.is_list = index is not None or isinstance(value, list)
        elif index is None:
            found.members[key] = value
        else:
            found.members[key] = ()
        if index is not None and key in (None, "messages"):
            found.note(value)
    return found


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
