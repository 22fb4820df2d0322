"""Which routes answer the lines of batches."""

from __future__ import annotations

from types import MappingProxyType

from antiphon.api.chat.routes import ChatCompletions
from antiphon.api.completions.routes import Completions
from antiphon.api.embeddings.routes import MakeEmbeddings
from antiphon.api.errors import ANTHROPIC_ERRORS
from antiphon.api.messages.routes import CreateMessage
from antiphon.api.responses.routes import CreateResponse

from .call import Endpoint, Endpoints

ENDPOINTS: Endpoints = MappingProxyType(
    {
        "/v1/chat/completions": Endpoint(ChatCompletions),
        "/v1/completions": Endpoint(Completions),
        "/v1/embeddings": Endpoint(MakeEmbeddings),
        "/v1/messages": Endpoint(CreateMessage, ANTHROPIC_ERRORS),
        "/v1/responses": Endpoint(CreateResponse),
    }
)
