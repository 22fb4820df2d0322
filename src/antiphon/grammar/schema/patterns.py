r"""Regular expressions that several translations need.

>>> all_except(["no", "non"])
'^(?s:|[^n].*|n(?:|[^o].*|o(?:[^n].*|n(?:.+))))$'
>>> pattern_keywords(["^a", "b$"])
{'pattern': '^a', 'allOf': [{'type': 'string', 'pattern': 'b$'}]}
>>> [matches("^a", "abc"), matches("^a", "cba")]
[True, False]
>>> [bool(LOOKS_AROUND.search(pattern)) for pattern in (r"^(?=a)", r"\bword", r"(a)\1", r"a\\b")]
[True, True, True, False]
>>> [is_regular(pattern) for pattern in (r"^a$|^b$", r"[^$]+\$", r"a$b", r"(?m)^a$", r"\bword")]
[True, True, False, False, False]

Patterns around what the engine's release does wrong with characters that JSON escapes.

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
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jsonschema_rs

from antiphon.errors.extras import extra
from antiphon.grammar.rules import parts, quote

GUARD = r"^[^\x01]*$"
"""A pattern that a text must match too, where a character was given U+0001 as its neighbour in a class."""

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


# The `format`s of JSON Schema as patterns.
#
# Each pattern lets through every text of its format, and as little else as a regular expression can: what it cannot
# (whether a leap second fits its offset, whether a label is good Punycode) is left to the check of the finished value.
# A format that is no one's standard is an annotation, as the specification has it.
#
#     schema   {"type": "string", "format": "uuid"}
#     engine   {"type": "string", "pattern": "^(?s:[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12})$"}
#     accepts  "123e4567-e89b-12d3-a456-426614174000"
#     refuses  "123e4567e89b12d3a456426614174000"
#
#     schema   {"type": "string", "format": "time"}
#     engine   {"type": "string", "pattern": "^(?s:(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)…)$"}
#     accepts  "23:59:60Z"
#     refuses  "24:00:00Z"
#     rejects  "12:00:60Z"
#
#     schema   {"type": "string", "format": "regex"}
#     engine   {"type": "string"}
#     relaxed  .format
#     accepts  "a+"
#     rejects  "a("

_DAY = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
)
_TIME = (
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_CLOCK = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_CALENDAR = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_HEX = "[0-9A-Fa-f]{1,4}"


def _ipv6() -> str:
    """RFC 4291: eight groups, the last two perhaps an IPv4 address, one run of them perhaps left out."""
    end = f"(?:{_HEX}:{_HEX}|{_IPV4})"
    whole = [f"(?:{_HEX}:){{6}}{end}"]
    # `before` groups precede the gap; what follows it may have up to 7 - before.
    for before in range(8):
        head = f"{_HEX}(?::{_HEX}){{{before - 1}}}" if before > 1 else _HEX if before else ""
        after = 7 - before
        tails = [f"(?:{_HEX}(?::{_HEX}){{0,{after - 1}}})?"] if after else [""]
        if after >= 2:
            tails.append(f"(?:{_HEX}:){{0,{after - 2}}}{_IPV4}")
        whole.append(f"{head}::(?:{'|'.join(tails)})")
    return f"(?:{'|'.join(whole)})"


_IPV6 = _ipv6()
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"


def _mailbox(atom: str, domain: str) -> str:
    # A lone quote before a repetition is more than the engine's string lexer can take, a set of two is not.
    local = rf"""(?:{atom}+(?:\.{atom}+)*|["!](?:[^"\\\x00-\x1f\x7f]|\\[\x20-\x7e])*["!])"""
    return rf"{local}@(?:{domain}|\[(?:{_IPV4}|IPv6:{_IPV6})\])"


def _identifier(more: str, *, relative: bool) -> str:
    """RFC 3986, and RFC 3987 with ``more`` characters."""
    escape = "%[0-9A-Fa-f]{2}"
    plain = rf"A-Za-z0-9._~!$&'()*+,;=\-{more}"
    char, user = f"(?:[{plain}:@]|{escape})", f"(?:[{plain}:]|{escape})"
    no_colon = f"(?:[{plain}@]|{escape})"
    host = rf"(?:\[(?:{_IPV6}|[vV][0-9A-Fa-f]+\.[{plain}:]+)\]|(?:[{plain}]|{escape})*)"
    authority = f"//(?:{user}*@)?{host}(?::[0-9]*)?(?:/{char}*)*"
    absolute = f"/(?:{char}+(?:/{char}*)*)?"
    rest = rf"(?:\?(?:{char}|[/?])*)?(?:#(?:{char}|[/?])*)?"
    full = f"[A-Za-z][A-Za-z0-9+.-]*:(?:{authority}|{absolute}|{char}+(?:/{char}*)*|)"
    if not relative:
        return full + rest
    return f"(?:{full}|{authority}|{absolute}|{no_colon}+(?:/{char}*)*|){rest}"


_BEYOND_ASCII = "\u00a0-\uffef\U00010000-\U0010fffd"
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9][0-9]{0,3}|\*)?"
_TEMPLATE = (
    r"(?:[^\x00-\x20\"%<>\\^`{|}\x7f]|%[0-9A-Fa-f]{2}"
    rf"|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)
_POINTER = "(?:/(?:[^/~]|~[01])*)*"

_WHOLE = {
    "date": _DAY,
    "time": _TIME,
    "date-time": f"{_DAY}[Tt]{_TIME}",
    "duration": f"P(?:{_CALENDAR}(?:{_CLOCK})?|{_CLOCK}|[0-9]+W)",
    "email": _mailbox(_ATOM, _HOST),
    "idn-email": _mailbox(
        rf"(?:{_ATOM}|[^\x00-\x7f])", r"(?:[A-Za-z0-9-]|[^\x00-\x7f])+(?:\.(?:[A-Za-z0-9-]|[^\x00-\x7f])+)*"
    ),
    "hostname": _HOST,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uri": _identifier("", relative=False),
    "uri-reference": _identifier("", relative=True),
    "iri": _identifier(_BEYOND_ASCII, relative=False),
    "iri-reference": _identifier(_BEYOND_ASCII, relative=True),
    "uri-template": _TEMPLATE,
    "uuid": "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}

PATTERNS: Mapping[str, str] = MappingProxyType({name: f"^(?s:{pattern})$" for name, pattern in _WHOLE.items()})
"""Formats by name, as patterns that match the whole text."""

NOT_REGULAR = frozenset({"idn-hostname", "regex"})
"""Standard formats that no regular expression comes near."""


LOOKS_AROUND = re.compile(r"(?:^|[^\\])(?:\\\\)*(?:\(\?<?[=!]|\\[1-9bB]|\\k<)")
"""A pattern that looks around or back, which the engine's automata cannot."""

_CLASSES_AND_ESCAPES = re.compile(r"\[\^?\]?(?:\\.|[^]\\])*\]|\\.", re.DOTALL)

_MIDST = re.compile(r"[\^$]|\(\?[a-z]*m")


def is_regular(pattern: str) -> bool:
    """Whether the engine's automata can take the pattern: what looks around they cannot, nor anchors in its midst."""
    if LOOKS_AROUND.search(pattern):
        return False
    inside = _CLASSES_AND_ESCAPES.sub("", pattern.removeprefix("^").removesuffix("$"))
    return not _MIDST.search(inside) or not engine_fault({"type": "string", "pattern": pattern})


def engine_fault(schema: dict[str, Any]) -> str:
    """The engine's fault with a schema, in its own words; empty without one. Needs the extra ``local``."""
    with extra("local", "a grammar"):
        from llguidance import LLMatcher

    return str(LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(schema)))


def pattern_keywords(patterns: Sequence[str]) -> dict[str, Any]:
    """The keywords of a schema whose texts match every one of the patterns."""
    rest = [{"type": "string", "pattern": pattern} for pattern in patterns[1:]]
    return {"pattern": patterns[0], **({"allOf": rest} if rest else {})} if patterns else {}


def all_except(texts: Collection[str], *, without: str = "") -> str:
    """A pattern of every text but ``texts``, and without any character of ``without``.

    Such a text leaves all of ``texts`` at some character, or ends before or after them: a trie, written as a pattern.
    """
    return f"^(?s:{_leaving('', texts, without)})$"


def _leaving(prefix: str, texts: Collection[str], without: str) -> str:
    """How texts go on behind ``prefix`` that are none of ``texts``."""
    following = sorted({text[len(prefix)] for text in texts if text.startswith(prefix) and text != prefix})
    any_ = f"[^{quote(without)}]" if without else "."
    if not following:
        return f"{any_}+"
    ways = [f"[^{''.join(map(quote, sorted({*following, *without})))}]{any_}*"]
    ways += [f"{quote(char)}(?:{_leaving(prefix + char, texts, without)})" for char in following]
    return "|".join(ways if prefix in texts else ["", *ways])


def matches(pattern: str, text: str) -> bool:
    """Whether ECMA-262's ``pattern`` is found in the text."""
    return jsonschema_rs.is_valid({"pattern": pattern}, text)
