"""`/raw` and `/show` of `antiphon chat`: the ids that the engine had, and those that it is to have next."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from antiphon.catalog.static import StaticCatalog
from antiphon.catalog.toolbox import ToolSettings
from antiphon.cli.talking.converse import act
from antiphon.cli.talking.session import Session, ToolSource
from antiphon.cli.talking.talk import ChatState, ChatTarget
from antiphon.engines import ScriptedEngine
from antiphon.errors import AntiphonError
from antiphon.formats.harmony import harmony
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import ControlScanner, decode, encode_pieces, o200k_harmony
from antiphon.tools.mcp import NOBODY

TOKENIZER = o200k_harmony()
TOOL = '''"""Weather."""

def rain(city: str) -> str:
    """Whether it rains."""
    return "a little"

tools = [rain]
'''
SCHEMA = json.dumps(
    {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"], "additionalProperties": False}
)
CALL = (
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    '<|channel|>commentary to=functions.rain <|constrain|>json<|message|>{"city": "Bern"}<|call|>'
)
ANSWER = "<|channel|>final<|message|>A little.<|return|>"


def ids(text: str) -> list[int]:
    scanner = ControlScanner(list(TOKENIZER.controls))
    return encode_pieces([*scanner.feed(text), *scanner.close()], TOKENIZER)


class Talk:
    """A session with a model that says ``replies``, one a request."""

    def __init__(self, session: Session, engine: ScriptedEngine, replies: list[str]) -> None:
        self.session, self.engine, self.replies = session, engine, replies

    async def types(self, *lines: str) -> None:
        for line in lines:
            await act(self.session, line)

    @property
    def had(self) -> list[int]:
        """What the engine had last, and said behind it."""
        return [*self.engine.requests[-1][0], *ids(self.replies[len(self.engine.requests) - 1])]


@pytest_asyncio.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    replies = [CALL, ANSWER, '<|channel|>final<|message|>{"town": "Bern"}<|return|>']
    engine = ScriptedEngine(lambda prompt, sampling, choice: ids(replies[len(engine.requests) - 1]), context=65536)
    format = harmony(TOKENIZER.controls)
    compiler = ReplyCompiler(format, TOKENIZER, engine.info.end_ids)
    model = Model(name="m", engine=engine, tokenizer=TOKENIZER, format=format, compiler=compiler)
    (tmp_path / "weather.py").write_text(TOOL)
    async with AsyncExitStack() as stack:
        catalog: Any = StaticCatalog({"m": model})
        source = ToolSource(ToolSettings(), NOBODY, stack)
        session = Session(catalog, ChatTarget(model), ChatState(), source)
        await act(session, f"/tools {tmp_path}/weather.py")
        yield Talk(session, engine, replies)


async def test_raw_is_what_the_engine_had_with_tools_system_effort_and_thoughts(
    talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    await talk.types("/system Be kind.", "/effort low", "Does it rain?")
    assert talk.session.read.ids == talk.had
    capsys.readouterr()
    await talk.types("/raw")
    shown = capsys.readouterr().out
    assert shown == decode(TOKENIZER, talk.had) + "\n"
    for part in ("type rain = (_: {", "Be kind.", "Reasoning: low", "Hm.", "a little", "A little.<|return|>"):
        assert part in shown
    await talk.types("/show")
    assert f"{len(talk.had)} of 65536 tokens" in capsys.readouterr().out


async def test_raw_of_what_changed_since_is_what_the_engine_gets_next(talk: Talk) -> None:
    await talk.types("Does it rain?", f"/schema {SCHEMA}")
    before = len(talk.engine.requests)
    shown = talk.session.read.ids
    assert "town" in decode(TOKENIZER, shown)
    assert len(talk.engine.requests) == before
    await talk.types("/retry")
    assert talk.session.read.ids == talk.had
    await talk.types("/undo")
    assert "Bern" not in decode(TOKENIZER, talk.session.read.ids)


async def test_raw_is_the_engines_next_prompt_to_the_last_id(talk: Talk) -> None:
    await talk.types("/effort high")
    talk.session.state = talk.session.state.with_question("Does it rain?")
    next_prompt = talk.session.read.ids
    await talk.session.again()
    assert next_prompt == [*talk.engine.requests[0][0]]


async def test_an_answer_that_was_cut_is_shown_as_far_as_it_came(talk: Talk) -> None:
    talk.replies[0] = "<|channel|>final<|message|>It may rain."
    await talk.types("/set max_tokens 5", "Does it rain?")
    assert talk.session.read.ids == [*talk.engine.requests[0][0], *ids(talk.replies[0])[:5]]


async def test_a_prompt_that_cannot_be_is_an_error_in_words(talk: Talk) -> None:
    await talk.types("/set tool_choice nosuch")
    with pytest.raises(AntiphonError, match="nosuch"):
        await talk.types("/raw")


@pytest.mark.parametrize("line", ["/set tool_choice nosuch", "/system " + "word " * 70_000], ids=["choice", "length"])
async def test_what_is_set_is_shown_where_the_next_question_would_be_refused(
    talk: Talk, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await talk.types(line)
    with pytest.raises(AntiphonError) as refused:
        await talk.types("/raw")
    await talk.types("/show")
    shown = capsys.readouterr().out
    assert refused.value.message in shown
    assert "\nformat\tharmony\n" in shown
