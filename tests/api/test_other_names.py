"""Every known name of a request field has an effect on every route and in every dialect, or is refused by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle, zip_longest
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.api.chat.conversation import read_turn_request
from antiphon.api.chat.schema import ChatRequest
from antiphon.api.completions.schema import CompletionRequest
from antiphon.api.dialects import configured_dialects
from antiphon.api.interactive.wire import InteractiveRequest
from antiphon.api.messages.schema import MessagesRequest
from antiphon.api.ollama.schema import OllamaChatRequest, OllamaGenerateRequest
from antiphon.api.responses.schema import ResponsesRequest
from antiphon.catalog.static import StaticCatalog
from antiphon.errors import RequestError, UnsupportedError
from antiphon.wire.names.constraints import READERS
from antiphon.wire.names.table import KNOWN, KnownName
from kit.api import Got, post_in_process
from kit.obliging import ObligingEngine, chatting_and_embedding, constrained

HI = [{"role": "user", "content": "Hi"}]
CHAT, TEXT, RESPONSES, INTERACTIVE, OLLAMA_CHAT, OLLAMA_GENERATE = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/chat/interactive",
    "/api/chat",
    "/api/generate",
)
MESSAGES = "/v1/messages"
LIMITS = frozenset(row.name for row in KNOWN.values() if row.use == "limit")
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HI, "stream": False},
    TEXT: {"prompt": "Hi", "stream": False},
    RESPONSES: {"input": "Hi"},
    INTERACTIVE: {"prompt": "Hi"},
    OLLAMA_CHAT: {"messages": HI, "stream": False},
    OLLAMA_GENERATE: {"prompt": "Hi", "stream": False},
    MESSAGES: {"messages": HI},
}
KINDS = {
    CHAT: ChatRequest,
    TEXT: CompletionRequest,
    RESPONSES: ResponsesRequest,
    INTERACTIVE: InteractiveRequest,
    OLLAMA_CHAT: OllamaChatRequest,
    OLLAMA_GENERATE: OllamaGenerateRequest,
    MESSAGES: MessagesRequest,
}
DIALECTS = ("openai", "databricks", "mindie", "lmdeploy")
SCHEMA = {"type": "object", "properties": {"ok": {"const": 1}}, "required": ["ok"], "additionalProperties": False}
OBJECT = {"ok": 1}
COMPACT = '{"ok":1}'
GBNF = 'root ::= "xyz" | "xyz" "!"{3}'
LARK = 'start: "xyz" BANG?\nBANG: /!!!/'
WORDS = ("xyz", "xyz!!!")
CONSTRAINED: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {
    "structured_outputs": [
        ({"json": SCHEMA}, (OBJECT,)), ({"json": json.dumps(SCHEMA)}, (OBJECT,)), ({"regex": "xyz"}, WORDS),
        ({"choice": ["xyz", "xyz!!!"]}, WORDS), ({"grammar": GBNF}, WORDS), ({"grammar": LARK}, WORDS),
        ({"json": SCHEMA, "whitespace_pattern": "[ ]?", "disable_any_whitespace": True, "backend": "x"}, (COMPACT,)),
        ({"structural_tag": {"format": {"type": "const_string", "value": "xyz"}}}, WORDS),
    ],
    "guided_json": [(SCHEMA, (OBJECT,)), (json.dumps(SCHEMA), (OBJECT,))], "guided_regex": [("x[y]z", WORDS)],
    "guided_choice": [(["xyz"], WORDS)], "guided_grammar": [(GBNF, WORDS), (LARK, WORDS)],
    "json_schema": [(SCHEMA, (OBJECT,)), (json.dumps(SCHEMA), (OBJECT,))], "regex": [("xyz(!!!)?", WORDS)],
    "grammar": [(GBNF, WORDS), (LARK, WORDS), ({"type": "regex", "value": "xyz"}, WORDS)],
    "ebnf": [(GBNF, WORDS)], "format": [(SCHEMA, (OBJECT,))],
    "structural_tag": [
        ({"type": "structural_tag", "format": {"type": "json_schema", "json_schema": SCHEMA}}, (OBJECT,)),
        (json.dumps({"format": {"type": "grammar", "grammar": GBNF}}), WORDS),
    ],
    "output_format": [({"type": "json_schema", "schema": SCHEMA}, (OBJECT,))],
    "output_config": [({"format": {"type": "json_schema", "schema": SCHEMA}}, (OBJECT,))],
    "response_format": [
        ({"type": "json_object", "schema": SCHEMA}, (OBJECT,)), ({"type": "json_schema", "schema": SCHEMA}, (OBJECT,)),
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}, (OBJECT,)),
        ({"type": "regex", "pattern": "xyz"}, WORDS), ({"type": "regex_schema", "regex_schema": "xyz"}, WORDS),
        ({"type": "grammar", "grammar": GBNF}, WORDS), ({"type": "choice", "choices": ["xyz"]}, WORDS),
    ],
}  # fmt: skip
"""What to send under each name, and the answers that are left: texts, or a value of JSON, whatever its blanks."""


@dataclass(frozen=True, slots=True)
class Server:
    """One application and the engine below it."""

    route: str
    application: Any
    engine: ObligingEngine

    async def post(self, **fields: Any) -> Got:
        if self.route == MESSAGES and all(fields.get(name) in (None, -1) for name in LIMITS):
            fields["max_tokens"] = 1000  # this route needs a limit, under whichever name
        return await post_in_process(self.application, self.route, model="small", **BODIES[self.route], **fields)


@cache
def server(route: str, dialect: str = "openai", *, strict: bool = False) -> Server:
    """One for all tests, none of which changes it: its engine notes what it was asked, and the last is the test's."""
    engine, spoken = ObligingEngine(), configured_dialects(strict=strict)[dialect]
    return Server(route, create_app(StaticCatalog({"small": constrained(engine)}), dialect=spoken), engine)


