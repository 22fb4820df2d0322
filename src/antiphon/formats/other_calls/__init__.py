"""Calls that a model writes in another form than the one that it was trained on."""
