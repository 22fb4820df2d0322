"""Options of Harmony for a served model, from a file of the configuration to the prompt that its engine gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pydantic
import pytest

from antiphon.api import create_app
from antiphon.catalog import open_catalog
from antiphon.cli.config import explained
from antiphon.config import load_config
from antiphon.engines import ModelSpec, Sampling, ScriptedEngine
from antiphon.engines.kind import EngineSettings
from antiphon.errors import ConfigError
from antiphon.tokens import Control, decode, encode_pieces, o200k_harmony
from kit.api import post_in_process

TOKENIZER = o200k_harmony()
CHANNEL, MESSAGE, RETURN = (Control(f"<|{name}|>") for name in ("channel", "message", "return"))
ANSWER = encode_pieces([CHANNEL, "final", MESSAGE, "Hello.", RETURN], TOKENIZER)


class Recorder(EngineSettings, frozen=True, kw_only=True, tag="recorder"):
    """An engine that notes its prompts."""

    prompts: ClassVar[list[str]] = []

    async def open(self, model: ModelSpec) -> ScriptedEngine:
        def script(prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
            self.prompts.append(decode(TOKENIZER, prompt))
            return ANSWER

        return ScriptedEngine(script, context=8192, grammar=False)


class Place(pydantic.BaseModel):
    city: str
    country: str | None = None


class Trip(pydantic.BaseModel):
    goal: Place
    stops: list[Place] = []
    days: int | None = None


TOOL = {"type": "function", "function": {"name": "plan", "parameters": Trip.model_json_schema()}}
TABLE = '[models.oss]\ntokenizer = "o200k_harmony"\nengine = "recorder"\n'


HI = {"role": "user", "name": "ann", "content": "Hi"}


async def prompt(tmp_path: Path, options: str = "", *messages: object) -> str:
    """The prompt of a request to a server with these options of its model."""
    (tmp_path / "config.toml").write_text(TABLE + options)
    loaded = load_config({"ANTIPHON_HOME": str(tmp_path)}, {"model": "oss"}, engines={"recorder": Recorder})
    catalog = open_catalog(loaded.config)
    await catalog.get("oss")
    Recorder.prompts.clear()
    got = await post_in_process(create_app(catalog), "/v1/chat/completions", messages=[HI, *messages], tools=[TOOL])
    await catalog.aclose()
    assert got.status == 200, got.body
    return Recorder.prompts[0]


@pytest.mark.one_process("its engine, opened by the catalog, notes prompts in its process")
async def test_a_served_models_prompt_has_the_whole_types_of_tools(tmp_path: Path) -> None:
    poor = await prompt(tmp_path)
    assert "days?: any," in poor
    full = await prompt(tmp_path, '[models.oss.harmony]\ntypes = "full"\n')
    assert ": any" not in full
    assert "days?: number | null," in full
    assert full.count("country?: string | null,") == 2, "a nested model, and the one in a list"


@pytest.mark.one_process("its engine, opened by the catalog, notes prompts in its process")
async def test_its_dialect_and_its_names_are_options_too(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "plan", "arguments": "{}"}}
    calling: Sequence[object] = (
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    )
    plain = await prompt(tmp_path, "", *calling)
    assert "<|start|>user<|message|>Hi" in plain
    assert "<|start|>assistant to=functions.plan<|channel|>commentary <|constrain|>json<|message|>" in plain
    other = await prompt(tmp_path, 'harmony = { dialect = "b", names = true }\n', *calling)
    assert "<|start|>user:ann<|message|>Hi" in other
    assert "<|channel|>commentary to=functions.plan <|constrain|>json<|message|>" in other


async def test_who_looks_at_the_model_sees_them(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(TABLE + 'harmony.types = "full"\n')
    loaded = load_config({"ANTIPHON_HOME": str(tmp_path)}, {"model": "oss"}, engines={"recorder": Recorder})
    facts = await open_catalog(loaded.config).describe("oss")
    assert facts is not None
    assert facts.format_origin == "model: its vocabulary has Harmony's controls; types full (configuration)"
    found = explained(loaded, "models.oss.harmony.types")
    assert (found.value, found.origin) == ("full", str(tmp_path / "config.toml"))


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ('format = "chatml"\nharmony = { types = "full" }\n', "models.oss.harmony.types"),
        ('format = "openchatml"\nharmony = { names = false }\n', "models.oss.harmony.names"),
        ('harmony = { types = "more" }\n', "models.oss.harmony.types"),
        ('harmony = { type = "full" }\n', "models.oss.harmony.type"),
        ('task = "embed"\nharmony = { dialect = "b" }\n', "models.oss.harmony"),
    ],
)
async def test_options_that_nothing_can_honour_are_refused_at_their_place(
    tmp_path: Path, table: str, place: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        await prompt(tmp_path, table)
    assert place in refused.value.message
