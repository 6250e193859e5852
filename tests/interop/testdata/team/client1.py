"""Manages a team of agents by MCP, and prints what this client saw as JSON.

client1.py BASE SECRET WAY COMMAND: WAY is http, or stdio by the program COMMAND.
"""
import asyncio
import contextlib
import json
import sys

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

base, secret, way, command = sys.argv[1:5]


@contextlib.asynccontextmanager
async def connect():
    transport = stdio_client(StdioServerParameters(command=command, args=["mcp", "--host", base], env={"VACANCY_KEY": secret}))
    if way == "http":
        transport = streamablehttp_client(base + "/mcp", headers={"Authorization": f"Bearer {secret}"}, timeout=60)
    async with transport as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield session


async def main():
    seen = {}
    async with connect() as session:

        async def call(name, arguments):
            result = await session.call_tool(name, arguments)
            text = result.content[0].text
            if result.isError:
                return {"refused": text}
            assert json.loads(text) == result.structuredContent, name
            return result.structuredContent

        async def end(started):
            while True:
                s = await call("get_task_status", {"task_id": started["taskId"]})
                if s["status"] not in ("pending", "working"):
                    return f"{s['status']} {s.get('question') or s['result']['response'].split(': ')[-1]}"
                await asyncio.sleep(0.1)

        for t in (await session.list_tools()).tools:
            if t.name in ("list_agents", "dispatch_agent", "get_task_status", "cancel_task", "answer_task", "get_locks"):
                hints = [h for h in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint") if getattr(t.annotations, h)]
                seen[f"tool {t.name}"] = f"{t.title} ({' '.join(t.inputSchema.get('required', []))}) {' '.join(hints)}".strip()
        agents = (await call("list_agents", {"unknown": 1}))["agents"]
        seen["agents"] = ", ".join(sorted(f"{a['name']} {a['tier']} {a['description']}" for a in agents if not a["name"].startswith("late")))
        resources = (await session.list_resources()).resources
        seen["resources"] = " ".join(sorted(str(r.uri) for r in resources if "late" not in str(r.uri)))
        seen["templates"] = " ".join(t.uriTemplate for t in (await session.list_resource_templates()).resourceTemplates)
        writer = next(r.uri for r in resources if r.name == "writer")
        seen["read"] = json.loads((await session.read_resource(writer)).contents[0].text)["default_mode"]
        try:
            await session.read_resource(type(writer)("agents://nobody"))
            seen["read unknown"] = "read"
        except McpError:
            seen["read unknown"] = "error"
        started = await call("dispatch_agent", {"agent": "writer", "task": "hi", "mode": "read-only", "model": None})
        seen["dispatch"] = f"{started['status']} {started['agent']} {started['mode']}"
        seen["result"] = await end(started)
        asked = await call("dispatch_agent", {"agent": "painter", "task": "paint"})
        seen["question"] = await end(asked)
        seen["answer"] = (await call("answer_task", {"task_id": asked["taskId"], "text": "blue"}))["agent"]
        seen["answered"] = await end(asked)
        stopped = await call("dispatch_agent", {"agent": "sleeper", "task": "hi"})
        seen["cancel"] = (await call("cancel_task", {"task_id": stopped["taskId"]}))["status"]
        seen["cancel again"] = (await call("cancel_task", {"task_id": stopped["taskId"]}))["status"]
        seen["locks"] = str((await call("get_locks", {}))["count"])
        seen["refused"] = (await call("dispatch_agent", {"agent": "nobody", "task": "hi"}))["refused"]
    print(json.dumps(seen))


asyncio.run(main())
