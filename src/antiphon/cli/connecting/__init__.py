"""Clients of others: what each must be told, and their settings files."""
