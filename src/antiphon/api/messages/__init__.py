"""Anthropic's Messages: how one is made."""
