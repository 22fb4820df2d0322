"""Wire structs ⇄ conversations and events."""
