"""Turns of OpenChatML."""
