"""A template as a `Format`: declared ones, and users' own classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from antiphon.conversation import Conversation, Role, ToolSpec
from antiphon.errors import RenderError, TemplateError
from antiphon.formats import Format, FormatRegistry, HistoryPolicy, SamplingDefaults
from antiphon.formats.replies import PLAIN, CallForm, CompiledDescription, Members, Region, ReplyDescription, Slot
from antiphon.formats.replies.reply_format import ReplyFormat, require_assistant
from antiphon.tokens import Control, Piece, Tokenizer

from .base import SETTINGS, BaseTemplate
from .chat import ChatMessage, chat_messages
from .declared import DeclaredTemplate
from .history import GivenHistory, calls_as_text, mended, result_as_text
from .registry import TemplateRegistry, builtin_templates
from .user_text import ControlSpellings, MarkedText, Placeholders

if TYPE_CHECKING:  # the declared templates do without Jinja
    from .jinja import JinjaFormat


class TemplateFormat(ReplyFormat):
    """A template for a vocabulary with ``controls``; those that its own strings spell are its structure.

    ``stated`` are those of the ``defaults`` that the template's author chose.
    """

    def __init__(
        self, name: str, template: BaseTemplate, controls: Collection[Control], *, replies: ReplyDescription = PLAIN
    ) -> None:
        self.name = name
        self.template = template
        self.replies = _anchored(replies, template)
        self.vocabulary = frozenset(controls)
        # Attributes of a class of the user's, blocks and rule of a declared template.
        self._own = [text for each in (vars(template), getattr(template, "rule", None)) for text in _strings(each)]
        self._spellings = ControlSpellings(self.vocabulary)
        found = {p for text in self._own for p in self._spellings.scan(text) if isinstance(p, Control)}
        marks = {piece for text in replies.literals for piece in self._spellings.scan(text)}
        tagged = {mark for mark in marks if isinstance(mark, Control)}
        declared = isinstance(template, DeclaredTemplate)
        self._names_results = isinstance(template, DeclaredTemplate) and template.names_tool_replies
        self.controls: Collection[Control] = frozenset(found | tagged) if declared else self.vocabulary
        self.stops = _stops(template, self.vocabulary, self._spellings)
        self._compiled = CompiledDescription(self.replies, self.vocabulary, self.stops)
        self.defaults = SamplingDefaults(**{name: getattr(template, name) for name in SETTINGS})
        self.stated = SamplingDefaults(**template.stated())

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        require_assistant(reply_as)

        def write(given: GivenHistory) -> Iterator[Piece]:
            if isinstance(self.template, DeclaredTemplate):
                return self.begun(self._declared(self.template, given.chat, conversation.tools, reply_as))
            return self.begun(self._own_class(given.chat, conversation.tools))

        try:
            return mended(chat_messages(conversation.messages, history), write, objects=False)
        except RecursionError as error:
            raise RenderError("a tool is nested too deeply", code="template_limit") from error

    def _declared(
        self, template: DeclaredTemplate, chat: Sequence[ChatMessage], tools: Sequence[ToolSpec], reply_as: Role | None
    ) -> Iterator[Piece]:
        placeholders = Placeholders("".join(self._own))
        if template.capability == "completion":
            texts = "".join(placeholders.protect(calls_as_text(message).content) for message in chat)
            return placeholders.pieces(texts, ControlSpellings(()))
        writable = list(_writable(chat, template))
        if template.pairs_rounds:
            _require_turns(writable)
        messages = [self._dict(message, placeholders.protect) for message in writable]
        prompt = template.history(
            messages,
            tools=[
                {"name": tool.name, "description": tool.description}
                | ({"parameters": tool.parameters} if tool.parameters is not None else {})
                for tool in tools
            ],
            continues=bool(chat) and chat[-1].open,
            opens_reply=reply_as is not None,
            protect=placeholders.protect,
        )
        return placeholders.pieces(prompt, self._spellings)

    def _own_class(self, chat: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Iterator[Piece]:
        if tools:
            raise TemplateError("this template has no way to offer tools", code="no_tools", hint="Choose chatml.")
        texts = [text for message in chat for text in (message.content, message.name or "")]
        marked = MarkedText(self._spellings, [*texts, *self._own])
        messages = [self._dict(message, marked.protect) for message in _writable(chat, None)]
        prompt: object = self.template.messages2prompt(messages)
        if not isinstance(prompt, str):
            raise TemplateError(
                f"{type(self.template).__name__}.messages2prompt gave {type(prompt).__name__}, not a text",
                code="bad_template",
            )
        return iter(marked.pieces(prompt))

    def _dict(self, message: ChatMessage, protect: Callable[[str], str]) -> dict[str, Any]:
        """The message as templates take it, its texts protected; reasoning in its region if the model has one."""
        content = protect(message.content) if message.content or not message.calls else None
        if message.reasoning and self.replies.reasoning:
            region = self.replies.reasoning
            content = f"{region.open}{protect(message.reasoning)}{region.close}{content or ''}"
        entry: dict[str, Any] = {"role": message.role, "content": content}
        if message.name and (message.role != "tool" or self._names_results):
            entry["name"] = message.name
        if message.calls:
            entry["tool_calls"] = [
                {"name": protect(json.dumps(call.name, ensure_ascii=False)[1:-1]), "arguments": protect(call.arguments)}
                for call in message.calls
            ]
        return entry


def _anchored(replies: ReplyDescription, template: BaseTemplate) -> ReplyDescription:
    """The description with what a declared template writes before a reply, up to a mark that it opens there."""
    before = str(getattr(template, "assistant", ""))
    opened = replies.reasoning.open.strip() if replies.reasoning else ""
    return replies if replies.anchor else replace(replies, anchor=before.partition(opened)[0] if opened else before)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _strings(getattr(value, field.name))


def _stops(
    template: BaseTemplate, vocabulary: Collection[Control], spellings: ControlSpellings
) -> tuple[Control | str, ...]:
    """The stop words, as controls where the vocabulary has them; and the control that ends an assistant's message."""
    words = [Control(word) if Control(word) in vocabulary else word for word in template.stop_words or ()]
    ending = list(spellings.scan(str(getattr(template, "eoa", "")).strip()))[:1]
    ends = [piece for piece in ending if isinstance(piece, Control)]
    return tuple(dict.fromkeys([*words, *ends]))


