"""Judges a chat template before it is trusted: which replies are understood, what is lost, what changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
from jinja2 import nodes

from antiphon.conversation import Conversation, Role
from antiphon.errors import AntiphonError
from antiphon.formats.format import strictly
from antiphon.formats.harmony import Harmony
from antiphon.formats.replies import PLAIN
from antiphon.formats.replies.describe import Found
from antiphon.formats.replies.proof import Cuts
from antiphon.tokens import Piece, Tokenizer, spell

from .in_harmony import writes_harmony
from .jinja import JinjaFormat
from .jinja_values import DAYS
from .sandbox import TemplateEnvironment
from .stability import PromptChange, prompt_changes, sample_prompts

# A chat template of Harmony beside the renderer: where their prompts are the same, and where they first differ.

_SHOWN = 48


class PromptCompared(msgspec.Struct, frozen=True, kw_only=True):
    """The ``prompt`` of that name. ``at``: the character at which Harmony writes it otherwise; None where nowhere.

    ``template`` and ``harmony``: how the two go on from there.
    """

    prompt: str
    at: int | None = None
    template: str = ""
    harmony: str = ""

    @property
    def same(self) -> bool:
        return self.at is None


def compared(prompts: Mapping[str, str], conversations: Mapping[str, Conversation]) -> Iterator[PromptCompared]:
    """The template's ``prompts`` beside Harmony's of the conversations of the same names."""
    for name, written in prompts.items():
        expected = spell(list(Harmony().render(conversations[name])))
        at = next((i for i, (a, b) in enumerate(zip(written, expected, strict=False)) if a != b), None)
        if at is None and len(written) != len(expected):
            at = min(len(written), len(expected))
        if at is None:
            yield PromptCompared(prompt=name)
        else:
            end = at + _SHOWN
            yield PromptCompared(prompt=name, at=at, template=written[at:end], harmony=expected[at:end])


# What a template's text has that its sandbox refuses, found without running it.


class UnsafeConstruct(msgspec.Struct, frozen=True):
    """A construct that fails where a rendering comes to it: an attribute of Python's insides, another file."""

    line: int
    what: str


def unsafe_constructs(source: str) -> tuple[UnsafeConstruct, ...]:
    """Finds the unsafe constructs of a template that compiles, in the order of its lines."""
    found: list[UnsafeConstruct] = []
    for node in TemplateEnvironment().parse(source).find_all(nodes.Node):
        match node:
            case nodes.Getattr(attr=str(name)) | nodes.Getitem(arg=nodes.Const(value=str(name))):
                if name.startswith("_"):
                    found.append(UnsafeConstruct(node.lineno, f"the attribute {name!r}"))
            case nodes.Include() | nodes.Import() | nodes.FromImport() | nodes.Extends():
                found.append(UnsafeConstruct(node.lineno, f"{type(node).__name__.lower()} of another template"))
    return tuple(sorted(found, key=lambda each: (each.line, each.what)))


_MOST_ARGUMENTS = 16


class TemplateCheck(msgspec.Struct, frozen=True, kw_only=True):
    """``found``: what is understood of replies, proven however cut. ``arguments``: what only a request can give.

    ``prompts``: what the template writes, by name. ``refused``: its own words where it writes nothing. ``harmony``: of
    a template of Harmony, each prompt beside the one that a model with Harmony's controls is given.
    """

    name: str
    found: Found
    variables: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    unsafe: tuple[UnsafeConstruct, ...] = ()
    changes: tuple[PromptChange, ...] = ()
    prompts: Mapping[str, str] = msgspec.field(default_factory=dict)
    refused: Mapping[str, str] = msgspec.field(default_factory=dict)
    harmony: tuple[PromptCompared, ...] = ()

    @property
    def lost(self) -> tuple[str, ...]:
        """The losses, a sentence each; empty without any."""
        shapes = [f"{shape} is not read back as it is written" for shape in self.found.proof.failures]
        raw = ["nothing of the model's replies is understood"] if self.found.origin == "raw" else []
        shown = ["calls as the template shows them to the model are not read"] if self.found.evidence.unread else []
        unsafe = [f"line {each.line} has {each.what}, which is refused" for each in self.unsafe]
        question = [f"a question alone is refused: {self.refused['question']}"] if "question" in self.refused else []
        return (*shapes, *raw, *shown, *unsafe, *question)


def check_template(format: JinjaFormat, tokenizer: Tokenizer | None = None, cuts: Cuts = "every") -> TemplateCheck:
    """Tries a template; takes seconds, or one at ``many`` cuts of a reply.

    ``tokenizer``: of the model, to say at which token prompts change.
    """
    configured = format.found.origin in ("configured", "response_template")
    if writes_harmony(format.source) and not configured:
        found = Found(description=PLAIN, origin="harmony")
    else:
        found = format.describe(cuts)
    conversations = {name: _on_day(talk, format) for name, talk in sample_prompts()}
    prompts: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, conversation in conversations.items():
        try:
            prompts[name] = spell(list(strictly(format.render(conversation))))
        except AntiphonError as error:
            refused[name] = error.message

    def render(conversation: Conversation, opens_reply: bool) -> list[Piece]:
        talk = _on_day(conversation, format)
        return list(strictly(format.render(talk, reply_as=Role.ASSISTANT if opens_reply else None)))

    arguments = tuple(sorted(format.arguments))
    return TemplateCheck(
        name=format.name,
        found=found,
        variables=tuple(sorted(format.variables)),
        arguments=arguments,
        unsafe=unsafe_constructs(format.source),
        changes=prompt_changes(render, found.description, arguments[:_MOST_ARGUMENTS], tokenizer),
        prompts=prompts,
        refused=refused,
        harmony=tuple(compared(prompts, conversations)) if found.origin == "harmony" else (),
    )


def _on_day(conversation: Conversation, format: JinjaFormat) -> Conversation:
    """The conversation on a day that the template knows; the other one in its place."""
    settings = conversation.settings
    if format.capabilities.day == DAYS[0] or settings.current_date is None:
        return conversation
    return replace(conversation, settings=replace(settings, current_date=DAYS[settings.current_date == DAYS[0]]))
