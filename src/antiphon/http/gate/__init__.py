"""Who may come in, and when: keys, rates, the queue, room for large bodies."""
