"""Texts that are no OpenChatML but something like it: what they are, and how they are read."""

from __future__ import annotations

import re

from .finding import Problem

_JSON = re.compile(r"\s*[\[{]\s*[\"\[{]")
_ROLES = re.compile(r'"(?:messages|role|input)"\s*:')


def other_form(text: str) -> Problem | None:
    """What a text is whose header cannot be read, by its first characters; None when nothing is known of it."""
    if text.lstrip().startswith(("<|im_start|>", "<|begin_of_text|>", "[INST]")):
        return _other("this is a chat template's prompt", "A prompt cannot be read back as a transcript.")
    if not _JSON.match(text):
        return None
    if _ROLES.search(text):
        return _other("this is chat JSON, not a transcript", _convert("chat"))
    return _other("this is JSON, not a transcript", "A transcript is a YAML header, then frames.")


def _other(message: str, hint: str) -> Problem:
    return Problem(0, message, hint, rule="other-form")


def _convert(form: str) -> str:
    return f"Use --from {form}; `antiphon convert --from {form} --to openchatml` makes a transcript of it."