def _writable(chat: Sequence[ChatMessage], template: DeclaredTemplate | None) -> Iterator[ChatMessage]:
    """Resolution X-07, and no text lost: what the template has no block for is written as the user's text."""
    knows_tools = template is not None and template.knows_tool_replies
    knows_system = template is None or template.knows_system
    knows_calls = template is not None and template.knows_calls
    lead = ""
    for message in chat:
        content = message.content
        if message.calls and not knows_calls:
            message = calls_as_text(message)
        elif message.role == "tool" and not knows_tools:
            message = result_as_text(message)
        elif message.role == "system" and not knows_system:
            lead += f"{content}\n\n"
            continue
        elif message.role == "user" and lead:
            message, lead = ChatMessage(role="user", content=lead + content), ""
        yield message


def _require_turns(chat: Sequence[ChatMessage]) -> None:
    """A template that pairs users and answers would drop what stands alone."""
    roles = [message.role for message in chat]
    turns = roles[1:] if roles[:1] == ["system"] else roles
    if any(role != ("user", "assistant")[i % 2] for i, role in enumerate(turns)):
        raise TemplateError(
            "this template can only write users and answers in turn", code="roles_not_in_turn", hint="Join neighbours."
        )


# The built-in templates as formats.

_THINK = Region(open="<think>\n", close="\n</think>\n\n")
_HERMES_CALL = CallForm(open="<tool_call>\n", close="\n</tool_call>", separator="\n", members=Members())
_PARAMETERS = Members(arguments="parameters")
_INTERNLM_CALL = CallForm(open="<|action_start|><|plugin|>\n", close="<|action_end|>", members=_PARAMETERS)

HERMES = ReplyDescription(calls=(_HERMES_CALL,))
QWEN = ReplyDescription(reasoning=_THINK, calls=(_HERMES_CALL,))
_INTERNLM = ReplyDescription(calls=(_INTERNLM_CALL,))
_INTERN_S1 = ReplyDescription(
    reasoning=Region(open="<think>\n", close="\n</think>\n"), calls=(replace(_INTERNLM_CALL, close="\n<|action_end|>"),)
)
_LLAMA = ReplyDescription(
    calls=(
        CallForm(open="<function=", head=(Slot(reads="name", after=">"),), close="</function>"),
        CallForm(open="<|python_tag|>", members=_PARAMETERS),
        CallForm(members=_PARAMETERS),
    )
)

