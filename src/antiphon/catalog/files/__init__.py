"""The files of models: where they come from, where they are, and what they say of their text."""

from .store import InstalledModel, ModelStore

__all__ = ["InstalledModel", "ModelStore"]
