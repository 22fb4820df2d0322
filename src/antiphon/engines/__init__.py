"""Ids in, ids out."""

from .engine import Embeddings, Engine, EngineEnd, EngineInfo, Sampling, Step
from .scripted import ScriptedEngine

__all__ = ["Embeddings", "Engine", "EngineEnd", "EngineInfo", "Sampling", "ScriptedEngine", "Step"]
