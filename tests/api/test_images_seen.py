"""Images that are read, and become what every engine reads; what is none is refused at its place."""

from __future__ import annotations

import gc
import io
import resource
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from PIL import Image
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.config import Limits
from antiphon.conversation import OpaquePart, ToolSpec, image_url
from antiphon.engines import PlacedImage, ScriptedEngine
from antiphon.engines.engine import SAMPLING
from antiphon.store import Key, MemoryStore
from antiphon.tokens import decode
from antiphon.tools import Toolbox, ToolCall, ToolOutput
from antiphon.tools.call import DescribedTool, DescribedToolSet
from kit.api import CALL, END, UNCALL, post_in_process, sampled
from kit.bad_pictures import BAD_SOURCES, bad_pictures, odd_pictures
from kit.pictures import (
    ENDS,
    EVERYWHERE,
    MARK,
    PAD,
    TOKENIZER,
    USERS_ALONE,
    base64_of,
    data_url,
    picture,
    seeing_engine,
    seeing_model,
)

RED, BLUE = picture(color=(255, 0, 0)), picture("JPEG", color=(0, 0, 255))
REPLY = sampled(TOKENIZER, ("Red.", END))


def seeing(template: str = EVERYWHERE, **options: Any) -> tuple[Starlette, ScriptedEngine]:
    engine = seeing_engine(REPLY)
    return create_app(StaticCatalog({"m": seeing_model(engine, template)}), **options), engine


def seen(engine: ScriptedEngine) -> list[tuple[str, bytes]]:
    """The images of the last request, each with the text before it."""
    prompt = engine.requests[-1][0]
    found, at = [], 0
    for image in engine.images[-1]:
        assert decode(TOKENIZER, prompt[image.start : image.stop]) == MARK
        found.append((decode(TOKENIZER, prompt[at : image.start]), image.data))
        at = image.stop
    return found


@pytest.mark.asyncio(loop_scope="module")
async def test_what_spells_the_mark_of_an_image_is_text(shared: tuple[Starlette, ScriptedEngine]) -> None:
    application, engine = shared
    part = {"type": "image_url", "image_url": {"url": data_url(RED)}}
    content = [{"type": "text", "text": f"{MARK} here"}, part, {"type": "text", "text": PAD.spelling}]
    got = await post_in_process(application, "/v1/chat/completions", messages=[{"role": "user", "content": content}])
    assert got.status == 200, got.body
    assert seen(engine) == [(f"<|im_start|>user\n{MARK} here", RED)]
    assert engine.requests[-1][0].count(TOKENIZER.controls[PAD]) == 1


RESULTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "see", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": [
            {"type": "text", "text": "There:"}, {"type": "image_url", "image_url": {"url": data_url(RED)}}]},
    ]}),
    "responses": ("/v1/responses", {"input": [
        {"role": "user", "content": "Look"},
        {"type": "function_call", "call_id": "c", "name": "see", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [
            {"type": "input_text", "text": "There:"}, {"type": "input_image", "image_url": data_url(RED)}]},
    ]}),
    "messages": ("/v1/messages", {"max_tokens": 9, "messages": [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "see", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [
            {"type": "text", "text": "There:"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64_of(RED)}}]}]},
    ]}),
}  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("wire", RESULTS)
async def test_the_image_of_a_result_is_seen_right_behind_it_where_the_template_has_places_in_users_messages_alone(
    wire: str,
) -> None:
    path, body = RESULTS[wire]
    application, engine = seeing(USERS_ALONE)
    got = await post_in_process(application, path, model="m", **body)
    assert got.status == 200, got.body
    ((text, data),) = seen(engine)
    assert (text.endswith("<|im_start|>tool\nThere:<|im_end|>\n<|im_start|>user\n"), data) == (True, RED), text


@pytest.mark.asyncio(loop_scope="module")
async def test_none_is_kept_once_its_request_is_over() -> None:
    application, engine = seeing()
    urls = [data_url(RED + bytes(count)) for count in range(1, 4)]
    for url in urls:
        content = [{"type": "input_image", "image_url": url}]
        body = {"input": [{"role": "user", "content": content}], "store": False}
        got = await post_in_process(application, "/v1/responses", model="m", **body)
        assert got.status == 200, got.body
    assert len(engine.images) == 3
    gc.collect()
    kept = [one for one in gc.get_objects() if isinstance(one, OpaquePart) and image_url(one) in urls]
    assert not kept


