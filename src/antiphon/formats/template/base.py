"""The class that every chat template derives from (LMDeploy's `BaseTemplate`: LMD-12 … LMD-34)."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from antiphon.errors import TemplateError

# A declared template's data: marker strings, and a rule for how they are joined (docs/templates.md).


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The marker strings, by LMDeploy's names: ``user`` U ``eoh`` ``assistant`` A ``eoa`` ``separator``.

    ``meta_instruction`` None: no system block where the conversation has no system text; "": an empty one.
    """

    system: str = ""
    meta_instruction: str | None = ""
    eosys: str = ""
    user: str = ""
    eoh: str = ""
    assistant: str = ""
    eoa: str = ""
    separator: str = ""
    tool: str = ""
    eotool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """How results of tools are written; neighbours share one ``open`` and ``close``.

    ``named``: the marker of a result that names its tool, where it is another than ``each``. ``role``: what a message
    with a result may be called, beside tool.
    """

    open: str = ""
    each: str
    end: str
    close: str = ""
    named: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How an assistant's tool calls are written: ``each`` has places for a call's {name} and its {arguments}, as JSON.

    ``eoa``: what ends a message with calls (None: what ends any answer). ``marks``: texts by which an answer is such a
    message too. ``dropped``: `messages2prompt` leaves calls out, as LMDeploy's does; a rendering for a model has them.
    """

    each: str
    between: str = ""
    eoa: str | None = None
    marks: tuple[str, ...] = ()
    dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """How the tools are made known at the beginning: ``open``, each of them, ``close``.

    ``each`` has places for a tool's {name}, its {description}, and for the {tool} as JSON, in lines where ``indent`` is
    above 0. ``place``: after the system text or before it (then in every system text), or apart in a system block of
    its own. ``name``: the name in that block's marker. ``framed``: the blocks ``tool`` and ``eotool`` stand around it.
    """

    open: str = ""
    each: str = "{tool}"
    between: str = ""
    close: str = ""
    indent: int = 0
    place: Literal["after", "before", "apart"] = "after"
    name: str = ""
    framed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Infilling:
    """CodeLlama's fill-in-the-middle: ``mark`` in the user's text marks where text is to be filled in."""

    mark: str
    prefix_first: str
    suffix_first: str
    stop_words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A template's departures from the common rule.

    ``start``: before a first turn. ``resume``: before a follow-up turn (None: the separator). ``cue``: after the last
    assistant marker of a history; ``cue_after_prefix``: even after an open answer. ``preface``: before the default
    system text of a history. ``meta`` always: the default system text stays although the history has one.
    ``prefill``: what a last assistant message becomes: an open answer (``strip``: where it has an end to strip;
    ``open``: always), or a whole one after which a new one is opened (``reopen``). ``clip``: the last character is
    dropped, of the assistant ``marker`` only, or of whatever ends the ``prompt``. ``reading``: message by message, or
    paired in rounds (of which some are ``numbered``). ``system`` dropped: a system text is left out. ``alone``: blocks
    of a single user text; ``strips``: it loses the blanks around it. ``names``: the name in a named message's marker.
    """

    start: str = ""
    resume: str | None = None
    cue: str = ""
    cue_after_prefix: bool = False
    preface: str = ""
    meta: Literal["default", "always"] = "default"
    prefill: Literal["strip", "open", "reopen"] = "strip"
    clip: Literal["none", "marker", "prompt"] = "none"
    reading: Literal["sequence", "rounds", "numbered", "jinja"] = "sequence"
    system: Literal["written", "dropped"] = "written"
    alone: dict[str, str] = field(default_factory=dict)
    strips: bool = False
    names: dict[str, str] = field(default_factory=dict)
    replies: Replies | None = None
    calls: Calls | None = None
    offers: Offers | None = None
    infilling: Infilling | None = None


SETTINGS = ("session_len", "top_p", "top_k", "temperature", "repetition_penalty")
"""The generation settings of a template that are defaults of its model."""

ChatDict = Mapping[str, Any]
"""One message in the form of the OpenAI API: ``role``, ``content``; where there are some ``name``, ``tool_calls``."""


class BaseTemplate:
    """A chat template and the generation settings that belong to the model (LMD-03).

    A class of one's own overrides `decorate_prompt`, and `messages2prompt` where its history needs more than the
    rounds of `decorate_prompt` one after the other. Lengths are in tokens.
    """

    def __init__(
        self,
        session_len: int = 2048,
        top_p: float = 0.8,
        top_k: int | None = None,
        temperature: float = 0.8,
        repetition_penalty: float = 1.0,
        capability: str = "chat",
        stop_words: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.session_len = session_len
        self.top_p = top_p
        self.top_k = top_k
        self.temperature = temperature
        self.repetition_penalty = repetition_penalty
        self.capability = capability
        self.stop_words = stop_words

    def stated(self) -> dict[str, Any]:
        """The settings that the template's author chose: those that are not what every template begins with."""
        usual = BaseTemplate()
        return {name: getattr(self, name) for name in SETTINGS if getattr(self, name) != getattr(usual, name)}

    def get_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        """The decorated prompt; as it is where the model can only continue text (LMD-20 … LMD-22)."""
        if self.capability == "completion":
            return prompt
        return self.decorate_prompt(prompt, sequence_start)

    def decorate_prompt(self, prompt: str, sequence_start: bool = True) -> str:
        """The user's text as the model was taught it; ``sequence_start``: this is the first round (LMD-23, LMD-24)."""
        return prompt

    def messages2prompt(self, messages: str | Sequence[ChatDict], sequence_start: bool = True) -> str:
        """The prompt of a whole chat history, or of one user text (LMD-29 … LMD-31).

        Without a rule of its own a template writes its rounds one after the other: `decorate_prompt` of each user text,
        then the answer (LMD-25). A leading system text takes the place of ``meta_instruction`` (resolution X-09).
        """
        if isinstance(messages, str):
            return self.get_prompt(messages, sequence_start)
        if self.capability == "completion":
            return "".join(content_of(message) for message in messages)
        template, first, prompt = self, sequence_start, ""
        pending = ""
        for message in messages:
            content = content_of(message)
            match role_of(message):
                case "system" if first and hasattr(self, "meta_instruction"):
                    template = copy.copy(self)
                    template.__dict__["meta_instruction"] = content
                case "system":
                    pending += f"{content}\n\n"
                case "assistant":
                    prompt += content
                case _:
                    prompt += (template if first else self).decorate_prompt(pending + content, first)
                    first, pending = False, ""
        return prompt


def role_of(message: ChatDict, *, extra: Collection[str] = ()) -> str:
    """The message's role; anything but a word is an error (resolution X-31: looked up, never evaluated)."""
    role = message.get("role")
    if not isinstance(role, str) or role not in ("system", "user", "assistant", "tool", *extra):
        raise TemplateError(
            f"unknown role {role!r}", code="unknown_role", hint="A template knows system, user, assistant and tool."
        )
    return role


def content_of(message: ChatDict) -> str:
    """The message's text; LMDeploy reads the first part of a list, we join them all."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    raise TemplateError(f"a message's content must be text, not {type(content).__name__}", code="invalid_content")
