"""An MCP server with too many tools and odd answers, for the tests: over stdio."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.types import AudioContent, CallToolResult, ImageContent, TextContent

server = MCPServer("odd")
LETTER = "aGk="
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNIBgAAZQBkEuR45QAAAABJRU5ErkJggg=="


@server.tool(structured_output=False)
def media() -> CallToolResult:
    """Shows a picture and a sound between two lines."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="before"),
            ImageContent(type="image", data=PIXEL, mime_type="image/png"),
            AudioContent(type="audio", data=LETTER, mime_type="audio/wav"),
            TextContent(type="text", text="after"),
        ]
    )


@server.tool(structured_output=False)
def mute() -> CallToolResult:
    """Fails without a word."""
    return CallToolResult(content=[], is_error=True)


@server.tool()
def structured(count: int) -> dict[str, list[int]]:
    """Answers with data."""
    return {"numbers": list(range(count))}


@server.tool(name="a name.with/odd letters and " + "x" * 60)
def odd_name() -> str:
    return "odd"


def nothing() -> str:
    return ""


for number in range(300):
    server.add_tool(nothing, name=f"more{number}")

if __name__ == "__main__":
    server.run()