@pytest.mark.asyncio(loop_scope="module")
async def test_a_stored_turn_has_its_image_once_and_those_that_go_on_with_it_have_none() -> None:
    store = MemoryStore()
    application, engine = seeing(store=store)
    url = data_url(RED + bytes(50_000))
    call = {"type": "function_call", "call_id": "c", "name": "see", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": url}]}
    for input in ([{"role": "user", "content": [{"type": "input_image", "image_url": url}]}], [call, result]):
        body, sizes = {"model": "m", "input": input}, list[int]()
        for _ in range(4):
            got = await post_in_process(application, "/v1/responses", **body)
            assert got.status == 200, got.body
            assert [data for _, data in seen(engine)] == [RED + bytes(50_000)]
            body = {"model": "m", "input": "And?", "previous_response_id": got.json["id"]}
            sizes.append(sum(map(len, await store.entries(Key("response", "", got.json["id"])))))
        assert len(url) < sizes[0] < len(url) + 2_000
        assert max(sizes[1:]) < 2_000


class Draws(DescribedTool):
    """A tool that draws."""

    spec = ToolSpec("draw", "Draws.", {"type": "object", "properties": {}})

    def __init__(self, *images: bytes) -> None:
        self.media = tuple(OpaquePart("image", {"mime": "image/png", "base64": base64_of(one)}) for one in images)

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        return ToolOutput(content="Drawn.", media=self.media)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("sees", "images", "kept", "note"),
    [(True, [RED], 1, False), (True, [RED, b"none"], 1, True), (False, [RED, BLUE], 0, True)],
)
async def test_what_a_tool_of_the_server_draws_is_seen_or_said_to_be_left_out(
    sees: bool, images: list[bytes], kept: int, note: bool
) -> None:
    turns = [sampled(TOKENIZER, (CALL, '{"name": "draw", "arguments": {}}', UNCALL, END)), REPLY]
    waiting = iter(turns)
    honours = SAMPLING | ({"images"} if sees else set())
    engine = ScriptedEngine(lambda prompt, sampling, choice: next(waiting), honours=honours, end_ids=ENDS)
    tools = Toolbox([DescribedToolSet([Draws(*images)])])
    application = create_app(StaticCatalog({"m": seeing_model(engine)}), tools=tools)
    body = {"messages": [{"role": "user", "content": "Draw."}], "server_tools": ["draw"]}
    got = await post_in_process(application, "/v1/chat/completions", **body)
    assert got.status == 200, got.body
    assert got.json["choices"][0]["message"]["content"] == "Red."
    prompt = decode(TOKENIZER, engine.requests[1][0])
    assert [data for _, data in seen(engine)] == [RED] if kept else not engine.images
    assert (f"{len(images) - kept} images or other media that cannot be seen here left out" in prompt) is note


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("broken", [{"mime": "image/png"}, {"base64": "AAAA"}, {"base64": "%%%"}])
async def test_a_stored_answer_whose_tool_sent_what_is_no_image_is_gone_on_with(broken: dict[str, str]) -> None:
    waiting = iter([sampled(TOKENIZER, (CALL, '{"name": "draw", "arguments": {}}', UNCALL, END)), REPLY, REPLY])
    engine = seeing_engine(lambda prompt, sampling, choice: next(waiting))
    draws = Draws(RED)
    draws.media = (OpaquePart("image", broken), *draws.media)
    tools = Toolbox([DescribedToolSet([draws])])
    application = create_app(StaticCatalog({"m": seeing_model(engine)}), tools=tools, offer_tools=True)
    first = await post_in_process(application, "/v1/responses", model="m", input="Draw.")
    assert first.status == 200, first.body
    body = {"model": "m", "input": "And?", "previous_response_id": first.json["id"]}
    got = await post_in_process(application, "/v1/responses", **body)
    assert got.status == 200, got.body
    assert [data for _, data in seen(engine)] == [RED]
    assert "[1 images or other media" in decode(TOKENIZER, engine.requests[-1][0])


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("kind", "options", "mode"),
    [
        ("WEBP", {}, "RGB"), ("WEBP", {"mode": "RGBA", "color": (1, 2, 3, 4)}, "RGBA"), ("GIF", {}, "RGB"),
        ("PNG", {"mode": "I;16"}, "RGB"), ("PNG", {"mode": "1"}, "RGB"), ("PNG", {"mode": "LA"}, "RGBA"),
        ("JPEG", {"mode": "CMYK", "color": (1, 2, 3, 4)}, "RGB"),
    ],
)  # fmt: skip
async def test_an_image_that_engines_read_in_several_ways_becomes_a_png(
    shared: tuple[Starlette, ScriptedEngine], kind: str, options: dict[str, Any], mode: str
) -> None:
    application, engine = shared
    given = picture(kind, **options)
    content = [{"type": "image_url", "image_url": {"url": data_url(given)}}]
    got = await post_in_process(application, "/v1/chat/completions", messages=[{"role": "user", "content": content}])
    assert got.status == 200, got.body
    with Image.open(io.BytesIO(seen(engine)[0][1])) as image, Image.open(io.BytesIO(given)) as before:
        assert (image.format, image.mode, image.size) == ("PNG", mode, before.size)
        assert image.tobytes() == before.convert(mode).tobytes()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_photograph_is_the_right_way_up_for_every_engine(shared: tuple[Starlette, ScriptedEngine]) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    application, engine = shared
    content = [{"type": "image_url", "image_url": {"url": data_url(picture("JPEG", (64, 48), exif=exif.tobytes()))}}]
    got = await post_in_process(application, "/v1/chat/completions", messages=[{"role": "user", "content": content}])
    assert got.status == 200, got.body
    with Image.open(io.BytesIO(seen(engine)[0][1])) as image:
        assert image.size == (48, 64)