def texts(got: Got) -> list[str]:
    """What the model said, whichever the route."""
    body = got.json
    if "content" in body:
        return [block["text"] for block in body["content"]]
    if "output" in body:
        return [part["text"] for item in body["output"] for part in item.get("content", ())]
    if "message" in body:
        return [body["message"]["content"]]
    if "choices" not in body:
        return [body["response"] if "response" in body else body["text"]]
    return [choice["text"] if "text" in choice else choice["message"]["content"] for choice in body["choices"]]


PLACES = [(route, dialect) for route in (CHAT, TEXT) for dialect in DIALECTS] + [
    (RESPONSES, "openai"),
    (INTERACTIVE, "lmdeploy"),
    (OLLAMA_CHAT, "openai"),
    (OLLAMA_GENERATE, "openai"),
    (MESSAGES, "openai"),
]


@pytest.fixture(params=PLACES, ids=" ".join)
def place(request: pytest.FixtureRequest) -> Server:
    return server(*request.param)


def rows(place: Server, use: str) -> Iterator[KnownName]:
    """The rows of the table of that use which are no fields of the route itself."""
    own = KINDS[place.route].__struct_fields__
    yield from (row for row in KNOWN.values() if row.use == use and row.name not in own)


def test_every_constraint_of_the_table_is_read_and_tried() -> None:
    constraints = {row.name for row in KNOWN.values() if row.use == "constraint"}
    assert constraints == READERS.keys()
    assert constraints == CONSTRAINED.keys() | {"guided_whitespace_pattern"}


def test_a_field_of_one_route_is_known_on_the_others() -> None:
    fields = {kind: set(kind.__struct_fields__) for kind in KINDS.values()}
    everywhere = set.intersection(*fields.values())
    missing = {name for own in fields.values() for name in own - everywhere - KNOWN.keys()}
    assert {name for name in missing if any(name not in own for own in fields.values())} <= {
        "stream_options",
        "top_p",
    }


def tried() -> Iterator[tuple[str, int, str, str]]:
    """Each name, with each of its values, on each route; a dialect of the route is the name's turn."""
    for turn, (name, values) in enumerate(CONSTRAINED.items()):
        for number in range(max(len(values), len(KINDS))):
            route = [*KINDS][number % len(KINDS)]
            spoken = [dialect for at, dialect in PLACES if at == route]
            yield name, number, route, spoken[(turn + number) % len(spoken)]


@pytest.mark.parametrize(("name", "number", "route", "dialect"), [*tried()])
async def test_a_constraint_holds_under_each_name(name: str, number: int, route: str, dialect: str) -> None:
    """And with one of the two values that are none."""
    place = server(route, dialect)
    value, expected = CONSTRAINED[name][number % len(CONSTRAINED[name])]
    got = await place.post(**{name: value})
    assert got.status == 200, (value, got.body)
    answers = [json.loads(text) if OBJECT in expected else text for text in texts(got)]
    assert all(answer in expected for answer in answers), (value, texts(got))
    assert "x-antiphon-ignored" not in got.headers
    own = name in KINDS[place.route].__struct_fields__
    assert (await place.post(**{name: None if own or number % 2 else ""})).status == 200


