"""Who may come in, how much each may ask for, and who waits."""
