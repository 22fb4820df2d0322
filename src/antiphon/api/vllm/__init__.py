"""vLLM's routes around an engine: prompts as requests of ids, ids in and ids out, and replies of ids read."""
