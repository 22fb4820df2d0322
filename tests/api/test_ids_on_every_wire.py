"""A prompt goes on with the ids before it and all that was sampled: on every wire, over restarts and replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cache
from itertools import cycle, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.formats import Format
from antiphon.formats.template import jinja_format
from antiphon.generation import Model
from antiphon.library.opening import open_model
from antiphon.store import SqliteStore, Store
from antiphon.tokens import Control, Piece
from kit.api import post, post_in_process
from kit.pairs import TOKENIZER, sampled_ids
from kit.program import serving
from kit.tool_clients import CLIENTS, FOUND, FUNCTION, Chat, Client, Items

TOOL_CALL, CALLED, IM_END = (Control(name) for name in ("<tool_call>", "</tool_call>", "<|im_end|>"))
JINJA = (
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{{- m.content or '' }}"
    '{%- for c in m.tool_calls or [] %}{{ \'<tool_call>\n{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{- c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = SqliteStore(tmp_path / "store.db")
    yield store
    await store.aclose()


@cache
def format() -> Format:
    """Read and proven once."""
    return jinja_format(JINJA, TOKENIZER.controls)


class Plays:
    """Models that call a tool, spelled as their template does not, each time in other tokens; and what they were given.

    ``sampled`` are the ids of each choice, in their order.
    """

    def __init__(self, *, calls: bool = True) -> None:
        self.prompts: list[list[int]] = []
        self.sampled: list[list[int]] = []
        self._calls = calls
        self._random = Random(1)

    def served(self, store: Store) -> Starlette:
        """A server of its own over the store."""
        return create_app(StaticCatalog({"small": self.model()}), expose_reasoning=True, store=store)

    def model(self) -> Model:
        engine = ScriptedEngine(self._script, context=100_000, grammar=False)
        return Model(name="small", engine=engine, tokenizer=TOKENIZER, format=format())

    def _script(self, prompt: Sequence[int], sampling: Sampling, choice: int) -> list[int]:
        self.prompts.append(list(prompt))
        self.sampled.append(sampled_ids(self._random, self._reply(len(self.sampled))))
        return self.sampled[-1]

    def _reply(self, turn: int) -> list[Piece]:
        if not self._calls:
            return [f"in the end, the théin {turn}.", IM_END]
        return [TOOL_CALL, f'{{"arguments":{{ "in" : "the \\u0068ein {turn}"}},\n"name":"find"}}', CALLED, IM_END]

    def goes_on(self, later: int, earlier: int) -> bool:
        """Whether a prompt begins with an earlier one and what was sampled to it."""
        whole = self.prompts[earlier] + self.sampled[earlier]
        return self.prompts[later][: len(whole)] == whole


def one_server(plays: Plays, store: Store) -> Iterator[Starlette]:
    server = plays.served(store)
    while True:
        yield server


def restarts(plays: Plays, store: Store) -> Iterator[Starlette]:
    while True:
        yield plays.served(store)


def replicas(plays: Plays, store: Store) -> Iterator[Starlette]:
    servers = [plays.served(store), plays.served(store)]
    while True:
        yield from servers


SERVED: dict[str, Callable[[Plays, Store], Iterator[Starlette]]] = {
    "one server": one_server,
    "restarts": restarts,
    "replicas": replicas,
}


@pytest.mark.parametrize(("wire", "served"), [*zip(CLIENTS, cycle(SERVED), strict=False)])
async def test_each_prompt_of_a_loop_begins_with_the_last_and_all_that_was_sampled(
    wire: str, served: str, store: Store
) -> None:
    plays, client = Plays(calls=wire != "interactive"), CLIENTS[wire]()
    servers = SERVED[served](plays, store)
    for _ in range(4):
        await client.turn(next(servers))
    assert [plays.goes_on(turn, turn - 1) for turn in range(1, 4)] == [True] * 3


async def test_a_program_s_chats_go_on_with_what_was_sampled() -> None:
    plays, history, tools = Plays(), None, [{"type": "function", "function": FUNCTION}]
    async with open_model(plays.model()) as small:
        question: Any = "in the end?"
        for _ in range(4):
            reply = await small.chat(question, tools=tools, history=history)
            history, tools = reply.conversation, []
            question = [{"role": "tool", "tool_call_id": reply.calls[0].call_id, "content": FOUND}]
    assert [plays.goes_on(turn, turn - 1) for turn in range(1, 4)] == [True] * 3


@pytest.mark.parametrize("fields", [{}, {"max_tokens": 9}], ids=["whole", "cut by its limit"])
async def test_a_text_chat_that_names_nothing_goes_on_with_what_was_sampled_in_other_tokens(
    fields: dict[str, Any], store: Store
) -> None:
    plays, messages = Plays(calls=False), list[dict[str, Any]]()
    server = plays.served(store)
    for turn in range(4):
        messages.append({"role": "user", "content": f"the end {turn}?"})
        answer = await post_in_process(server, "/v1/chat/completions", model="small", messages=messages, **fields)
        messages.append(answer.json["choices"][0]["message"])
    plays.sampled[:] = [ids[: fields.get("max_tokens")] for ids in plays.sampled]
    assert [plays.goes_on(turn, turn - 1) for turn in range(1, 4)] == [True] * 3


class TalksRoundItsCall(Plays):
    """Says a text before its call and another behind it, which a chat's client gets as one."""

    def _reply(self, turn: int) -> list[Piece]:
        return [f"the théin {turn}.", *super()._reply(turn)[:-1], "in the end.", IM_END]


