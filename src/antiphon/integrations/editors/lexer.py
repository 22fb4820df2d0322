"""A Pygments lexer for OpenChatML, which Pygments finds by its entry point (``openchatml``)."""

from __future__ import annotations

import re
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, default, using, words
from pygments.lexers.data import JsonLexer, YamlLexer
from pygments.token import Comment, Error, Keyword, Name, Operator, String, Text, Whitespace

from antiphon.conversation import Channel
from antiphon.formats.openchatml.frame import FOOTERS
from antiphon.formats.openchatml.head import ATTRIBUTES
from antiphon.formats.openchatml.spelling import CHANNEL, CONSTRAIN, CONTROLS, ENDLITERAL, LITERAL, MESSAGE, START

_NAMES = "|".join(sorted((control.spelling[2:-2] for control in CONTROLS), key=len, reverse=True))
_ANY = rf"<\|(?:{_NAMES})\|>"
_VALUE = rf"(?:(?!{_ANY})[!-~])+"


def _spelled(*controls: object) -> str:
    return "(?:" + "|".join(re.escape(str(control)) for control in controls) + ")"


class OpenChatMLLexer(RegexLexer):
    """Transcripts: the header as YAML, controls, heads, escapes and literal blocks; constrained JSON as JSON.

    What has no place where it stands is an Error token, and a valid transcript has none.
    """

    name = "OpenChatML"
    aliases: ClassVar[list[str]] = ["openchatml", "ocml"]
    filenames: ClassVar[list[str]] = ["*.openchatml", "*.ocml"]
    mimetypes: ClassVar[list[str]] = ["text/x-openchatml"]
    flags = re.MULTILINE

    tokens: ClassVar = {
        "root": [
            (r"^(---|\.\.\.)([ \t]*)$", bygroups(Name.Namespace, Whitespace)),
            (rf"(?s)(?!\s*{_spelled(START)}).+?(?=^(?:---|\.\.\.)[ \t]*$|^{_spelled(START)}|\Z)", using(YamlLexer)),
            default("frames"),
        ],
        "frames": [
            (r"\s+", Whitespace),
            (_spelled(START), Keyword, ("head", "author")),
            (rf"{_ANY}|[^<\s]+|<", Error),
        ],
        "author": [(r"[\w.-]+", Name.Class, "#pop"), default("#pop")],
        "head": [
            (_spelled(CHANNEL), Keyword, "channel"),
            (rf"({_spelled(CONSTRAIN)})([ \t]*)(json)([ \t]*)({_spelled(MESSAGE)})",
             bygroups(Keyword, Whitespace, Keyword.Type, Whitespace, Keyword), ("#pop", "json")),
            (rf"({_spelled(CONSTRAIN)})([ \t]*)({_VALUE})", bygroups(Keyword, Whitespace, Keyword.Type)),
            (_spelled(MESSAGE), Keyword, ("#pop", "body")),
            (rf"([ \t]+)({'|'.join(ATTRIBUTES)})(=)({_VALUE})",
             bygroups(Whitespace, Name.Attribute, Operator, String)),
            (rf"[ \t]+(?=$|{_ANY})", Whitespace),
            (rf"(?={_spelled(START)})", Text, "#pop"),
            (rf"{_ANY}|(?s:.)", Error),
        ],
        "channel": [
            (words(tuple(Channel), suffix=r"(?![\w%-])"), Name.Constant, "#pop"),
            (r"[\w%-]*%[\w%-]*", Name.Constant, "#pop"),
            default("#pop"),
        ],
        "body": [
            (rf"<+{_ANY}", String.Escape),
            (_spelled(LITERAL), Keyword, "literal"),
            (_spelled(*FOOTERS), Keyword, "#pop"),
            (_ANY, Error),
            (r"<\|(?:start|end)_(?:reflect|introspect|reason)\|>", Comment.Special),
            (r"[^<]+|<", Text),
        ],
        "json": [(rf"[^<]+(?={_spelled(*FOOTERS)})", using(JsonLexer), ("#pop", "body")), default(("#pop", "body"))],
        "literal": [
            (_spelled(ENDLITERAL), Keyword, "#pop"),
            (rf"(?s).+?(?={_spelled(ENDLITERAL)}|\Z)", String.Other),
        ],
    }  # fmt: skip
