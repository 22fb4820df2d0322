"""What every request passes, whatever it calls for: keys, rates, queues, limits, errors, streams."""