async def test_json_alone_is_requested_in_three_words(place: Server) -> None:
    for fields in ({"structured_outputs": {"json_object": True}}, {"format": "json"}):
        got = await place.post(**fields)
        assert all(isinstance(json.loads(text), dict) for text in texts(got)), got.body
    got = await place.post(structured_outputs={"json_object": False})
    assert texts(got) == ["Hello!"]


async def test_another_name_of_the_limit_is_the_limit(place: Server) -> None:
    for row in rows(place, "limit"):
        got = await place.post(**{row.name: 3})
        assert got.status == 200, got.body
        assert place.engine.requests[-1][1].max_tokens == 3, row.name
        assert (await place.post(**{row.name: -1})).status == 200
        assert place.engine.requests[-1][1].max_tokens > 3, row.name
        bad = await place.post(**{row.name: "many"})
        assert bad.status in (400, 422)
        assert row.name in bad.body.decode()


async def test_another_name_of_a_field_is_that_field(place: Server) -> None:
    others = {row.name for row in KNOWN.values() if row.use == "same"}
    assert others == {"repeat_penalty", "n_cmpl", "random_seed", "min_new_tokens", "no_stop_trim"}
    for name, value, target in (
        ("min_new_tokens", 4, "min_tokens"),
        ("no_stop_trim", True, "include_stop_str_in_output"),
    ):
        got = await place.post(**{name: value})
        assert (got.status == 200) is (target in KINDS[place.route].__struct_fields__), got.body
        if got.status == 200 and name == "min_new_tokens":
            assert place.engine.requests[-1][1].min_tokens == 4
    assert (await place.post(repeat_penalty=1.3)).status == 200
    assert place.engine.requests[-1][1].repetition_penalty == 1.3
    assert (await place.post(random_seed=7)).status == 200
    assert place.engine.requests[-1][1].seed == 7
    several = await place.post(n_cmpl=2)
    if "n" in KINDS[place.route].__struct_fields__:
        assert len(texts(several)) == 2
    else:
        assert "n_cmpl cannot be honoured" in several.body.decode()
        assert (await place.post(n_cmpl=1)).status == 200
    bad = await place.post(repeat_penalty=9)
    assert bad.status in (400, 422)
    assert "repeat_penalty" in bad.body.decode()
    both = await place.post(repeat_penalty=1.3, repetition_penalty=1.1)
    assert both.status in (400, 422)
    assert "repeat_penalty" in both.body.decode()
    assert "repetition_penalty" in both.body.decode()


async def test_on_what_is_harmless_no_answer_depends(place: Server) -> None:
    plain = await place.post()
    sampling = place.engine.requests[-1][1]
    got = await place.post(**{row.name: {"some": ["value"]} for row in rows(place, "harmless")})
    assert got.status == 200, got.body
    assert texts(got) == texts(plain)
    assert place.engine.requests[-1][1] == sampling
    assert "x-antiphon-ignored" not in got.headers


async def test_what_is_told_is_taken_and_named_and_its_usual_value_is_not(place: Server) -> None:
    told = [row for row in KNOWN.values() if row.use == "told" and not row.own]
    assert {"service_tier", "speed", "verbosity", "fallbacks", "prediction", "num_gpu"} <= {row.name for row in told}
    got = await place.post(**{row.name: "flex" for row in told})
    assert got.status == 200, got.body
    assert got.headers["x-antiphon-ignored"] == ", ".join(row.name for row in told)
    usual = await place.post(**{row.name: row.neutral[0] if row.neutral else None for row in told})
    assert "x-antiphon-ignored" not in usual.headers


async def test_what_cannot_be_honoured_is_refused_by_its_name(place: Server) -> None:
    for row in rows(place, "refused"):
        got = await place.post(**{row.name: {"some": ["value"]}})
        assert got.status in (400, 422), (row.name, got.body)
        assert f"{row.name} cannot be honoured" in got.body.decode()
    refused = {
        row.name: [*filter(row.requires_nothing, (None, [], {}, "", *row.neutral))] for row in rows(place, "refused")
    }
    for nothings in zip_longest(*refused.values()):
        taken = await place.post(**dict(zip(refused, nothings, strict=True)))
        assert taken.status == 200, (nothings, taken.body)


