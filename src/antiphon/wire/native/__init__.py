"""Our own: text and ids, conversations and prompts, replies and messages."""
