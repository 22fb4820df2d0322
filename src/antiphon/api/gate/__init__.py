"""Who may come in, how much each may request, and who waits."""
