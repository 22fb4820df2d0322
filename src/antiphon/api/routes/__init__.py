"""What answers each path."""
