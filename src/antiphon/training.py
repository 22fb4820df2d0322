"""For those who train: the ids of conversations, and of each id who wrote it and whether the model samples it.

>>> from antiphon import training
>>> renderer = training.Renderer("smollm2")                                     # doctest: +SKIP
>>> sample = renderer.render([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}])
... # doctest: +SKIP
>>> numpy.frombuffer(sample.ids, "i4"), numpy.frombuffer(sample.weights, "f4")  # doctest: +SKIP
"""

from antiphon.generation.passages import Change, Owner, Part, Passage
from antiphon.library.training import (
    IGNORED,
    Break,
    Renderer,
    Sample,
    Turn,
    join_rollout,
    render,
)

__all__ = [
    "Break",
    "Change",
    "IGNORED",
    "Owner",
    "Part",
    "Passage",
    "Renderer",
    "Sample",
    "Turn",
    "join_rollout",
    "render",
]
