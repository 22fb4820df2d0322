"""The tools, each a function of its arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from antiphon.api.native.template_work import checked_template
from antiphon.api.native.templates import CheckedTemplate, TemplateCheckRequest
from antiphon.conversation.json import message_json
from antiphon.errors import RequestError
from antiphon.formats.openchatml import format_transcript
from antiphon.formats.openchatml import validate as findings_of
from antiphon.formats.openchatml.lint import findings, mended
from antiphon.isolation import Isolation
from antiphon.library.text import convert, parse, read_chat, render
from antiphon.tokens import Control

# The tools' arguments and results, whose schemas clients are shown.

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
    """A repair."""

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
    """A part that the other form cannot hold, and what it becomes there."""

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


MAX_FINDINGS = 1_000
Input = TypeVar("Input", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class ServerTool(Generic[Input]):
    """A function of ``arguments`` that gives a ``result``; it raises `AntiphonError`, and reads and writes no file."""

    title: str
    purpose: str
    arguments: type[Input]
    result: type[msgspec.Struct]
    run: Callable[[Input], msgspec.Struct]

    def answer(self, values: Mapping[str, Any]) -> Any:
        """The result as JSON. Raises `msgspec.ValidationError` for arguments that do not fit, and `AntiphonError`."""
        result = self.run(msgspec.convert(values, self.arguments))
        return msgspec.json.decode(msgspec.json.encode(result))  # what cannot be written fails here


def rendered(request: Render) -> Rendered:
    body = {"messages": request.messages} | ({"tools": request.tools} if request.tools else {})
    prompt = render(read_chat(msgspec.json.encode(body)), request.format, reply=request.reply)
    pieces = [{"control": one.spelling} if isinstance(one, Control) else {"text": str(one)} for one in prompt.pieces]
    return Rendered(text=prompt.text, pieces=pieces, ids=None if prompt.ids is None else list(prompt.ids))


def parsed(request: Parse) -> ParsedReply:
    if (request.reply is None) == (request.ids is None):
        raise RequestError("reply or ids must be there, one of them", code="invalid_value")
    reply = request.reply if request.reply is not None else request.ids or []
    found = parse(reply, request.format, whole=request.whole, strict=request.strict)
    return ParsedReply(
        messages=[msgspec.to_builtins(message_json(message)) for message in found.messages],
        incidents=[ParseIncident(code=one.code, position=one.position, text=one.text) for one in found.incidents],
    )


def converted(request: Convert) -> ConvertedText:
    result = convert(request.source, request.to, form=request.form, lenient=request.lenient)
    losses = [LostPart(path=one.path, what=one.what, becomes=one.becomes, kind=one.kind) for one in result.losses]
    return ConvertedText(text=result.text, losses=losses, warnings=list(result.warnings))


def validated(request: Validate) -> Validity:
    problems = [
        TranscriptFinding(
            code=found.code,
            level="warning" if found.warning else "error",
            message=found.message,
            line=found.position.line,
            column=found.position.column,
            hint=found.hint,
        )
        for found in findings_of(request.transcript, fragment=request.fragment)
    ]
    valid = all(problem.level != "error" for problem in problems)
    return Validity(valid=valid, findings=problems[:MAX_FINDINGS])


def formatted(request: FormatTranscript) -> FormattedTranscript:
    text = format_transcript(request.transcript, fragment=request.fragment)
    return FormattedTranscript(text=text, changed=text != request.transcript)


def linted(request: Lint) -> LintReport:
    text = mended(request.transcript, fragment=request.fragment) if request.fix else request.transcript
    found = [
        LintFinding(
            rule=one.rule,
            level=str(one.level),
            message=one.message,
            line=one.start.line,
            column=one.start.column,
            hint=one.hint,
        )
        for one in findings(text, fragment=request.fragment)[:MAX_FINDINGS]
    ]
    return LintReport(findings=found, text=text if request.fix else None)


def template_checked(request: CheckTemplate) -> CheckedTemplate:
    wire = TemplateCheckRequest(template=request.template, special_tokens=request.special_tokens or None)
    with closing(Isolation()) as isolated:
        return asyncio.run(checked_template(wire, None, isolated, ""))


TOOLS: Mapping[str, ServerTool[Any]] = {
    "render": ServerTool(
        "Render a prompt",
        "The exact prompt that a model gets of a conversation, in a format: Harmony, ChatML, OpenChatML and others.",
        Render,
        Rendered,
        rendered,
    ),
    "parse": ServerTool(
        "Parse a reply",
        "A model's raw reply as messages: reasoning, answers and tool calls; what had to be repaired is listed.",
        Parse,
        ParsedReply,
        parsed,
    ),
    "convert": ServerTool(
        "Convert a conversation",
        "A conversation in another form, with what that form cannot hold.",
        Convert,
        ConvertedText,
        converted,
    ),
    "validate": ServerTool(
        "Validate a transcript",
        "What is wrong with an OpenChatML transcript: each error with its code, line, column and hint.",
        Validate,
        Validity,
        validated,
    ),
    "format": ServerTool(
        "Format a transcript",
        "A valid OpenChatML transcript in canonical form.",
        FormatTranscript,
        FormattedTranscript,
        formatted,
    ),
    "lint": ServerTool(
        "Lint a transcript",
        "An OpenChatML transcript checked by named rules, and mended where that is requested.",
        Lint,
        LintReport,
        linted,
    ),
    "check_template": ServerTool(
        "Check a chat template",
        "What a chat template loses, whether replies can be read back, and where prompts change from turn to turn.",
        CheckTemplate,
        CheckedTemplate,
        template_checked,
    ),
}
