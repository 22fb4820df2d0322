"""Antiphon in other programs: a server of tools for MCP clients, a server for editors, a lexer."""
