"""Call the tools of MCP servers through mcpdeck.

The client starts ``mcpdeck serve`` as a child process, or speaks to a running one. It needs nothing
but the standard library.

    async with MCPDeck(config="mcp.json") as deck:
        tools = await deck.get_tools()
        result = await deck.call_tool("files.read_text_file", {"path": "notes.txt"})
"""

from .client import (
    Callback,
    Event,
    MCPDeck,
    MCPDeckError,
    Prompt,
    Resource,
    Server,
    Tool,
    ToolResult,
)

__all__ = [
    "Callback",
    "Event",
    "MCPDeck",
    "MCPDeckError",
    "Prompt",
    "Resource",
    "Server",
    "Tool",
    "ToolResult",
]