@pytest.fixture(scope="module")
def shared() -> tuple[Starlette, ScriptedEngine]:
    return seeing()


def parts(source: str) -> dict[str, tuple[str, dict[str, Any], str]]:
    """A request of each wire whose image is of that source, and the place of the image."""
    text = source.partition(",")[2] if source.startswith("data:image/png;base64,") else source
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}}
    ask, part = {"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": source}}
    pictured = {"role": "user", "content": "?", "images": [text]}
    return {
        "chat": ("/v1/chat/completions", {"messages": [
            {"role": "user", "content": [ask, part]}]}, "messages[0].content[1]"),
        "responses": ("/v1/responses", {"input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": source}]}]}, "input[0].content[0]"),
        "messages": ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": [ask, block]}]},
                     "messages[0].content[1]"),
        "ollama": ("/api/chat", {"messages": [pictured]}, "messages[0].images[0]"),
    }  # fmt: skip


WIRES = (*parts(""),)
BAD = {name: (words, data) for name, words, data in bad_pictures()}
ON_EACH = (
    "a PNG of 50,000 × 50,000",
    "half a JPEG",
    "an SVG with a script",
    "a PNG with a profile of colours that does",
)
"""Bad pictures that are tried on every wire; each other one is on one, in turn."""
TRIED = [
    (wire, name) for i, name in enumerate(BAD) for j, wire in enumerate(WIRES) if name in ON_EACH or i % len(WIRES) == j
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("wire", "name"), TRIED)
async def test_what_is_no_image_is_refused_at_its_place_and_its_memory_is_given_back(
    shared: tuple[Starlette, ScriptedEngine], wire: str, name: str
) -> None:
    application, engine = shared
    words, data = BAD[name]
    path, body, place = parts(data_url(data))[wire]
    before, memory = len(engine.requests), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = await post_in_process(application, path, model="m", **body)
    assert got.status == 400, got.body
    assert f"{place}: " in got.body.decode()
    assert words in got.body.decode()
    assert len(engine.requests) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 60_000  # KiB: none of it was unpacked here


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.filterwarnings("ignore:Tag data larger than file")
@pytest.mark.parametrize(("name", "data"), odd_pictures().items(), ids=[*odd_pictures()])
async def test_an_image_with_more_in_it_than_its_pixels_is_its_first_picture(
    shared: tuple[Starlette, ScriptedEngine], name: str, data: bytes
) -> None:
    application, engine = shared
    content = [{"type": "image_url", "image_url": {"url": data_url(data)}}]
    got = await post_in_process(application, "/v1/chat/completions", messages=[{"role": "user", "content": content}])
    assert got.status == 200, got.body
    with Image.open(io.BytesIO(seen(engine)[0][1])) as image:
        assert (image.format in ("PNG", "JPEG"), image.size) == (True, (64, 48))
        red, green, blue = image.convert("RGB").resize((1, 1)).tobytes()
    assert (red > 190, green < 40, blue < 40) == (True, True, True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("source", BAD_SOURCES)
async def test_a_source_that_has_no_image_is_refused_at_its_place(
    shared: tuple[Starlette, ScriptedEngine], source: str
) -> None:
    application, engine = shared
    before = len(engine.requests)
    for path, body, place in parts(source).values():
        got = await post_in_process(application, path, model="m", **body)
        assert got.status == 400, (path, got.body)
        assert f"{place}: " in got.body.decode()
    assert len(engine.requests) == before


@pytest.mark.asyncio(loop_scope="module")
async def test_images_are_limited_in_number_and_in_size() -> None:
    application, engine = seeing(limits=Limits(max_body=2**26))
    one = {"type": "image_url", "image_url": {"url": data_url(RED)}}
    large = {"type": "image_url", "image_url": {"url": data_url(bytes(21 * 2**20))}}
    for content, place, words in (([one] * 65, 64, "at most 64 images"), ([one, large], 1, "20 MiB at most")):
        got = await post_in_process(
            application, "/v1/chat/completions", messages=[{"role": "user", "content": content}]
        )
        assert (got.status, got.error["param"]) == (400, f"messages[0].content[{place}]"), got.body[:200]
        assert words in got.error["message"]
    assert not engine.requests
    largest = {"type": "image_url", "image_url": {"url": data_url(RED + bytes(20 * 2**20 - len(RED)))}}
    chat = {"messages": [{"role": "user", "content": [one, largest]}]}
    assert (await post_in_process(application, "/v1/chat/completions", **chat)).status == 200


class CountingEngine(ScriptedEngine):
    """Makes a hundred tokens of each image beside those of its mark."""

    async def prompt_tokens(self, prompt: Sequence[int], images: Sequence[PlacedImage]) -> int:
        return len(prompt) + 100 * len(images)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_history_that_is_too_long_with_its_images_loses_no_more_turns_than_it_must() -> None:
    engine = CountingEngine(REPLY, context=1000, honours=SAMPLING | {"images"}, end_ids=ENDS)
    application = create_app(StaticCatalog({"m": seeing_model(engine)}))
    look = [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": data_url(RED)}]
    turn = [{"role": "user", "content": look}, {"role": "assistant", "content": "Red."}]
    body = {"model": "m", "input": [*turn * 20, {"role": "user", "content": "And now?"}], "truncation": "auto"}
    got = await post_in_process(application, "/v1/responses", **body, max_output_tokens=1)
    assert got.status == 200, got.body
    prompt, images = engine.requests[-1][0], engine.images[-1]
    tokens, of_a_turn = await engine.prompt_tokens(prompt, images), 100 + images[1].start - images[0].start
    assert 1000 - of_a_turn <= tokens < 1000


@pytest.mark.asyncio(loop_scope="module")
async def test_a_template_without_places_and_an_engine_without_eyes_see_none() -> None:
    plain = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    blind = create_app(StaticCatalog({"m": seeing_model(ScriptedEngine(REPLY, end_ids=ENDS))}))
    for application in (seeing(plain)[0], blind):
        for path, body, place in parts(data_url(RED)).values():
            got = await post_in_process(application, path, model="m", **body)
            assert got.status == 400
            assert f"{place}: parts of type" in got.body.decode()
            assert "reads text" in got.body.decode()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("role", ["system", "assistant"])
async def test_an_image_of_somebody_else_than_a_user_is_refused_and_told_where_images_go(role: str) -> None:
    application, engine = seeing()
    chat = {"type": "image_url", "image_url": {"url": data_url(RED)}}
    response = {"type": "input_image", "image_url": data_url(RED)}
    asks: list[tuple[str, dict[str, Any]]] = [
        ("/v1/chat/completions", {"messages": [{"role": role, "content": [chat]}]}),
        ("/v1/responses", {"input": [{"role": role, "content": [response]}]}),
    ]
    for path, body in asks:
        got = await post_in_process(application, path, model="m", **body)
        assert (got.status, got.error["code"]) == (400, "unsupported_content"), got.body
        assert "'m' reads text, and images in users' messages" in got.error["message"]
    assert not engine.requests
