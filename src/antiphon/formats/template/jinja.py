"""The model's own Jinja chat template as a `Format`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.conversation import Conversation, OpaquePart, ReasoningEffort, Role, Settings, TextPart, definition
from antiphon.errors import RenderError, TemplateError
from antiphon.formats import NO_OPINION, HistoryPolicy
from antiphon.formats.replies import CompiledDescription, ReplyDescription
from antiphon.formats.replies.describe import DescriptionCache, Found, describe, trained_calls
from antiphon.formats.replies.probe import SWITCHES
from antiphon.formats.replies.proof import Cuts
from antiphon.formats.replies.reply_format import ReplyFormat, require_assistant
from antiphon.tokens import Control, Piece

from .budget import Limits
from .chat import ChatMessage, chat_messages
from .history import GivenHistory, mended, with_arguments
from .jinja_values import chat_texts, fitted, message_value, protected, render_variables, texts_of
from .sandbox import CompiledTemplate
from .taught import taught_chat, teach_tool_calls
from .trials import TemplateProbe, Trials, find_capabilities
from .user_text import ControlSpellings, MarkedText, aligned, unused

_FOUND = DescriptionCache()
"""Descriptions of what templates write: a function of their text that costs some work."""
RESERVED = frozenset(
    ("messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "strftime_now",
     "raise_exception", "chat_template", "tokenize", "range", "namespace", "dict")
)  # fmt: skip
"""Names that a request's template arguments may not take."""
_POLICIES = {HistoryPolicy.GUIDE: HistoryPolicy.KEEP_ALL, HistoryPolicy.REFERENCE: HistoryPolicy.KEEP_ALL}
"""A-H03: a model's own template is given all reasoning, and drops what the model was trained to see dropped."""


