"""Chat completions that are stored: how they are recorded, found and changed."""
