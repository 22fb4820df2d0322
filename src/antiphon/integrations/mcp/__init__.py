"""Antiphon as an MCP server: what it does with prompts and transcripts, as tools of any MCP client, over stdio."""
