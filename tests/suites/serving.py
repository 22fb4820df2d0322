"""A server for suites whose tests want a model of some sense: ``serving.py [PORT [NAME…]]`` prints its URL and serves.

``suite``, or what the names say, thinks, sees images, calls a tool where it is offered some and has no result yet, and
writes what its grammar lets it; ``plain`` does all of it without a thought, ``count`` embeds, ``cross`` ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling
from antiphon.formats.template import jinja_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.grammar.compiler import Vocabulary
from antiphon.http.server.server import Server
from antiphon.tokens import decode
from kit.api import CALL, THINK, UNTHINK, ids
from kit.obedient import counting, matching
from kit.obliging import EVERY, HELLO, ObligingEngine
from kit.pictures import ENDS, EVERYWHERE, TOKENIZER

OFFERED = "<tools>"
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n"
    + OFFERED
    + "{{ tools | tojson }}</tools><|im_end|>\n{% endif %}"
    + EVERYWHERE
    + "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}"
)
THOUGHT = ids(THINK, "\nAn order.\n", UNTHINK, "\n\n")


class SuiteEngine(ObligingEngine):
    """Thinks, unless it is not to, and calls one of its tools before it says anything."""

    def __init__(self, *, thinks: bool) -> None:
        super().__init__(EVERY | {"images"})
        self._thinks = thinks
        self._vocabulary = Vocabulary(TOKENIZER, ENDS)

    def write(self, grammar: str | None, prompt: Sequence[int], sampling: Sampling) -> Sequence[int]:
        text = decode(TOKENIZER, prompt)
        last = text.rpartition("<|im_start|>assistant")[0].rpartition("<|im_start|>")[2]
        thought = THOUGHT if self._thinks and not text.endswith("</think>\n\n") else []
        if grammar is None:
            return [*thought, *HELLO]
        calls = OFFERED in text and last.startswith("user")
        begin = [TOKENIZER.controls[CALL]] if calls else HELLO
        return self._reply(grammar, Random(len(prompt)), sampling.max_tokens, [*thought, *begin])


def suite_model(name: str, *, thinks: bool = True) -> Model:
    format = jinja_format(TEMPLATE, TOKENIZER.controls, replies=QWEN)
    compiler = ReplyCompiler(format, TOKENIZER, ENDS)
    return Model(name=name, engine=SuiteEngine(thinks=thinks), tokenizer=TOKENIZER, format=format, compiler=compiler)


if __name__ == "__main__":
    port, *names = sys.argv[1:] or ["0"]
    models = {name: suite_model(name) for name in names or ["suite"]}
    models["plain"] = suite_model("plain", thinks=False)
    catalog = StaticCatalog({**models, "count": counting(), "cross": matching(context=4096)})
    Server(
        create_app(catalog, expose_reasoning=True), port=int(port), on_ready=lambda url: print(url, flush=True)
    ).run()
