"""Antiphon: the conversation layer for language models."""

__version__ = "0.1.0"
