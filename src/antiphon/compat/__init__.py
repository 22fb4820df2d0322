"""Other libraries' interfaces over Antiphon, so that a program can change its import first and its calls later."""
