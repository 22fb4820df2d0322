"""What others' JSON looks like, and its way to a turn and back: one folder a wire, no HTTP."""
