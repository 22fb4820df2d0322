"""Files, and batches of requests that lie in them."""
