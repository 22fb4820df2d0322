"""The server: a socket, its connections, and how it ends."""
