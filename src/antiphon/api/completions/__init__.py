"""Completions of texts."""
