"""A reply that goes on where it was interrupted."""
