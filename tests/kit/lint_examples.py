"""The examples of the linter's rules as whole transcripts."""

from __future__ import annotations

HEADER = '---\nversion: "2.2"\n---\n'


def whole(example: str) -> str:
    """An example with a header, unless it begins with one of its own, with JSON, or says by ``!`` that it lacks one."""
    if example.startswith("!"):
        return example[1:]
    return example if example.startswith(("---", "version", "{")) else HEADER + example
