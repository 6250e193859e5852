"""Asks the MCP servers of a host, and prints what this client saw as JSON."""
import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

base, key = sys.argv[1], sys.argv[2]


def text(result):
    content = result.structured_content or {}
    said = result.content[0].text if result.content else ""
    return f"refused {content.get('code')}" if result.is_error else said.split(": ", 1)[-1]


async def main():
    seen = {}

    async def ask(name, agent, arguments, tool="ask", secret="", pieces=None):
        path = f"{base}/v/{agent}/mcp" if agent else f"{base}/mcp"
        server = path
        if secret:
            server = streamable_http_client(path, http_client=httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=60))

        async def progress(_done, _total, message):
            pieces.append(message)

        try:
            async with Client(server) as client:
                result = await client.call_tool(tool, arguments, progress_callback=progress if pieces is not None else None)
                seen[name] = text(result)
                return result
        except BaseException as e:  # a group of one
            while getattr(e, "exceptions", None):
                e = e.exceptions[0]
            seen[name] = f"error {e}"

    async with Client(f"{base}/v/echo/mcp") as client:
        tools = await client.list_tools()
        seen["tools"] = " ".join(sorted(t.name for t in tools.tools))
        resources = await client.list_resources()
        card = await client.read_resource(resources.resources[0].uri)
        seen["card"] = json.loads(card.contents[0].text)["name"]
        seen["era"] = str(client.protocol_version)
    async with Client(f"{base}/mcp") as client:
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
    await ask("bad key", "echo", {"message": "hi"}, secret="nobody")
    await ask("unknown", "nobody", {"message": "hi"})
    found = await ask("search", "", {"query": "Netz"}, tool="search_agents")
    seen["search"] = " ".join(sorted(a["agent"] for a in found.structured_content["agents"]))
    await ask("ask agent", "", {"agent": "priced", "message": "hi"}, tool="ask_agent", secret=key)
    late = await ask("late", "late", {"message": "hi"})
    late = late.structured_content
    seen["late"] = late.get("state")
    await ask("fetched", "late", {"task": late["task"], "wait": 20}, tool="get_task")
    print(json.dumps(seen))


asyncio.run(main())
