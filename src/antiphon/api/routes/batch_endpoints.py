"""Which routes answer the lines of batches."""

from __future__ import annotations

from types import MappingProxyType

from antiphon.batches.call import Endpoint, Endpoints
from antiphon.http.error_shapes import ANTHROPIC_ERRORS

from .chat import ChatCompletions
from .completions import Completions
from .embeddings import MakeEmbeddings
from .messages import CreateMessage
from .responses import CreateResponse

ENDPOINTS: Endpoints = MappingProxyType(
    {
        "/v1/chat/completions": Endpoint(ChatCompletions),
        "/v1/completions": Endpoint(Completions),
        "/v1/embeddings": Endpoint(MakeEmbeddings),
        "/v1/messages": Endpoint(CreateMessage, ANTHROPIC_ERRORS),
        "/v1/responses": Endpoint(CreateResponse),
    }
)
