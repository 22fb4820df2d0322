"""Words that an option of the command line takes."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    A = "a"
    B = "b"


class Types(StrEnum):
    REFERENCE = "reference"
    FULL = "full"