class TemplateParts(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `jinja_format`, as a value that another process can be sent; ``controls`` by their spellings."""

    source: str
    name: str = "template"
    controls: tuple[str, ...] = ()
    special_tokens: Mapping[str, str] = {}
    replies: ReplyDescription | None = None
    response_template: ReplyDescription | None = None
    teaches: bool = True


class JinjaCache:
    """Compiled templates by the hash of their source, least recently used out first: compiling takes milliseconds."""

    def __init__(self, capacity: int = 32, limits: Limits | None = None) -> None:
        self._capacity = capacity
        self._limits = limits or Limits()
        self._compiled: dict[str, CompiledTemplate] = {}

    def compile(self, source: str) -> CompiledTemplate:
        """Raises `TemplateError` with the line where the source is no template."""
        key = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
        compiled = self._compiled.pop(key, None) or CompiledTemplate(source, self._limits)
        self._compiled[key] = compiled
        while len(self._compiled) > self._capacity:
            self._compiled.pop(next(iter(self._compiled)), None)
        return compiled


class JinjaFormat(ReplyFormat):
    """A compiled template, the controls of a vocabulary, and what is read off the template itself, once."""

    defaults = NO_OPINION

    def __init__(
        self,
        template: CompiledTemplate,
        controls: Collection[Control],
        *,
        name: str = "jinja",
        special_tokens: Mapping[str, str] | None = None,
        replies: ReplyDescription | None = None,
        response_template: ReplyDescription | None = None,
        teaches: bool = True,
    ) -> None:
        self.name = name
        self.controls = self.vocabulary = frozenset(controls)
        self._template = template
        self._special = dict(special_tokens or {})
        self._given = replies, response_template
        self._teaches = teaches
        self._spellings = ControlSpellings(self.controls)
        self.capabilities = find_capabilities(template, self._special)
        special = map(str, sorted(self._special.items()))
        key = "\0".join((template.source, *special, *map(repr, (*self._given, teaches))))
        self.found = _FOUND.get(key, self.controls, self.describe)
        self.replies = self.found.description
        self.habits = self.found.proof.habits
        self.stops = self._find_stops()
        self._compiled = CompiledDescription(self.replies, self.vocabulary, self.stops)
        if self.found.taught:
            untaught = replace(self.replies, calls=())
            self._without_tools = CompiledDescription(untaught, self.vocabulary, self.stops)

    def render(
        self,
        conversation: Conversation,
        *,
        reply_as: Role | None = Role.ASSISTANT,
        history: HistoryPolicy = HistoryPolicy.GUIDE,
    ) -> Iterator[Piece]:
        require_assistant(reply_as)
        images = bool(self.capabilities.image_type)
        chat = chat_messages(conversation.messages, _POLICIES.get(history, history), images=images)
        offered = [definition(tool) for tool in conversation.tools]
        if self.found.taught:
            chat, offered = taught_chat(chat, offered), []
        kwargs = self._checked(conversation.settings)

        def write(given: GivenHistory) -> Iterator[Piece]:
            texts = [
                *chat_texts(given.chat),
                *given.placed.values(),
                *texts_of(offered),
                *texts_of(kwargs),
                *texts_of(conversation.extra.get("documents")),
            ]
            return self.begun(
                self._pieces(given, offered, kwargs, conversation, texts, opens_reply=reply_as is not None)
            )

        try:
            return mended(fitted(chat, self.capabilities), write)
        except RecursionError as error:
            raise RenderError("a tool or an argument is nested too deeply", code="template_limit") from error

    @property
    def arguments_as_text(self) -> bool:
        """Whether the template is given the arguments of earlier calls as the text that the model wrote."""
        return self.capabilities.arguments_as_text

    @property
    def source(self) -> str:
        """The template's text."""
        return self._template.source

    @property
    def parts(self) -> TemplateParts:
        """The arguments that the format was made of, for another process to make it again."""
        replies, response_template = self._given
        return TemplateParts(
            source=self.source, name=self.name, controls=tuple(map(str, self.controls)), special_tokens=self._special,
            replies=replies, response_template=response_template, teaches=self._teaches,
        )  # fmt: skip

    @property
    def variables(self) -> frozenset[str]:
        """Every variable that the template reads."""
        return self._template.variables

    @property
    def arguments(self) -> frozenset[str]:
        """The variables of the template that only the request can give."""
        return self._template.variables - RESERVED - self._special.keys()

    @cached_property
    def _arguments_slot(self) -> str:
        return Trials(self._template, self._special).arguments_slot(self.capabilities)

    def _checked(self, settings: Settings) -> dict[str, Any]:
        """A request's template arguments."""
        free = self.arguments if settings.template_kwargs else frozenset()
        for key in settings.template_kwargs:
            if key not in free:
                raise RenderError(
                    f"{key[:64]!r} is no argument of this model's template",
                    code="bad_template_kwargs",
                    hint=f"It takes {', '.join(sorted(free)) or 'none'}.",
                )
        return settings.template_kwargs

    def _pieces(
        self,
        given: GivenHistory,
        offered: list[dict[str, Any]],
        kwargs: Mapping[str, Any],
        conversation: Conversation,
        texts: Sequence[str],
        *,
        opens_reply: bool,
    ) -> list[Piece]:
        """The pieces; rendered anew where a text spells a control or its beginning, and the safer reading taken.

        A template that cuts texts apart may join such a beginning to another text's end. Marks that break every
        beginning prevent that; they are taken unless the template looked at them and wrote something else. Marks also
        stand between a text and a template that would trim it: then the blanks are those of a rendering without marks.
        """
        size = sum(map(len, texts))

        def rendered(marked_text: MarkedText) -> tuple[str, list[Piece]]:
            text = self._text(given, offered, kwargs, conversation, marked_text, opens_reply=opens_reply, size=size)
            return marked_text.plain(text), marked_text.pieces(text)

        marked_text = MarkedText(self._spellings, texts)
        plain, pieces = rendered(marked_text)
        if any(self._spellings.suspicious(text) for text in texts):
            again, safer = rendered(MarkedText(self._spellings, texts, thorough=True))
            if again == plain or _controls(safer) < _controls(pieces):
                plain, pieces = again, safer
        elif not marked_text.marks:
            return pieces
        exact, _ = rendered(MarkedText(ControlSpellings(()), texts))
        return pieces if exact == plain else aligned(pieces, exact) or pieces

    def _text(
        self,
        given: GivenHistory,
        offered: list[dict[str, Any]],
        kwargs: Mapping[str, Any],
        conversation: Conversation,
        marked_text: MarkedText,
        *,
        opens_reply: bool,
        size: int,
    ) -> str:
        chat = given.chat
        continues = bool(chat) and chat[-1].open
        cut = marked_text.cut if continues else ""
        tails = [*[""] * (len(chat) - 1), cut]
        messages = [
            message_value(message, self.capabilities, marked_text.protect, tail=tail)
            for message, tail in zip(chat, tails, strict=False)
        ]
        variables = protected(dict(kwargs), marked_text.protect) | render_variables(
            self._special,
            messages,
            protected(offered, marked_text.protect),
            self.capabilities,
            opens_reply=opens_reply and not continues,
            today=conversation.settings.current_date,
            documents=protected(conversation.extra.get("documents"), marked_text.protect),
        )
        variables["continue_final_message"] = continues
        if conversation.settings.reasoning_effort is not None:
            variables.setdefault("reasoning_effort", conversation.settings.reasoning_effort.value)
        text = marked_text.unescaped(self._template.render(variables, size=size))
        if given.placed:
            text = with_arguments(text, self._arguments_slot, given.placed, marked_text.protect)
        if not continues:
            return text
        end = text.rfind(cut)
        if end < 0:
            raise TemplateError(
                "the chat template does not write the last message, so it cannot be continued", code="cannot_continue"
            )
        return text[:end]

    @cached_property
    def efforts(self) -> frozenset[str]:
        """The efforts that the template has in quotes, or writes otherwise than a word that it cannot know."""
        probe = TemplateProbe(self._template, self._special, self.capabilities)
        written = partial(probe, [{"role": "user", "content": "?"}], tools=(), generation=True)
        known = {effort for effort in ReasoningEffort if f"'{effort}'" in self.source or f'"{effort}"' in self.source}
        for switches in ({}, dict.fromkeys(SWITCHES, True)):
            unknown = written(kwargs={**switches, "reasoning_effort": "zqeffort"})
            others = (effort for effort in ReasoningEffort if effort not in known)
            known |= {one for one in others if written(kwargs={**switches, "reasoning_effort": one.value}) != unknown}
        return frozenset(known)

    @cached_property
    def image_mark(self) -> tuple[Control, ...]:
        """The controls that the template writes for an image, beside those of a text alone."""
        if not self.capabilities.image_type:
            return ()
        parts = (OpaquePart("image", None), TextPart("?"))
        chats = ([ChatMessage(role="user", content="?", parts=given)] for given in ((), parts))
        texts = (Trials(self._template, self._special).text(chat, self.capabilities) for chat in chats)
        plain, pictured = ([one for one in self._spellings.scan(text) if isinstance(one, Control)] for text in texts)
        same = next((i for i, pair in enumerate(zip(plain, pictured, strict=False)) if pair[0] != pair[1]), len(plain))
        return tuple(pictured[same : same + len(pictured) - len(plain)])

    def describe(self, cuts: Cuts = "sampled") -> Found:
        """How the model writes its replies, found anew: as declared, else as the template does."""
        configured, response_template = self._given
        found = describe(
            TemplateProbe(self._template, self._special, self.capabilities),
            self._template.source,
            controls=self.controls,
            variables=self._template.variables,
            configured=configured,
            response_template=response_template,
            cuts=cuts,
        )
        own = found.description.calls or found.origin in ("configured", "response_template")
        if own or not self._teaches:
            return found
        if not Trials(self._template, self._special).says_tools(self.capabilities):
            found = teach_tool_calls(found)
        return trained_calls(found, [control.spelling for control in self.controls])

    def _find_stops(self) -> tuple[Control | str, ...]:
        """The ends of a reply, and the model's end token; none that closes a region too, which its reader knows."""
        end = Control(self._special.get("eos_token", ""))
        ends = [] if self.replies.ends else self._control_behind_an_answer()
        known = [*map(str, ends), *([end.spelling] if end in self.controls else [])]
        stops = CompiledDescription(self.replies, self.controls, known).stops
        return tuple(Control(stop) if Control(stop) in self.controls else stop for stop in stops)

    def _control_behind_an_answer(self) -> list[Control]:
        answer = unused(1)[0]
        chat = [ChatMessage(role="user", content="U"), ChatMessage(role="assistant", content=answer)]
        text = Trials(self._template, self._special).text(chat, self.capabilities)
        after = self._spellings.scan(text.rpartition(answer)[2]) if answer in text else ()
        return [piece for piece in after if isinstance(piece, Control)][:1]


def jinja_format(
    source: str,
    controls: Collection[Control],
    special_tokens: Mapping[str, str] | None = None,
    *,
    name: str = "jinja",
    replies: ReplyDescription | None = None,
    response_template: ReplyDescription | None = None,
    cache: JinjaCache | None = None,
    teaches: bool = True,
) -> JinjaFormat:
    """A model's ``chat_template`` as a format for a vocabulary with these controls.

    ``special_tokens`` by the names that templates use (``bos_token``, ``eos_token`` …). ``replies``: how
    the model writes its replies, as an operator says; ``response_template``: as its files say; neither: as the template
    does. ``teaches``: prompts teach a form of tool calls where the template has none. Raises `TemplateError` where the
    source is no template.
    """
    compiled = (cache or JinjaCache()).compile(source)
    return JinjaFormat(
        compiled,
        controls,
        name=name,
        special_tokens=special_tokens,
        replies=replies,
        response_template=response_template,
        teaches=teaches,
    )


def _controls(pieces: Sequence[Piece]) -> int:
    return sum(isinstance(piece, Control) for piece in pieces)
