r"""Patterns around what the engine's release does wrong with characters that JSON escapes.

llguidance 1.0.1 loses whatever follows a quote, a backslash or a control character that a pattern names by itself
(``^"a*$`` becomes ``^"$``), and lets quotes and backslashes through any class that has the control characters to which
JSON gives a letter (``[^"]``).

>>> engine_patterns("^a*$")
('^a*$',)
>>> engine_patterns('^"a*$')
('^["\\x01]a*$', '^[^\\x01]*$')
>>> engine_patterns('^[^"]$')
('^[[^"]--\\x08]$',)

    schema   {"type": "string", "pattern": "^\"a*$"}
    engine   {"type": "string", "pattern": "^[\"\\x01]a*$", "allOf": [{"type": "string", "pattern": "^[^\\x01]*$"}]}
    accepts  "\""  "\"aa"
    refuses  "\"b"  "a"
"""

from __future__ import annotations

import re

import jsonschema_rs

from antiphon.grammar.ecma import parts

GUARD = r"^[^\x01]*$"
"""What a text must match too, where a character was given U+0001 as its neighbour in a class."""

_ALONE = re.compile(
    r"\[?(?P<char>[\x00-\x1f\"]|\\(?:[\\\"tnrfv]|x[01][0-9a-fA-F]|x22|x5[cC]|u00(?:[01][0-9a-fA-F]|22|5[cC])))\]?",
)
"""A character that JSON escapes, by itself."""
_MAY_HOLD_CONTROLS = re.compile(r"\[\^|\\[xuDWS]|[\x00-\x1f]")


def engine_patterns(pattern: str) -> tuple[str, ...]:
    """The patterns that the engine is shown for one of ECMA-262: a text must match all of them."""
    out, guarded = [], False
    for part in parts(pattern):
        alone = _ALONE.fullmatch(part)
        guarded = guarded or alone is not None
        out.append(rf"[{alone['char']}\x01]" if alone else _without_backspace(part))
    return ("".join(out), GUARD) if guarded else ("".join(out),)


def _without_backspace(part: str) -> str:
    """A class that would let a quote or a backslash through gives up U+0008, and with it the engine's short cut."""
    if not part.startswith("[") or not _MAY_HOLD_CONTROLS.search(part):
        return part
    has = jsonschema_rs.validator_for({"pattern": f"^{part}$"}).is_valid
    return rf"[{part}--\x08]" if has("\b") and not (has('"') and has("\\")) else part
