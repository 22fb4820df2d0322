# /// script
# dependencies = ["aisuite[anthropic,ollama,openai]>=0.2"]
# ///
"""aisuite: four of its providers by text, and by a tool and a loop of several turns, which it runs itself."""

import aisuite
from steps import (
    BASE,
    CHAT,
    MORNING,
    OBEDIENT,
    PLAN,
    URL,
    WEATHER,
    each,
    edit_note,
    expect_edited,
    expect_text,
    expect_weather,
    finish,
    read_note,
    weather,
)

client = aisuite.Client(
    {
        "openai": {"api_key": "any", "base_url": URL},
        "anthropic": {"api_key": "any", "base_url": BASE},
        "ollama": {"api_url": BASE, "timeout": 60},
        "lmstudio": {"api_url": BASE, "timeout": 60},
    }
)
MODELS = {
    "chat": f"openai:{CHAT}", "chat_ollama": f"ollama:{CHAT}", "chat_lm_studio": f"lmstudio:{CHAT}",
    "messages": f"anthropic:{CHAT}",
}  # fmt: skip


def said(model, order, **options):
    messages = [{"role": "user", "content": order}]
    return client.chat.completions.create(model=model, messages=messages, **options).choices[0].message.content


def plain(model):
    expect_text(said(model, MORNING), "Good morning.")


def tool(model):
    expect_weather(said(model, WEATHER, tools=[weather], max_turns=3), '"18 degrees in Bern"')


def loop(model):
    expect_edited(said(model, PLAN, tools=[read_note, edit_note], max_turns=6))


each(MODELS, plain, *[tool, loop] * OBEDIENT)
finish("aisuite")
