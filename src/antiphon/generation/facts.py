"""What is known of a model before it answers, for those who choose one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .precedence import Layer, Setting, settings, with_defaults


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's file says of itself. ``values`` are its numbers and words, but for those of its vocabulary.

    ``parameters`` is how many the model has; ``digest`` is the SHA-256 of the file, in hex, where the catalog has it.
    """

    architecture: str = ""
    quantization: str = ""
    parameters: int | None = None
    digest: str | None = None
    licence: str = ""
    values: Mapping[str, int | float | bool | str] = msgspec.field(default_factory=dict)


class Capability(msgspec.Struct, frozen=True):
    """A sentence on what a model can do here; ``lacking``: something cannot be done, and ``hint`` says what helps."""

    says: str
    lacking: bool = False
    hint: str = ""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model before it answers, by subject; None: it does not apply, or nothing is known of it."""

    vocabulary: Capability | None = None
    template: Capability | None = None
    tools: Capability | None = None
    thinking: Capability | None = None
    sampling: Capability | None = None
    context: Capability | None = None
    memory: Capability | None = None
    licence: Capability | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``context``: tokens that prompt and answer may have together; None: not known before its server answers.

    ``trained_context`` are the positions that it was trained on, ``size`` is in bytes; None: its files do not say.
    ``chat_template`` and ``file`` are its files'; None where they have none, and of models without files here.
    ``format`` is what it speaks and ``format_origin`` why, for people; None of one that embeds. ``layers`` are who has
    an opinion about its settings.
    """

    task: str
    context: int | None
    vocabulary: int
    layers: tuple[Layer, ...] = ()
    max_output_tokens: int | None = None
    format: str | None = None
    format_origin: str = ""
    tools: bool = False
    reasoning: bool = False
    infill: bool = False
    trained_context: int | None = None
    embedding: int | None = None
    size: int | None = None
    chat_template: str | None = None
    file: FileFacts | None = None
    capabilities: Capabilities = Capabilities()

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What counts for a request that says nothing, and who says so."""
        return settings(with_defaults(self.layers))

    @property
    def default_output_tokens(self) -> int | None:
        """Tokens of an answer whose request limits none; None: what the context holds."""
        given = next((int(one.value) for one in self.settings if one.name == "max_tokens"), 0)
        limits = [limit for limit in (given, self.max_output_tokens) if limit]
        return min(limits, default=None)
