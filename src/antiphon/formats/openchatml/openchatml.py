"""OpenChatML as a model's format: prompts in its own controls, or spelled out for a model that lacks them (§3)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from antiphon.conversation import (
    Channel,
    Conversation,
    DeveloperContent,
    End,
    Message,
    OpaquePart,
    Part,
    ResponseFormat,
    Role,
    SystemContent,
    TextPart,
    ToolNamespace,
    ToolsPart,
    ToolSpec,
)
from antiphon.conversation.tools import by_namespace
from antiphon.errors import RenderError
from antiphon.formats.format import HistoryPolicy, Parser, SamplingDefaults, drop_before
from antiphon.formats.offered_calls import offered_calls
from antiphon.tokens import Control, Piece, spell

from .document import DocumentHeader
from .head import head_pieces
from .reader import TranscriptParser
from .reply import ReplyParser
from .spelling import BY_SPELLING, CALL, CHANNEL, CONTROLS, MESSAGE, RETURN, START, STRUCTURE, spell_body
from .writer import envelope_of
from .yaml_header import spell_header

if TYPE_CHECKING:
    from antiphon.grammar import Grammar, ReplyShape


# The frames that introduce a prompt (§16.2): settings in a system frame, tools and answer form in a developer's.


def introduction(conversation: Conversation) -> Iterator[Message]:
    """The frames before the conversation's own: nothing where there is nothing to say."""
    if conversation.verbatim:
        return
    settings = conversation.settings
    today = settings.current_date.isoformat() if settings.current_date else None
    facts = _facts(settings.identity, settings.knowledge_cutoff, today)
    channels = _channels(settings.channels, bool(conversation.tools))
    system = "\n\n".join((*facts, *_reasoning(settings.reasoning_effort), *channels))
    if system:
        yield Message(role=Role.SYSTEM, text=system)
    namespaces = [*conversation.builtins, *by_namespace(conversation.tools).values()]
    developer = "\n\n".join([*_tool_sections(namespaces), *_format_sections(conversation.response_format)])
    if developer:
        yield Message(role=Role.DEVELOPER, text=developer)


def text_of(message: Message) -> str:
    """The body of a message. Raises `RenderError` for a part that is no text (image, audio …)."""
    return "".join(map(_part_text, message.parts)) if message.parts else message.text


def _part_text(part: Part) -> str:
    match part:
        case ToolsPart(tools=defined):
            return "\n\n".join(_tool_sections(by_namespace(defined).values()))
        case TextPart(text):
            return text
        case SystemContent():
            effort, channels = part.reasoning_effort, part.channels.valid if part.channels else None
            lines = _facts(part.identity, part.knowledge_cutoff, part.start_date)
            tools = _tool_sections((part.tools or {}).values())
            return "\n\n".join([*lines, *_reasoning(effort), *tools, *_channels(channels, False)])
        case DeveloperContent():
            instructions = [] if part.instructions is None else [f"# Instructions\n\n{part.instructions}"]
            tools = _tool_sections((part.tools or {}).values())
            return "\n\n".join([*instructions, *tools, *_format_sections(part.response_format)])
        case OpaquePart(kind):
            raise RenderError(f"OpenChatML has no frame for a part of kind {kind!r}", hint="It carries text only.")


def _facts(identity: str | None, cutoff: str | None, today: str | None) -> list[str]:
    lines = [identity, cutoff and f"Knowledge cutoff: {cutoff}", today and f"Current date: {today}"]
    return ["\n".join(line for line in lines if line)] if any(lines) else []


def _reasoning(effort: str | None) -> list[str]:
    return [f"Reasoning: {effort}"] if effort else []


def _channels(channels: Iterable[str] | None, functions: bool) -> list[str]:
    if channels is None and not functions:
        return []
    names = ", ".join(tuple(Channel) if channels is None else channels)
    lines = [f"# Valid channels: {names}. Channel must be included for every message."]
    lines += ["Calls to these tools must go to the commentary channel: 'functions'."] if functions else []
    return ["\n".join(lines)]


def _tool_sections(namespaces: Iterable[ToolNamespace]) -> list[str]:
    sections = [_namespace(namespace) for namespace in namespaces if namespace.tools or namespace.description]
    return ["# Tools", *sections] if sections else []


def _namespace(namespace: ToolNamespace) -> str:
    lines = [f"## {namespace.name}", *([namespace.description] if namespace.description else [])]
    for tool in namespace.tools:
        declared = {"name": tool.recipient, "description": tool.description, "parameters": tool.parameters}
        lines.append(json.dumps({k: v for k, v in declared.items() if v not in ("", None)}, ensure_ascii=False))
    return "\n".join(lines)


def _format_sections(form: ResponseFormat | None) -> list[str]:
    if form is None or form.kind == "text":
        return []
    title = f"## {form.name or form.kind}" + (f"\n\n// {form.description}" if form.description else "")
    match form.kind:
        case "json_schema":
            requirement = json.dumps(form.schema, ensure_ascii=False)
        case "regex":
            requirement = f"Text that matches {form.pattern}"
        case "choice":
            requirement = "One of: " + ", ".join(form.choices)
        case "grammar":
            requirement = f"Text of the grammar\n\n{form.grammar}"
        case _:
            requirement = "A JSON object."
    return [f"# Response Formats\n\n{title}\n\n{requirement}"]


