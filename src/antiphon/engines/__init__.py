"""Ids in, ids out."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .engine import SAMPLING as SAMPLING
    from .engine import Embeddings as Embeddings
    from .engine import Engine as Engine
    from .engine import EngineEnd as EngineEnd
    from .engine import EngineInfo as EngineInfo
    from .engine import EngineProxy as EngineProxy
    from .engine import GenerateOptions as GenerateOptions
    from .engine import ImageCounter as ImageCounter
    from .engine import PlacedImage as PlacedImage
    from .engine import Ranker as Ranker
    from .engine import Ranking as Ranking
    from .engine import Sampling as Sampling
    from .engine import Step as Step
    from .kind import EngineSettings as EngineSettings
    from .kind import ModelSpec as ModelSpec
    from .registry import EngineKinds as EngineKinds
    from .registry import engine_kind as engine_kind
    from .registry import engine_kinds as engine_kinds
    from .scripted import Scripted as Scripted
    from .scripted import ScriptedEngine as ScriptedEngine
    from .turns import embed_in_turns as embed_in_turns
    from .turns import rank_in_turns as rank_in_turns
else:
    __getattr__ = exports(
        __name__,
        {
            "engine": (
                "Embeddings Engine EngineEnd EngineInfo EngineProxy GenerateOptions ImageCounter PlacedImage Ranker "
                "Ranking SAMPLING Sampling Step"
            ),
            "kind": "EngineSettings ModelSpec",
            "registry": "EngineKinds engine_kind engine_kinds",
            "scripted": "Scripted ScriptedEngine",
            "turns": "embed_in_turns rank_in_turns",
        },
    )