@pytest.mark.parametrize(
    ("wire", "served"),
    [pair for pair in zip(CLIENTS, cycle(reversed(SERVED)), strict=False) if pair[0] != "interactive"],
)
async def test_texts_round_a_call_are_gone_on_with_as_they_were_sampled(wire: str, served: str, store: Store) -> None:
    plays, client = TalksRoundItsCall(), CLIENTS[wire]()
    servers = SERVED[served](plays, store)
    for _ in range(4):
        await client.turn(next(servers))
    assert [plays.goes_on(turn, turn - 1) for turn in range(1, 4)] == [True] * 3


@pytest.mark.parametrize("client", [Chat(store=False), Items(store=False)], ids=["chat", "responses"])
async def test_what_its_client_wants_not_to_be_stored_is_known_to_its_server_alone(
    client: Client, store: Store
) -> None:
    plays = Plays()
    one, other = plays.served(store), plays.served(store)
    await client.turn(one)
    fork = client.forked()
    await client.turn(one)
    await fork.turn(other)
    assert plays.goes_on(1, 0)
    assert not await store.names("ids", "")


BRANCHING = [wire for wire in CLIENTS if wire not in ("a session", "interactive", "a conversation")]
"""Wires whose clients choose what they go on with."""


@pytest.mark.parametrize("wire", BRANCHING)
async def test_a_fork_goes_on_with_the_turn_that_it_forks_from(wire: str, store: Store) -> None:
    plays, client = Plays(), CLIENTS[wire]()
    servers = replicas(plays, store)
    for turn in range(4):
        if turn == 2:
            fork = client.forked()
        await client.turn(next(servers))
    await fork.turn(next(servers))
    await fork.turn(next(servers))
    assert [plays.goes_on(4, 1), plays.goes_on(5, 4)] == [True, True]


@pytest.mark.parametrize("wire", BRANCHING)
async def test_another_last_result_goes_on_with_the_same_turn(wire: str, store: Store) -> None:
    plays, client = Plays(), CLIENTS[wire]()
    servers = replicas(plays, store)
    for _ in range(2):
        await client.turn(next(servers))
    edited = client.forked(found="another thing")
    await client.turn(next(servers))
    await edited.turn(next(servers))
    await edited.turn(next(servers))
    assert [plays.goes_on(3, 1), plays.goes_on(4, 3)] == [True, True]
    assert plays.prompts[3] != plays.prompts[2]


@pytest.mark.parametrize("served", SERVED)
async def test_each_choice_is_gone_on_with_by_its_own_ids(served: str, store: Store) -> None:
    plays, client = Plays(), Chat(n=3)
    servers = SERVED[served](plays, store)
    answer = await client.send(next(servers), "/v1/chat/completions", client.body)
    for choice in range(3):
        taken = Chat()
        taken.take(answer, choice)
        await taken.turn(next(servers))
        assert plays.goes_on(3 + choice, choice)


PROGRAM = """
model = "small"
[models.small]
engine = "scripted"
format = "chatml"
reply = '<tool_call>{"arguments": { "in" : "the end"},  "name": "find"}</tool_call>'
[sessions]
store = "STORE"
"""


def test_processes_that_share_a_store_share_the_ids_of_turns(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(PROGRAM.replace("STORE", str(tmp_path / "shared.db")))
    client, answers = Chat(return_token_ids=True), list[Any]()
    with serving(tmp_path) as (_, one), serving(tmp_path) as (_, other):
        for base in (one, other, one):
            got = post(base, "/v1/chat/completions", **client.body)
            assert got.status == 200, got.body
            answers.append(got.json)
            client.take(got.json)
    for former, after in pairwise(answers):
        whole = former["prompt_token_ids"] + former["choices"][0]["token_ids"]
        assert after["prompt_token_ids"][: len(whole)] == whole
