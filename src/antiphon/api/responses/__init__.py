"""Responses and conversations while they are made, and as they are kept."""
