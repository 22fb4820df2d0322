"""Anthropic's Messages: content blocks in and out, and a stream of named events."""
