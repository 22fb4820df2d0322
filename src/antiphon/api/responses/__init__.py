"""Responses and conversations: how they are requested, made and stored."""
