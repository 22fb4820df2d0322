"""One turn: a catalog, a model, a question, the events as they come. The scripted engine needs no model file.

python examples/ask.py
"""

import asyncio

from antiphon.catalog import open_catalog
from antiphon.config import Config, ModelEntry
from antiphon.conversation import Conversation, Message, Role, TextDelta
from antiphon.generation import TurnRequest, plan_turn, run_turn

CONFIG = Config(
    model="demo",
    models={"demo": ModelEntry(engine="scripted", format="chatml", reply="The capital of France is Paris.")},
)
"""With `load_config(os.environ).config` in its place, this asks your own default model."""


async def main() -> None:
    catalog = open_catalog(CONFIG)
    model = await catalog.get(CONFIG.model)
    question = Conversation((Message(role=Role.USER, text="What is the capital of France?"),))
    async for happened in run_turn(plan_turn(model, TurnRequest(conversation=question))):
        if isinstance(happened.event, TextDelta):
            print(happened.event.text, end="", flush=True)
    print()
    await catalog.aclose()


if __name__ == "__main__":
    asyncio.run(main())
