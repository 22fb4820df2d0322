"""``antiphon chat``: a conversation at a terminal or through a pipe, its commands, and how answers are shown."""
