"""An MCP server for tests: over its standard streams, or at the port given to it."""

import os
import sys

from mcp.server import MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent

server = MCPServer("weather", log_level="CRITICAL")


@server.tool()
def get_weather(city: str, unit: str = "C") -> str:
    """What the weather is, and who says so; some cities are dangerous."""
    if city == "Atlantis":
        raise ValueError("sunk")
    if city == "Pompeii":
        os._exit(3)
    if city == "Babel":
        return "x" * 3_000_000
    return f"{city!a}: 20 {unit}, says {os.getpid()}"


@server.tool()
def double(n: int, plus: float = 0.0, wish: bool = False, of: list[int] | None = None) -> str:
    return f"{2 * n + plus} {wish}"


@server.tool()
def picture(city: str) -> CallToolResult:
    parts: list[TextContent | ImageContent] = [
        ImageContent(type="image", data="AAAA", mime_type="image/png")
    ]
    if city:
        parts += [TextContent(type="text", text=line) for line in (city, "seen from above")]
    return CallToolResult(content=list(parts))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
