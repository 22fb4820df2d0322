"""The parts below the front door: a format, a tokenizer and an engine put together by hand. Needs no model.

python examples/engine.py
"""

import asyncio

import antiphon
from antiphon.engines import ScriptedEngine
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control

START, END = Control("<|im_start|>"), Control("<|im_end|>")
TOKENIZER = ByteTokenizer([START, END])
SCRIPT = [*TOKENIZER.encode("The capital of Japan is Tokyo."), TOKENIZER.controls[END]]


async def main() -> None:
    parrot = Model(
        name="parrot",
        engine=ScriptedEngine(SCRIPT),
        tokenizer=TOKENIZER,
        format=template_format("chatml", TOKENIZER.controls),
    )
    async with antiphon.open_model(parrot) as model:
        async for delta in model.stream("What is the capital of Japan?"):
            print(delta.text, end="", flush=True)
    print()


if __name__ == "__main__":
    asyncio.run(main())
