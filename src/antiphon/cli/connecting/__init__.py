"""Clients of others: what each needs, and their settings files."""
