"""Files in the store, and batches that run from them beside the requests."""
