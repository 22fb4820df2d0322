"""The wires that every server has beside OpenAI's routes."""

from __future__ import annotations

from .endpoints import SERVING_ENDPOINTS

BUILT_IN = (SERVING_ENDPOINTS,)