OWN_ENDS = ("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<end_of_turn>", "<eos>", "</s>")
"""End tokens of model families; those of a model that lacks our controls end its turn too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChatML:
    """A `Format`. ``controls`` is empty when they are spelled out as text.

    ``header`` writes the YAML header in front of a prompt. ``opening`` "final" begins the reply's body for a model
    that would not find its way through a head: it can then neither reason apart nor call tools.
    """

    controls: Sequence[Control] = ()
    stops: Sequence[Control | str] = (RETURN.spelling, CALL.spelling)
    header: bool = True
    opening: Literal["head", "final"] = "head"

    name = "openchatml"
    framed = True
    arguments = frozenset[str]()
    defaults = SamplingDefaults()

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        """The prompt (OCM-08, HIP-1.7): a whole transcript up to the reply. Raises `RenderError` for media parts."""
        messages = [*introduction(conversation), *for_prompt(conversation.messages, history)]
        prefill = messages[-1].end is End.NONE if messages else False
        if self.header:
            yield spell_header(envelope_of(conversation).header or DocumentHeader())
        for message in messages[:-1] if prefill else messages:
            yield from self._pieces(message, RETURNS.get(message.end, message.end))
        if prefill:
            yield from self._pieces(messages[-1], End.NONE)
        elif reply_as is not None:
            yield from self._opened(reply_as)

    def parser(
        self,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        prompt: Sequence[Piece] = (),
        strict: bool = False,
        tools: Collection[ToolSpec | str] = (),
        response_format: ResponseFormat | None = None,
        calls: Collection[str] | None = None,
    ) -> Parser:
        """A reader of one reply, or of a transcript where there is no ``reply_as``.

        ``strict`` raises `ParseError` where the default reports an `Incident`.
        """
        if reply_as is None and not prompt:
            return TranscriptParser(spelled=not self.controls, strict=strict)
        opened = self._open_frame(prompt)
        if not opened and reply_as is not None:
            opened = list(self._opened(reply_as))
        reader = ReplyParser(opened, speaker=reply_as or Role.ASSISTANT, spelled=not self.controls, strict=strict)
        return offered_calls(reader, calls, strict=strict)

    def grammar(self, shape: ReplyShape, *, prompt: Sequence[Piece] = ()) -> Grammar:
        """The grammar of a reply; it has one call at most, at which inference stops."""
        from .grammar import OpenChatMLGrammar  # rendering and parsing need not wait for it

        reply = OpenChatMLGrammar(shape, spelled=not self.controls)
        opened = spell(self._open_frame(prompt) or list(self._opened(Role.ASSISTANT)))
        return reply.continued() if MESSAGE.spelling in opened else reply.reply()

    def _pieces(self, message: Message, end: End) -> Iterator[Piece]:
        head, text = list(head_pieces(message)), text_of(message)
        if self.controls:
            yield from (START, *head, MESSAGE, text)
            if end is not End.NONE:
                yield BY_SPELLING[f"<|{end}|>"]
            return
        yield f"{START}{spell(head)}{MESSAGE}"
        yield spell_body(text)
        if end is not End.NONE:
            yield f"<|{end}|>\n"

    def _opened(self, role: Role) -> Iterator[Piece]:
        rest: list[Piece] = [CHANNEL, Channel.FINAL.value, MESSAGE] if self.opening == "final" else []
        opened: list[Piece] = [START, role.value, *rest]
        yield from opened if self.controls else (spell(opened),)

    def _open_frame(self, prompt: Sequence[Piece]) -> list[Piece]:
        """The pieces of the frame that the prompt leaves open. A body is escaped, so only a frame begins so."""
        for i in range(len(prompt) - 1, -1, -1):
            piece = prompt[i]
            if piece == START or (not self.controls and isinstance(piece, str) and piece.startswith(START.spelling)):
                return list(prompt[i:])
        return []


RETURNS = {End.RETURN: End.END}
"""A-O46: a prompt's history ends its answers with ``<|end|>``."""


def openchatml(controls: Collection[Control]) -> OpenChatML:
    """The format for a vocabulary: in its controls when it has all that structure needs, else spelled out (§3)."""
    if all(control in controls for control in STRUCTURE):
        known = tuple(control for control in CONTROLS if control in controls)
        return OpenChatML(controls=known, stops=(RETURN, CALL))
    ends = [control for control in map(Control, OWN_ENDS) if control in controls]
    return OpenChatML(stops=(RETURN.spelling, CALL.spelling, *ends))


def for_prompt(messages: Sequence[Message], policy: HistoryPolicy) -> list[Message]:
    """The messages that a prompt shows (A-H03, A-O45, HIP-1.7): earlier reasoning is dropped, open calls keep theirs.

    The reply of a call that is dropped goes with it; a message that was cut off is left out (A-O51), unless the model
    is to continue it.
    """
    first = drop_before(messages, policy)
    shown: list[Message] = []
    dropped: set[str | None] = set()
    for i, message in enumerate(messages):
        if message.end is End.NONE and i < len(messages) - 1:
            continue
        old = i < first and message.channel == Channel.ANALYSIS
        if message.is_call and old:
            dropped.add(message.call_id)
        if not old and not (message.role is Role.TOOL and message.call_id in dropped):
            shown.append(message)
    return shown
