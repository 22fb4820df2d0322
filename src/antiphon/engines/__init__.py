"""Ids in, ids out."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .engine import (
        SAMPLING,
        Embeddings,
        Engine,
        EngineEnd,
        EngineInfo,
        EngineProxy,
        GenerateOptions,
        Ranker,
        Ranking,
        Sampling,
        Step,
    )
    from .kind import EngineKinds, EngineSettings, ModelSpec, engine_kind, engine_kinds
    from .scripted import Scripted, ScriptedEngine
    from .turns import embed_in_turns, rank_in_turns
else:
    __getattr__ = exports(
        __name__,
        {
            "engine": (
                "Embeddings Engine EngineEnd EngineInfo EngineProxy GenerateOptions Ranker Ranking SAMPLING "
                "Sampling Step"
            ),
            "kind": "EngineKinds EngineSettings ModelSpec engine_kind engine_kinds",
            "scripted": "Scripted ScriptedEngine",
            "turns": "embed_in_turns rank_in_turns",
        },
    )

__all__ = [
    "SAMPLING",
    "Embeddings",
    "Engine",
    "EngineEnd",
    "EngineInfo",
    "EngineKinds",
    "EngineProxy",
    "EngineSettings",
    "GenerateOptions",
    "ModelSpec",
    "Ranker",
    "Ranking",
    "Sampling",
    "Scripted",
    "ScriptedEngine",
    "Step",
    "engine_kind",
    "engine_kinds",
    "embed_in_turns",
    "rank_in_turns",
]
