"""OpenAI's Responses: items in, items and their events out."""
