"""Data sets: rows of conversations in files of any size, checked, rendered to token ids, and packed."""

from .columns import COLUMNS, DEFAULT_COLUMNS, FILES
from .forms import ROW_FORMS
from .rows import Chunk
from .run import Run
from .shards import former
from .work import Result, Sums, Task, TrainedModel

__all__ = [
    "COLUMNS",
    "Chunk",
    "DEFAULT_COLUMNS",
    "FILES",
    "ROW_FORMS",
    "Result",
    "Run",
    "Sums",
    "Task",
    "TrainedModel",
    "former",
]
