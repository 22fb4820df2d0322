"""A Python function as a tool: it runs here, and the model goes on with its result.

python examples/tools.py
"""

import asyncio

import antiphon


async def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: The city's name.
    """
    return f"It rains in {city}."


async def main() -> None:
    async with antiphon.open_model() as model:
        answer = model.stream("What is the weather in Rome?", tools=[weather], tool_choice="weather", max_tokens=60)
        async for delta in answer:
            if delta.call:
                print("the model calls", delta.call.recipient, delta.call.body)
            elif delta.result:
                print("and gets:", delta.result.text(envelope=False))
            else:
                print(delta.text, end="", flush=True)
    print()


if __name__ == "__main__":
    asyncio.run(main())
