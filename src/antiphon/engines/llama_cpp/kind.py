"""The embedded engine as a configuration names it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from antiphon.engines.kind import ANY_TASK, DEFAULT_CONTEXT, EngineSettings, ModelSpec, Task
from antiphon.errors.extras import require

from .settings import DEFAULT_SLOTS, LlamaCppSettings, Pooling

if TYPE_CHECKING:
    from .engine import LlamaCppEngine


class LlamaCpp(EngineSettings, frozen=True, kw_only=True, tag="llama_cpp"):
    """llama.cpp inside, for a GGUF file. ``threads`` and ``share_cache`` None: what the table ``[engine]`` says.

    ``threads`` 0: chosen automatically. ``share_cache``: one owner's prompts may be found in the cache by another's.
    ``projector``: the GGUF file of the model's eyes (``mmproj-….gguf``), with which it sees images.
    """

    threads: int | None = None
    share_cache: bool | None = None
    projector: str = ""

    needs_file: ClassVar[bool] = True
    truncates: ClassVar[bool] = True
    tasks: ClassVar[frozenset[Task]] = ANY_TASK
    paths: ClassVar[frozenset[str]] = frozenset({"projector"})

    @property
    def sees(self) -> bool:
        return bool(self.projector)

    def memory(self, model: ModelSpec) -> int:
        from .model_file import ModelFile  # here and not above: every program reads the settings

        path = _path(model)
        return ModelFile(path, path.stat().st_size, model.metadata).needs(self.settings(model))

    def settings(self, model: ModelSpec) -> LlamaCppSettings:
        """How the engine runs the model; never with more context than the model was trained for."""
        context = model.context or DEFAULT_CONTEXT
        trained = model.metadata.get(f"{model.metadata.get('general.architecture')}.context_length")
        return LlamaCppSettings(
            model=_path(model),
            context=min(context, trained) if isinstance(trained, int) and trained > 0 else context,
            slots=model.slots or DEFAULT_SLOTS,
            threads=self.threads or model.threads,
            embeddings=model.task != "chat",
            pooling=Pooling.RANK if model.task == "rank" else Pooling.MEAN,
            share_cache=model.share_cache if self.share_cache is None else self.share_cache,
            projector=Path(self.projector) if self.projector and model.task == "chat" else None,
        )

    async def open(self, model: ModelSpec) -> LlamaCppEngine:
        require("xllamacpp", "local", "the embedded engine")
        # A configuration is read far more often than an engine is started, and this takes long to import.
        from .engine import LlamaCppEngine

        return await LlamaCppEngine.start(self.settings(model))


def _path(model: ModelSpec) -> Path:
    assert model.path is not None, "the catalog finds the file of an engine that needs one"
    return model.path
