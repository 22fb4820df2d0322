"""How long a result may be: its text, its media, what it says of its source, and the errors of tools."""

from __future__ import annotations

import json

import pytest

from antiphon.conversation import End, OpaquePart, TextPart
from antiphon.tools import FunctionTool, Router, ToolCall, ToolError, ToolFailure, ToolLimits, ToolOutput
from antiphon.tools.python.interpreter import IMAGE_BYTES, IMAGES


def call(name: str, body: str = "{}") -> ToolCall:
    return ToolCall(call_id="c1", recipient=f"functions.{name}", body=body)


def flood() -> str:
    """Says far too much."""
    return "ab" * 1_000_000


async def test_a_result_that_is_too_long_is_cut_and_says_so() -> None:
    result = await Router([FunctionTool(flood)], ToolLimits(result=1000)).call(call("flood"))
    assert result.output is not None
    assert result.output.content.startswith("ab" * 500 + "\n[cut: 1,999,000 of 2,000,000 characters left out]")
    assert result.envelope()["provenance"] == {"truncated": True, "characters": 2_000_000}


def pictures(*sizes: int) -> FunctionTool:
    def draw() -> ToolOutput:
        """Draws."""
        media = tuple(OpaquePart("image", {"mime": "image/png", "base64": "A" * size}) for size in sizes)
        return ToolOutput(content="Drawn.", media=media)

    return FunctionTool(draw)


async def test_media_that_are_too_large_are_left_out_and_that_is_said() -> None:
    """A picture is whole or not there; those that fit stay, in their order."""
    result = await Router([pictures(500, 2000, 300)], ToolLimits(media=1000)).call(call("draw"))
    shown = [part.data for part in result.message().parts if isinstance(part, OpaquePart)]
    assert [len(picture["base64"]) for picture in shown] == [500, 300]
    assert result.text(envelope=False) == "Drawn.\n[too large: 1 of 3 images or other media left out]"
    assert result.envelope()["provenance"] == {"truncated": True, "media_left_out": 1}


@pytest.mark.parametrize(
    "data", ["A" * 1001, b"A" * 1001, {"A" * 1001: ""}, ["AAAA"] * 201, {"parts": [{"a": "A" * 999}]}]
)
async def test_media_of_any_shape_are_measured(data: object) -> None:
    def show() -> ToolOutput:
        """Shows."""
        return ToolOutput(content={"shown": 1}, media=(OpaquePart("image", data),))

    result = await Router([FunctionTool(show)], ToolLimits(media=1000)).call(call("show"))
    assert result.output is not None
    assert result.output.media == ()
    assert result.text(envelope=False) == '{"shown": 1}\n[too large: 1 of 1 images or other media left out]'


async def test_media_that_fit_stay_as_they_are() -> None:
    result = await Router([pictures(400, 400)], ToolLimits(media=1000)).call(call("draw"))
    assert result.output is not None
    assert (result.output.content, len(result.output.media), result.output.provenance) == ("Drawn.", 2, {})


async def test_the_pictures_that_code_may_draw_fit() -> None:
    most = -(-IMAGE_BYTES // 3) * 4
    result = await Router([pictures(*[most] * IMAGES)]).call(call("draw"))
    assert result.output is not None
    assert len(result.output.media) == IMAGES


async def test_a_result_as_long_as_the_limit_is_whole() -> None:
    def letters(count: int) -> str:
        """Says so many letters."""
        return "a" * count

    limited = Router([FunctionTool(letters)], ToolLimits(result=1000))
    whole = await limited.call(call("letters", '{"count": 1000}'))
    assert whole.text(envelope=False) == "a" * 1000
    assert whole.envelope()["provenance"] == {}
    cut = await limited.call(call("letters", '{"count": 1001}'))
    assert cut.text(envelope=False) == "a" * 1000 + "\n[cut: 1 of 1,001 characters left out]"


async def test_a_result_that_is_no_text_is_cut_as_its_json() -> None:
    def numbers() -> list[int]:
        """Many."""
        return [7] * 10

    fits = await Router([FunctionTool(numbers)], ToolLimits(result=30)).call(call("numbers"))
    assert fits.output is not None
    assert fits.output.content == [7] * 10
    cut = await Router([FunctionTool(numbers)], ToolLimits(result=29)).call(call("numbers"))
    assert cut.text(envelope=False).startswith("[7, 7, 7, 7, 7, 7, 7, 7, 7, 7\n[cut: 1 of 30")


async def test_media_go_with_the_text_of_a_reply() -> None:
    picture = OpaquePart("image", {"mime": "image/png", "base64": ""})

    async def draws() -> ToolOutput:
        """Draws."""
        return ToolOutput(content="drawn", media=(picture,), provenance={"source": "me"})

    drawn = await Router([FunctionTool(draws)]).call(call("draws"))
    message = drawn.message()
    assert message.parts == (TextPart("drawn"), picture)
    assert (message.text, message.end) == ("drawn", End.END)
    assert (await Router([FunctionTool(flood)]).call(call("flood"))).message().parts == ()
    assert json.loads(drawn.text(envelope=True))["provenance"] == {"source": "me"}


async def test_the_error_of_a_tool_is_as_long_as_a_result_at_most() -> None:
    def fails(count: int) -> None:
        """Fails, and says much of it."""
        raise ToolFailure(ToolError("E-TOOL-FAILED", "w" * count, details={"trace": "t" * count}))

    limited = Router([FunctionTool(fails)], ToolLimits(result=1000))
    whole = await limited.call(call("fails", '{"count": 900}'))
    assert whole.error == ToolError("E-TOOL-FAILED", "w" * 900, details={"trace": "t" * 900})
    cut = await limited.call(call("fails", '{"count": 5000}'))
    assert cut.error == ToolError("E-TOOL-FAILED", "w" * 1000 + " [cut: 4,000 characters left out]")


async def test_what_a_result_says_of_its_source_is_as_long_as_a_result_at_most() -> None:
    def cites(count: int) -> ToolOutput:
        """Cites."""
        return ToolOutput(content="cited", provenance={"source": "s" * count})

    limited = Router([FunctionTool(cites)], ToolLimits(result=1000))
    assert (await limited.call(call("cites", '{"count": 900}'))).envelope()["provenance"] == {"source": "s" * 900}
    assert (await limited.call(call("cites", '{"count": 1001}'))).envelope()["provenance"] == {"truncated": True}
