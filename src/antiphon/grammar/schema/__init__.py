"""JSON Schemas → schemas that the engine can enforce while it samples.

The engine (llguidance) has a part of JSON Schema. `compile_schema` (`.compile`) goes one of two ways. A schema within
that part passes through (`.passthrough`). Any other is brought to its canonical form and translated (`.translate`):
with objects and arrays (`.objects`) and numbers (`.exact`), over a shared context (`.context`). What the
engine cannot enforce even so is relaxed, and the finished value is checked.

Each module's docstring has an example, which a test runs. Its labels:

* ``schema``: what comes in;
* ``engine``: what the engine is shown of it;
* ``relaxed``: the keywords, by their place, that it is not shown;
* ``accepts``, ``refuses``: JSON texts that the grammar lets through, and that it stops, while the model samples;
* ``rejects``: texts that the grammar lets through, and that the check of the finished value refuses.
"""

from .compile import CompiledSchema, Enforced, compile_schema, judge_schema
from .controls import exclude_controls, refuse_markers
from .exact import Relaxation
from .keywords import Keywords, keywords
from .passthrough import is_plain, is_plain_pattern

__all__ = [
    "CompiledSchema",
    "Enforced",
    "Keywords",
    "Relaxation",
    "compile_schema",
    "exclude_controls",
    "is_plain",
    "is_plain_pattern",
    "judge_schema",
    "keywords",
    "refuse_markers",
]
