"""A server for suites whose tests want a model of some sense: ``serving.py [PORT]`` prints its URL and serves.

``suite`` sees images, calls a tool where it is offered some and has no result yet, and writes what its grammar lets it;
``count`` embeds, ``cross`` ranks.
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
from kit.api import CALL
from kit.obedient import counting, matching
from kit.obliging import EVERY, HELLO, ObligingEngine
from kit.pictures import ENDS, EVERYWHERE, TOKENIZER

OFFERED = "<tools>"
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n" + OFFERED + "{{ tools | tojson }}</tools><|im_end|>\n{% endif %}" + EVERYWHERE
)


class SuiteEngine(ObligingEngine):
    """Calls one of its tools before it says anything."""

    def __init__(self) -> None:
        super().__init__(EVERY | {"images"})
        self._vocabulary = Vocabulary(TOKENIZER, ENDS)

    def write(self, grammar: str | None, prompt: Sequence[int], sampling: Sampling) -> Sequence[int]:
        text = decode(TOKENIZER, prompt)
        last = text.rpartition("<|im_start|>assistant")[0].rpartition("<|im_start|>")[2]
        if grammar is None:
            return HELLO
        calls = OFFERED in text and last.startswith("user")
        begin = [TOKENIZER.controls[CALL]] if calls else []
        return self._reply(grammar, Random(len(prompt)), sampling.max_tokens, begin)


def suite_model() -> Model:
    format = jinja_format(TEMPLATE, TOKENIZER.controls, replies=QWEN)
    compiler = ReplyCompiler(format, TOKENIZER, ENDS)
    return Model(name="suite", engine=SuiteEngine(), tokenizer=TOKENIZER, format=format, compiler=compiler)


if __name__ == "__main__":
    models = {"suite": suite_model(), "count": counting(), "cross": matching(context=4096)}
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    Server(create_app(StaticCatalog(models)), port=port, on_ready=lambda url: print(url, flush=True)).run()
