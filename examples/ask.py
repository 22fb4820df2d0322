"""Ask a model: whole, streamed, and as a type. Uses the default model, which is fetched once.

python examples/ask.py
"""

from dataclasses import dataclass

import antiphon


@dataclass
class City:
    name: str
    country: str


with antiphon.open_model() as model:
    reply = model.chat("What is the capital of Japan?", max_tokens=30)
    print(reply.text)

    for delta in model.stream("Say hello to the world.", max_tokens=30):
        print(delta.text, end="", flush=True)
    print()

    print(model.chat("Name a city in Italy.", response=City, max_tokens=60).parsed)
