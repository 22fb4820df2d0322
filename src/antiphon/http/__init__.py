"""Stages of every request, whatever it calls for: keys, rates, queues, limits, errors, streams."""
