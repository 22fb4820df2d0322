# /// script
# dependencies = ["semantic-kernel[anthropic,ollama]>=1.45"]
# ///
"""Semantic Kernel's agents over OpenAI's, Anthropic's and Ollama's APIs, with tools of the kernel; its embeddings."""

from typing import Literal

from anthropic import AsyncAnthropic
from ollama import AsyncClient
from openai import AsyncOpenAI
from pydantic import BaseModel
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.anthropic import AnthropicChatCompletion, AnthropicChatPromptExecutionSettings
from semantic_kernel.connectors.ai.ollama import OllamaChatCompletion
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
    OpenAITextEmbedding,
)
from semantic_kernel.functions import KernelArguments, kernel_function
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

openai = AsyncOpenAI(base_url=URL, api_key="any", max_retries=0)
anthropic = AsyncAnthropic(base_url=BASE, api_key="any", max_retries=0)
MODELS = {
    "chat": OpenAIChatCompletion(ai_model_id=CHAT, async_client=openai),
    "chat_thinker": OpenAIChatCompletion(ai_model_id=THINKER, async_client=openai),
    "chat_ollama": OllamaChatCompletion(ai_model_id=CHAT, client=AsyncClient(BASE)),
    "messages": AnthropicChatCompletion(CHAT, api_key="any", async_client=anthropic),
}


class Place(BaseModel):
    city: Literal["Bern", "Basel"]


def agent(model, *tools, **settings):
    kernel = Kernel()
    kernel.add_functions("own", [kernel_function(tool) for tool in tools])
    arguments = KernelArguments(**settings)
    return ChatCompletionAgent(service=model, kernel=kernel, name="one", arguments=arguments)


def answered(model, order, *tools, **settings):
    async def run():
        return str(await agent(model, *tools, **settings).get_response(order))

    return awaited(run())


def weather_of(city: str) -> str:
    """The weather of a city."""
    return weather(city)


def plain(model):
    expect_text(answered(model, MORNING), "Good morning.")


def stream(model):
    async def run():
        return [str(part) async for part in agent(model).invoke_stream(MORNING)]

    expect_text("".join(awaited(run())), "Good morning.")


def tool(model):
    expect_weather(answered(model, WEATHER.replace("call: weather", "call: own-weather_of"), weather_of))


def loop(model):
    expect_edited(answered(model, PLAN.replace("call ", "call own-"), read_note, edit_note))


each(MODELS, plain, stream, tool, *[loop] * OBEDIENT)


@step
def chat_typed():
    settings = OpenAIChatPromptExecutionSettings(response_format=Place, max_tokens=TOKENS)
    text = answered(MODELS["chat"], 'say: {"city": "Bern"}', settings=settings)
    assert Place.model_validate_json(text).city in CITIES


@step
def messages_settings():
    settings = AnthropicChatPromptExecutionSettings(max_tokens=100, temperature=0.5)
    expect_text(answered(MODELS["messages"], MORNING, settings=settings), "Good morning.")


@step
def embeddings():
    async def run():
        return await OpenAITextEmbedding(ai_model_id=EMBEDDER, async_client=openai).generate_embeddings(["a", "b"])

    assert len(awaited(run())) == 2


finish("semantic-kernel")