@pytest.mark.parametrize(
    ("route", "fields"),
    [
        ("/v1/embeddings", {"model": "minilm", "input": "Hi"}),
        ("/v1/rerank", {"model": "minilm", "query": "Hi", "documents": ["Hi"]}),
        ("/v1/score", {"model": "minilm", "text_1": "Hi", "text_2": "Hi"}),
        ("/tokenize", {"model": "smollm2", "prompt": "Hi"}),
        ("/v1/encode", {"model": "smollm2", "input": "Hi"}),
    ],
)
async def test_what_changes_what_is_read_is_refused_where_nothing_is_written_too(
    route: str, fields: dict[str, Any]
) -> None:
    app = chatting_and_embedding()
    for name in ("truncation_side", "lora", "num_ctx", "normalize", "input_type"):
        got = await post_in_process(app, route, **{**fields, name: 5})
        assert got.status == 400, got.body
        assert f"{name} cannot be honoured" in got.body.decode()
        assert (await post_in_process(app, route, **{**fields, name: None})).status == 200


@pytest.mark.parametrize(("route", "dialect"), [place for place in PLACES[:8] if place != (TEXT, "mindie")])
async def test_a_strict_dialect_takes_no_other_names(route: str, dialect: str) -> None:
    strict = server(route, dialect, strict=True)
    own = KINDS[strict.route].__struct_fields__
    for name in KNOWN.keys() - {*own}:
        got = await strict.post(**{name: CONSTRAINED[name][0][0] if name in CONSTRAINED else 3})
        assert got.status in (400, 422), (name, got.body)
        assert name in got.body.decode()


async def test_two_constraints_at_once_are_refused_and_both_are_named(place: Server) -> None:
    pairs: list[dict[str, Any]] = [
        {"guided_regex": "x", "structured_outputs": {"choice": ["x"]}},
        {"structured_outputs": {"choice": ["x"], "regex": "x"}},
        {"grammar": GBNF, "format": "json"},
    ]
    for fields in pairs:
        got = await place.post(**fields)
        assert got.status in (400, 422), got.body
        assert "constrains the answer" in got.body.decode()
    form = {"type": "json_object"}
    own: dict[str, Any] = {"text": {"format": form}} if place.route == RESPONSES else {"response_format": form}
    got = await place.post(**own, regex="x")
    assert got.status in (400, 422)
    assert "regex" in got.body.decode()


WRONG: list[tuple[dict[str, Any], str]] = [
        ({"structured_outputs": {"json": {"properties": {"x": {"type": "strin"}}}}},
         "structured_outputs.json.properties.x.type"),
        ({"guided_json": {"properties": {"x": {"minItems": 10**9}}}}, "guided_json.properties.x.minItems"),
        ({"guided_json": "{"}, "guided_json"), ({"guided_json": 5}, "guided_json"),
        ({"json_schema": [1]}, "json_schema"), ({"grammar": 'root ::= "a" root'}, "grammar"),
        ({"guided_regex": "(?=x)"}, "guided_regex"), ({"guided_regex": 5}, "guided_regex"),
        ({"regex": "x{100000}"}, "regex"), ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": [""]}, "guided_choice"), ({"guided_choice": [1]}, "guided_choice"),
        ({"structured_outputs": {"choice": "x"}}, "structured_outputs.choice"),
        ({"structured_outputs": {"shape": "x"}}, "structured_outputs.shape"),
        ({"structured_outputs": [1]}, "structured_outputs"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structural_tag": {"format": {"type": "regex", "pattern": ""}}}, "structural_tag.format.pattern"),
        ({"structured_outputs": {"json": {}, "whitespace_pattern": "x+"}}, "structured_outputs.whitespace_pattern"),
        ({"structured_outputs": {"json": {}, "disable_additional_properties": True}},
         "structured_outputs.disable_additional_properties"),
        ({"structural_tag": {"structures": [], "triggers": []}}, "structural_tag"),
        ({"grammar": "root ::= missing"}, "grammar"), ({"grammar": {"type": "regex"}}, "grammar.pattern"),
        ({"grammar": "root ::= root"}, "grammar"), ({"ebnf": "start: x"}, "ebnf"), ({"format": "yaml"}, "format"),
        ({"output_format": {"type": "yaml"}}, "output_format.type"),
        ({"output_config": {"effort": "low"}}, "output_config.effort"),
        ({"response_format": {"type": "json_object", "schema": {"properties": {"x": {"type": "strin"}}}}},
         "response_format.schema.properties.x.type"),
        ({"response_format": {"type": "regex", "pattern": "(?=x)"}}, "response_format.pattern"),
        ({"response_format": {"type": "regex"}}, "response_format.pattern"),
        ({"stop_token_ids": [10**6]}, "stop_token_ids"), ({"stop_token_ids": ["x"]}, "stop_token_ids[0]"),
]  # fmt: skip
"""What is wrong, and the field that says so."""


@pytest.mark.parametrize(
    ("route", "fields", "param"),
    [(route, *wrong) for half in (WRONG, WRONG[::-1]) for route, wrong in zip(cycle(BODIES), half, strict=False)],
    ids=lambda value: str(value)[:60],
)
async def test_an_error_is_at_the_client_s_own_field(route: str, fields: dict[str, Any], param: str) -> None:
    if route == MESSAGES and param == "output_config.effort":
        fields = {"output_config": {"effort": "huge"}}  # the others are its own
    got = await server(route).post(**fields)
    assert got.status == 400, got.body
    if route in (OLLAMA_CHAT, OLLAMA_GENERATE):
        assert param in got.json["error"]  # a sentence is all that there is
    elif route == MESSAGES:
        assert param in got.json["error"]["message"]
    else:
        assert got.error["param"] == param


async def test_a_stop_id_ends_the_answer_and_is_no_part_of_it(place: Server) -> None:
    got = await place.post(stop_token_ids=[ord("o")])
    assert texts(got) == ["Hell"]
    assert any(word in got.body.decode() for word in ('"stop"', "completed", "eos_token", "end_turn"))
    assert ord("o") in place.engine.requests[-1][1].stop_ids


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", [CHAT, TEXT, RESPONSES])
async def test_unknown_names_are_told_in_a_header(route: str, stream: bool) -> None:
    fields = {"frobnicate": 1, "a,b\r\nc": 2, "x" * 500: 3, **{f"unheard of {i}": i for i in range(40)}}
    application = server(route).application
    body = {**BODIES[route], "stream": stream}
    got = await post_in_process(application, route, **body, **fields)
    assert got.status == 200
    named = got.headers["x-antiphon-ignored"]
    assert named.startswith(f"frobnicate, a?b??c, {'x' * 64}, unheard?of?0, ")
    assert named.endswith(", and 23 more")
    assert len(named) < 1000


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("tool_choise", "tool_choice"), ("temprature", "temperature"), ("max_token", "max_tokens"),
        ("maxTokens", "max_tokens"), ("top-p", "top_p"), ("Stream", "stream"), ("responseformat", "response_format"),
        ("guided_jsn", "guided_json"), ("mirostat_taw", "mirostat_tau"), ("presence_penalt", "presence_penalty"),
    ],
)  # fmt: skip
async def test_a_misspelt_name_is_refused_with_the_right_one(name: str, right: str) -> None:
    got = await server(CHAT).post(**{name: 1})
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unknown_parameter", name)
    assert got.error["message"].endswith(f"Did you mean {right}?")


