"""Ollama's API: a line of JSON an event, and the names of models with tags."""
