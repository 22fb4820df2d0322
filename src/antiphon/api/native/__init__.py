"""Antiphon's own routes, beside the APIs of others: tokens, prompts, schemas, templates."""
