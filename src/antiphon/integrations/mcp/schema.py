"""The tools' arguments and results, whose schemas clients are shown."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MAX_TEXT = 1_000_000
MAX_IDS = 200_000
MAX_MESSAGES = 2_000
MAX_TOOLS = 256
MAX_NAME = 200
MAX_TEMPLATE = 65_536

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
FormatName = Annotated[
    str, Meta(max_length=MAX_NAME, description="A format by its name: harmony, openchatml, chatml, qwen …")
]
Form = Annotated[
    str, Meta(max_length=MAX_NAME, description="openchatml, harmony, harmony-json, chat, responses, or a format's name")
]
Transcript = Annotated[str, Meta(max_length=MAX_TEXT, description="A transcript in OpenChatML")]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An argument that a tool does not have is an error."""


class Render(Arguments, frozen=True, kw_only=True):
    messages: Annotated[
        list[dict[str, Any]], Meta(max_length=MAX_MESSAGES, description="Messages as chat completions have them")
    ]
    tools: Annotated[
        list[dict[str, Any]], Meta(max_length=MAX_TOOLS, description="Tools as chat completions have them")
    ] = []
    format: FormatName = "harmony"
    reply: Annotated[bool, Meta(description="With the beginning of the model's answer")] = True


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    text: Annotated[str, Meta(description="The prompt, control tokens spelled out")]
    pieces: Annotated[
        list[dict[str, str]],
        Meta(
            description='The prompt in its parts: {"control": …} is structure, {"text": …} is not, whatever it spells'
        ),
    ]
    ids: Annotated[list[int] | None, Meta(description="Token ids; only harmony has a vocabulary without a model")]


class Parse(Arguments, frozen=True, kw_only=True):
    reply: Annotated[str, Meta(max_length=MAX_TEXT, description="A model's raw reply, controls spelled out")] | None = (
        None
    )
    ids: Annotated[list[int], Meta(max_length=MAX_IDS, description="In place of it: token ids of harmony")] | None = (
        None
    )
    format: FormatName = "harmony"
    whole: Annotated[bool, Meta(description="A whole conversation, and not one reply")] = False
    strict: Annotated[bool, Meta(description="An error instead of a repair")] = False


class ParseIncident(msgspec.Struct, frozen=True, kw_only=True):
    """What was repaired."""

    code: str
    position: int
    text: str


class ParsedReply(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[dict[str, Any]]
    incidents: list[ParseIncident]


class Convert(Arguments, frozen=True, kw_only=True):
    source: Text
    to: Form
    form: Annotated[str, Meta(max_length=MAX_NAME, description="The source's form; found out if not given")] | None = (
        None
    )
    lenient: Annotated[bool, Meta(description="Take the best reading of a faulty source")] = False


class LostPart(msgspec.Struct, frozen=True, kw_only=True):
    """What the other form cannot hold, and what it becomes there."""

    path: str
    what: str
    becomes: str | None
    kind: Literal["semantic", "derivable", "spelling"]


class ConvertedText(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    losses: list[LostPart]
    warnings: list[str]


class Validate(Arguments, frozen=True, kw_only=True):
    transcript: Transcript
    fragment: Annotated[bool, Meta(description="Accept a transcript without a header")] = False


class TranscriptFinding(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    level: str
    message: str
    line: int | None
    column: int | None
    hint: str | None


class Validity(msgspec.Struct, frozen=True, kw_only=True):
    """``findings``: the first thousand."""

    valid: bool
    findings: list[TranscriptFinding]


class FormatTranscript(Arguments, frozen=True, kw_only=True):
    transcript: Transcript
    fragment: Annotated[bool, Meta(description="Accept a transcript without a header")] = False


class FormattedTranscript(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    changed: bool


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    level: str
    message: str
    line: int | None
    column: int | None
    hint: str | None


class Lint(Arguments, frozen=True, kw_only=True):
    transcript: Transcript
    fix: Annotated[bool, Meta(description="Mend what can be mended, and report the rest")] = False
    fragment: Annotated[bool, Meta(description="Accept a transcript without a header")] = False


class LintReport(msgspec.Struct, frozen=True, kw_only=True):
    """``findings``: the first thousand. ``text``: the transcript, mended where that was requested."""

    findings: list[LintFinding]
    text: str | None


class CheckTemplate(Arguments, frozen=True, kw_only=True):
    template: Annotated[str, Meta(max_length=MAX_TEMPLATE, description="A chat template (Jinja)")]
    special_tokens: Annotated[
        dict[str, str], Meta(max_length=64, description="Such as bos_token and eos_token, by name")
    ] = {}
