"""A ladder of concurrency against a server: requests, figures, a plot."""
