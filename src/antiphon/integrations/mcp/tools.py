"""What each tool does with its arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from antiphon.api.native.template_schema import CheckedTemplate, TemplateCheckRequest
from antiphon.api.native.template_work import checked_template
from antiphon.conversation.json import message_json
from antiphon.errors import RequestError
from antiphon.formats.openchatml import Finding, format_transcript
from antiphon.formats.openchatml import validate as findings_of
from antiphon.formats.openchatml.lint import Diagnostic, findings, mended
from antiphon.isolation import Isolation
from antiphon.library.text import convert, parse, read_chat, render
from antiphon.tokens import Control

from .schema import (
    CheckTemplate,
    Convert,
    ConvertedText,
    FormattedTranscript,
    FormatTranscript,
    Lint,
    LintFinding,
    LintReport,
    LostPart,
    Parse,
    ParsedReply,
    ParseIncident,
    Render,
    Rendered,
    TranscriptFinding,
    Validate,
    Validity,
)

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
    problems = [_problem(finding) for finding in findings_of(request.transcript, fragment=request.fragment)]
    valid = all(problem.level != "error" for problem in problems)
    return Validity(valid=valid, findings=problems[:MAX_FINDINGS])


def formatted(request: FormatTranscript) -> FormattedTranscript:
    text = format_transcript(request.transcript, fragment=request.fragment)
    return FormattedTranscript(text=text, changed=text != request.transcript)


def linted(request: Lint) -> LintReport:
    text = mended(request.transcript, fragment=request.fragment) if request.fix else request.transcript
    found = [_diagnosed(one) for one in findings(text, fragment=request.fragment)[:MAX_FINDINGS]]
    return LintReport(findings=found, text=text if request.fix else None)


def template_checked(request: CheckTemplate) -> CheckedTemplate:
    wire = TemplateCheckRequest(template=request.template, special_tokens=request.special_tokens or None)
    with closing(Isolation()) as isolated:
        return asyncio.run(checked_template(wire, None, isolated, ""))


def _problem(finding: Finding) -> TranscriptFinding:
    return TranscriptFinding(
        code=finding.code,
        level="warning" if finding.warning else "error",
        message=finding.message,
        line=finding.position.line,
        column=finding.position.column,
        hint=finding.hint,
    )


def _diagnosed(found: Diagnostic) -> LintFinding:
    return LintFinding(
        rule=found.rule,
        level=str(found.level),
        message=found.message,
        line=found.start.line,
        column=found.start.column,
        hint=found.hint,
    )


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
