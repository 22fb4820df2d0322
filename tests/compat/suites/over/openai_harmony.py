"""The module by the name of the one that it stands for: on a program's path, the program uses Antiphon unchanged."""

from __future__ import annotations

import os
import sys
from importlib import import_module

DIALECTS = {"a": "antiphon.compat.openai_harmony", "b": "antiphon.compat.oss_harmony"}
sys.modules[__name__] = import_module(DIALECTS[os.environ["HARMONY_DIALECT"]])
