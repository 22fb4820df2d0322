"""The wires that every server has beside OpenAI's routes."""

from __future__ import annotations

from .batches import BATCHES
from .endpoints import SERVING_ENDPOINTS
from .moderations import MODERATIONS
from .rerank import RERANK

BUILT_IN = (BATCHES, MODERATIONS, RERANK, SERVING_ENDPOINTS)
