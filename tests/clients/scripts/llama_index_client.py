# /// script
# dependencies = [
#     "llama-index-embeddings-openai-like", "llama-index-llms-ollama>=0.11", "llama-index-llms-openai-like>=0.8",
# ]
# ///
"""LlamaIndex over chat and over Ollama: text, streams, typed output, agents in several turns; its embeddings."""

from typing import Literal

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel
from steps import (
    BASE,
    CHAT,
    CITIES,
    EMBEDDER,
    MORNING,
    OBEDIENT,
    PLAN,
    THINKER,
    TOKENS,
    URL,
    WEATHER,
    awaited,
    each,
    edit_note,
    expect_edited,
    expect_text,
    expect_weather,
    finish,
    read_note,
    step,
    weather,
)

V1 = {
    "api_base": URL, "api_key": "any", "is_chat_model": True, "is_function_calling_model": True, "max_tokens": TOKENS,
    "context_window": 8000, "max_retries": 0,
}  # fmt: skip
MODELS = {
    "chat": OpenAILike(model=CHAT, **V1),
    "chat_thinker": OpenAILike(model=THINKER, **V1),
    "chat_ollama": Ollama(model=CHAT, base_url=BASE, context_window=8000, additional_kwargs={"num_predict": TOKENS}),
}


class Place(BaseModel):
    """A place."""

    city: Literal["Bern", "Basel"]


def ran(model, order, *tools):
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(tool) for tool in tools], llm=model)

    async def run():
        return str(await agent.run(order))

    return awaited(run())


def plain(model):
    expect_text(model.chat([ChatMessage(MORNING)]).message.content, "Good morning.")


def stream(model):
    parts = model.stream_chat([ChatMessage(MORNING)])
    expect_text("".join(part.delta or "" for part in parts), "Good morning.")


def typed(model):
    order = 'say: {"city": "Bern"}' if isinstance(model, Ollama) else 'call: Place {"city": "Bern"}'
    assert model.as_structured_llm(Place).chat([ChatMessage(order)]).raw.city in CITIES


def tool(model):
    expect_weather(ran(model, WEATHER, weather))


def loop(model):
    expect_edited(ran(model, PLAN, read_note, edit_note))


each(MODELS, plain, stream, typed, *[tool, loop] * OBEDIENT)


@step
def embeddings():
    embedder = OpenAILikeEmbedding(model_name=EMBEDDER, api_base=URL, api_key="any")
    assert len(embedder.get_text_embedding_batch(["a cat", "a dog"])) == 2


finish("llama-index-llms-openai-like")
