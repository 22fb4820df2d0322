"""Data sets: rows of conversations in files of any size, checked, rendered to token ids, and packed."""
