"""JSON that all APIs share, and its way to a turn and back. No HTTP."""
