"""What every route shares of HTTP: the connection, the body, the stream, the errors."""
