"""What a model can do here, read from its files: for commands that open no engine."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from antiphon.config import Config
from antiphon.generation import Capabilities

from .explain import described


def capabilities_of(config: Config, name: str) -> Capabilities:
    """What the model can do, whose files are here. Raises what describing it raises, as for a file that cannot be used.

    The format that the configuration's top names is the default model's alone.
    """
    alone = config if name == config.model else replace(config, model=name, format=None, chat_template=None)
    return asyncio.run(described(alone, name)).capabilities