REPLIES = {
    **dict.fromkeys(("chatml", "qwen2d5", "qwen2d5-vl", "qwq_preview"), HERMES),
    **dict.fromkeys(("qwen3", "qwq"), QWEN),
    **dict.fromkeys(("internlm2", "internlm3", "internvl2_5", "internvl-internlm2", "internvl2-internlm2"), _INTERNLM),
    **dict.fromkeys((f"internlm2-chat{size}" for size in ("", "-1_8b", "-7b", "-20b")), _INTERNLM),
    **dict.fromkeys(("intern-s1", "interns1"), _INTERN_S1),
    **dict.fromkeys(("llama3_1", "llama3_2"), _LLAMA),
    "deepseek-r1": ReplyDescription(reasoning=_THINK),
}
"""How the models of the built-in templates write their replies; the others reply with plain text."""


def replies_of(name: str, template: BaseTemplate) -> ReplyDescription:
    """How a template's model writes its replies: by its name, else as the built-in one that it derives from."""
    bases = (REPLIES[base.__name__] for base in type(template).__mro__ if base.__name__ in REPLIES)
    return REPLIES.get(name) or next(bases, PLAIN)


def template_format(
    name: str,
    controls: Collection[Control],
    *,
    templates: TemplateRegistry | None = None,
    replies: ReplyDescription | None = None,
) -> Format:
    """The template of that name as a format for a vocabulary with these controls. Raises `TemplateError`.

    ``replies`` None: as the models of that name, or of the built-in template that it derives from, write theirs.
    """
    registry = templates if templates is not None else builtin_templates()
    template = registry.get(name)()
    return TemplateFormat(
        name, template, controls, replies=replies if replies is not None else replies_of(name, template)
    )


PROGRAMS = {
    "deepseek-v3.2": ("deepseek-v3.2.jinja", ""),
    "deepseek-v32": ("deepseek-v3.2.jinja", ""),
    "deepseek-v4": ("deepseek-v4.jinja", "{%- set version = 4.0 -%}\n"),
    "deepseek-v4.1": ("deepseek-v4.jinja", "{%- set version = 4.1 -%}\n"),
    **{f"mistral-v{version}": ("mistral.jinja", f"{{%- set version = {version} -%}}\n") for version in (3, 7, 11, 13)},
}
"""Models that ship a program instead of a template: the file of ours that writes the same, and its first line."""


def program_of(tokenizer: Tokenizer) -> str | None:
    """The name among `PROGRAMS` of the model with this vocabulary; None for that of another.

    A ``tekken.json`` names the version of its prompts. The mark of DeepSeek's tags is one token, which vocabularies
    have as a text or as a control.
    """
    if (named := tokenizer.name.partition("/")[0].replace("tekken", "mistral", 1)) in PROGRAMS:
        return named
    mark, controls = "｜DSML｜", tokenizer.controls
    if Control(mark) not in controls and len(tokenizer.encode(mark)) != 1:
        return None
    if Control("<｜System｜>") in controls:
        return "deepseek-v4.1"
    return "deepseek-v4" if Control("<｜latest_reminder｜>") in controls else "deepseek-v3.2"


def program_format(
    name: str, controls: Collection[Control], *, replies: ReplyDescription | None = None, teaches: bool = True
) -> JinjaFormat:
    """The format of one of `PROGRAMS` for a vocabulary with these controls."""
    from .jinja import jinja_format

    file, first = PROGRAMS[name]
    source = first + files(__package__).joinpath(file).read_text("utf-8")
    return jinja_format(source, controls, name=name, replies=replies, teaches=teaches)


def register_templates(registry: FormatRegistry, templates: TemplateRegistry | None = None) -> None:
    """Fills ``registry`` with every template by name; ValueError for a name that is taken there."""
    named = templates if templates is not None else builtin_templates()
    for name in {*named.names, *PROGRAMS} - {"hf"}:
        factory = partial(program_format, name) if name in PROGRAMS else partial(template_format, name, templates=named)
        registry.register(name, factory)
