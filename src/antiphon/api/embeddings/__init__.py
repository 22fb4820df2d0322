"""Embeddings of texts."""
