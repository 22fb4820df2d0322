"""The `format`s of JSON Schema as patterns.

Each pattern lets through every text of its format, and as little else as a regular expression can: what it cannot
(whether a leap second fits its offset, whether a label is good Punycode) is left to the check of the finished value. A
format that is no one's standard is an annotation, as the specification has it.

    schema   {"type": "string", "format": "uuid"}
    engine   {"type": "string", "pattern": "^(?s:[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12})$"}
    accepts  "123e4567-e89b-12d3-a456-426614174000"
    refuses  "123e4567e89b12d3a456426614174000"

    schema   {"type": "string", "format": "time"}
    engine   {"type": "string", "pattern": "^(?s:(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)…)$"}
    accepts  "23:59:60Z"
    refuses  "24:00:00Z"
    rejects  "12:00:60Z"

    schema   {"type": "string", "format": "regex"}
    engine   {"type": "string"}
    relaxed  .format
    accepts  "a+"
    rejects  "a("
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
