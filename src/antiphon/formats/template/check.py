"""What can be said of a chat template before it is trusted: what is understood, what is lost, what changes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from antiphon.conversation import Conversation, Role
from antiphon.errors import AntiphonError
from antiphon.formats.replies import PLAIN
from antiphon.formats.replies.describe import Found
from antiphon.tokens import Piece, Tokenizer, spell

from .against_harmony import PromptCompared, compared
from .constructs import UnsafeConstruct, unsafe_constructs
from .in_harmony import writes_harmony
from .jinja import JinjaFormat
from .stability import PromptChange, prompt_changes, sample_prompts

_MOST_ARGUMENTS = 16


class TemplateCheck(msgspec.Struct, frozen=True, kw_only=True):
    """``found``: what is understood of replies, proven at every cut. ``arguments``: what only a request can give.

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
        """What would be lost, a sentence each; empty where nothing is."""
        shapes = [f"{shape} is not read back as it is written" for shape in self.found.proof.failures]
        raw = ["nothing of the model's replies is understood"] if self.found.origin == "raw" else []
        unsafe = [f"line {each.line} has {each.what}, which is refused" for each in self.unsafe]
        question = [f"a question alone is refused: {self.refused['question']}"] if "question" in self.refused else []
        return (*shapes, *raw, *unsafe, *question)


def check_template(format: JinjaFormat, tokenizer: Tokenizer | None = None) -> TemplateCheck:
    """Tries a template; takes seconds. ``tokenizer``: of the model, to say at which token prompts change."""
    found = _replies(format)
    conversations = dict(sample_prompts())
    prompts: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, conversation in conversations.items():
        try:
            prompts[name] = spell(list(format.render(conversation)))
        except AntiphonError as error:
            refused[name] = error.message

    def render(conversation: Conversation, opens_reply: bool) -> list[Piece]:
        return list(format.render(conversation, reply_as=Role.ASSISTANT if opens_reply else None))

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


def _replies(format: JinjaFormat) -> Found:
    """What is understood of replies; those to a template of Harmony are read as Harmony, unless somebody says how."""
    said = format.found.origin in ("configured", "response_template")
    if writes_harmony(format.source) and not said:
        return Found(description=PLAIN, origin="harmony")
    return format.describe(cuts="every")
