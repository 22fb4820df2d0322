"""The wires that every server has beside OpenAI's routes."""

from __future__ import annotations

from antiphon.api.ollama.wire import OLLAMA

from .batches import BATCHES
from .endpoints import SERVING_ENDPOINTS
from .messages import MESSAGES
from .moderations import MODERATIONS
from .rerank import RERANK

BUILT_IN = (BATCHES, MESSAGES, MODERATIONS, OLLAMA, RERANK, SERVING_ENDPOINTS)
