"""Admission of requests: keys, rates, the queue, room for large bodies."""
