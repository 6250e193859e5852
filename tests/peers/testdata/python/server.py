"""An MCP server of the PyPI SDK with the tools look, which only reads, and write."""

import socket

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

trial = MCPServer("trial")


@trial.tool(description="Does look", annotations=ToolAnnotations(readOnlyHint=True))
def look() -> str:
    return "look by session"


@trial.tool(description="Does write", annotations=ToolAnnotations(readOnlyHint=False))
def write() -> str:
    return "write by session"


listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
uvicorn.Server(uvicorn.Config(trial.streamable_http_app(), log_level="warning")).run(sockets=[listener])
