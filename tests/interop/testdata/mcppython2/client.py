"""Asks the MCP servers of a host, and prints what this client saw as JSON.

client.py BASE KEY WAY COMMAND: WAY is http, or stdio or signed by the program COMMAND.
"""
import asyncio
import contextlib
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

base, key, way, command = sys.argv[1:5]


def program(path, secret):
    """Starts the server of a path: a guest's, or a payer's."""
    args = ["mcp"] + ([] if path == "/mcp" else [path.split("/")[2]]) + ["--host", base]
    if way == "signed":
        args += ["--as", "payer" if secret else "guest"]
    return StdioServerParameters(command=command, args=args, env={"VACANCY_KEY": secret} if way == "stdio" and secret else {})


def connect(path, secret=""):
    if way != "http":
        return Client(program(path, secret))
    if secret:
        return Client(streamable_http_client(base + path, http_client=httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=60)))
    return Client(base + path)


def text(result):
    content = result.structured_content or {}
    said = result.content[0].text if result.content else ""
    return f"refused {content.get('code')}" if result.is_error else said.split(": ", 1)[-1]


async def main():
    seen = {}

    async def ask(name, agent, arguments, tool="ask", secret="", pieces=None, on=None):
        async def progress(_done, _total, message):
            pieces.append(message)

        try:
            async with contextlib.nullcontext(on) if on else connect(f"/v/{agent}/mcp" if agent else "/mcp", secret) as client:
                result = await client.call_tool(tool, arguments, progress_callback=progress if pieces is not None else None)
                seen[name] = text(result)
                return result
        except BaseException as e:  # a group of one
            while getattr(e, "exceptions", None):
                e = e.exceptions[0]
            seen[name] = f"error {e}"

    async with connect("/v/echo/mcp") as client:
        tools = await client.list_tools()
        seen["tools"] = " ".join(sorted(t.name for t in tools.tools))
        seen["card"] = "none"
        if way != "signed":
            resources = await client.list_resources()
            card = await client.read_resource(resources.resources[0].uri)
            seen["card"] = json.loads(card.contents[0].text)["name"]
        seen["era"] = str(client.protocol_version)
    async with connect("/mcp") as client:
        seen["host"] = " ".join(sorted(t.name for t in (await client.list_tools()).tools))
    first = await ask("ask", "echo", {"message": "hi"})
    await ask("follow", "echo", {"message": "again", "context": first.structured_content["context"]})
    pieces = []
    await ask("slow", "slow", {"message": "hi"}, pieces=pieces)
    seen["pieces"] = "|".join(pieces)
    await ask("refused", "failing", {"message": "hi"})
    await ask("unpaid", "priced", {"message": "hi"})
    paid = await ask("paid", "priced", {"message": "hi"}, secret=key)
    seen["price"] = str(paid.structured_content["price"])
    if way != "signed":
        await ask("bad key", "echo", {"message": "hi"}, secret="nobody")
        await ask("unknown", "nobody", {"message": "hi"})
    found = await ask("search", "", {"query": "Netz"}, tool="search_agents")
    seen["search"] = " ".join(sorted(a["agent"] for a in found.structured_content["agents"]))
    await ask("ask agent", "", {"agent": "priced", "message": "hi"}, tool="ask_agent", secret=key)
    async with connect("/v/late/mcp") as on:
        late = (await ask("late", "late", {"message": "hi"}, on=on)).structured_content
        seen["late"] = late.get("state")
        await ask("fetched", "late", {"task": late["task"], "wait": 20}, tool="get_task", on=on)
    print(json.dumps(seen))


asyncio.run(main())