async def test_a_field_inside_an_object_is_told_or_refused_like_one_outside() -> None:
    function: dict[str, Any] = {"name": "f", "parameters": {"properties": {}}, "flavour": 1}
    tool = {"type": "function", "function": function, "cost": 2}
    chat = server(CHAT)
    got = await chat.post(tools=[tool], response_format={"type": "text", "shade": 3})
    assert got.status == 200
    assert got.headers["x-antiphon-ignored"] == "tools[0].function.flavour, tools[0].cost, response_format.shade"
    got = await chat.post(response_format={"type": "regex", "regex": "xyz", "shade": 3})
    assert (texts(got), got.headers["x-antiphon-ignored"]) == (["xyz"], "response_format.shade")
    got = await chat.post(output_format={"type": "json_schema", "schema": SCHEMA, "shade": 3})
    assert (got.status, got.error["param"]) == (400, "output_format.shade")
    function["parametres"] = {}
    got = await chat.post(tools=[tool])
    assert (got.status, got.error["param"]) == (400, "tools[0].function.parametres")
    got = await post_in_process(chat.application, CHAT, messages=[{**HI[0], "images": ["x"], "conten": 1}])
    assert got.headers["x-antiphon-ignored"] == "messages[0].images, messages[0].conten"
    streamed = {**BODIES[CHAT], "stream": True, "stream_options": {"include_usge": True}}
    got = await post_in_process(chat.application, CHAT, **streamed)
    assert (got.status, got.error["param"]) == (400, "stream_options.include_usge")


def test_a_program_without_a_server_is_told_too() -> None:
    read = read_turn_request({"messages": HI, "guided_choice": ["yes", "no"], "n_predict": 5})
    assert read.conversation.response_format is not None
    assert read.conversation.response_format.choices == ("yes", "no")
    assert read.max_tokens == 5
    with pytest.raises(UnsupportedError, match="mirostat cannot be honoured"):
        read_turn_request({"messages": HI, "mirostat": 2})
    with pytest.raises(RequestError, match="Did you mean temperature"):
        read_turn_request({"messages": HI, "temprature": 2})
