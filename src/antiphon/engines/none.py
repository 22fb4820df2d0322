"""No engine: a vocabulary and a template by themselves, for servers that render and read what others sample."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import ClassVar

from antiphon.conversation import TokenLogprob
from antiphon.errors import UnsupportedError
from antiphon.tenancy import NOBODY, Tenant

from .engine import SAMPLING, Embeddings, EngineInfo, PlacedImage, Sampling, Step
from .kind import ANY_TASK, DEFAULT_CONTEXT, EngineSettings, ModelSpec, Task

SLOTS = 64
"""As many choices as other engines make at once: a prompt may be rendered for any of them."""
ALTERNATIVES = 20


class NoEngine(EngineSettings, frozen=True, kw_only=True, tag="none"):
    """A model that is rendered for and read, and not run here."""

    needs_tokenizer: ClassVar[bool] = True
    truncates: ClassVar[bool] = True
    tasks: ClassVar[frozenset[Task]] = ANY_TASK

    async def open(self, model: ModelSpec) -> AbsentEngine:
        return AbsentEngine(model.context or DEFAULT_CONTEXT, model.end_ids)


class AbsentEngine:
    """Takes every setting, because another engine may honour it, and refuses to work.

    Errors: `UnsupportedError` (``no_engine``) for all that an engine does.
    """

    def __init__(self, context: int, end_ids: frozenset[int] = frozenset()) -> None:
        self._info = EngineInfo(
            name="none",
            context=context,
            slots=SLOTS,
            honours=SAMPLING | {"images"},
            end_ids=end_ids,
            grammar=True,
            logprobs=ALTERNATIVES,
            scores=True,
        )

    @property
    def info(self) -> EngineInfo:
        return self._info

    def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        tenant: Tenant = NOBODY,
        images: Sequence[PlacedImage] = (),
    ) -> AsyncGenerator[Step, None]:
        raise _absent("generates nothing")

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        raise _absent("scores no prompts")

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        raise _absent("makes no embeddings")

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> object:
        raise _absent("ranks no documents")

    async def tokenize(self, text: str) -> list[int] | None:
        return None

    async def aclose(self) -> None:
        return None


def _absent(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"This model has no engine here, and {what}.",
        code="no_engine",
        hint="It can be rendered for, and its replies can be parsed: sample them at an engine of your own.",
    )
