"""Manages a team of agents by MCP, and prints what this client saw as JSON.

client2.py BASE SECRET WAY COMMAND OWNER: WAY is http, or stdio by the program COMMAND. OWNER is a key that creates
an agent, by COMMAND.
"""
import asyncio
import json
import os
import random
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

base, secret, way, command, owner = sys.argv[1:6]


def connect():
    if way == "stdio":
        return Client(StdioServerParameters(command=command, args=["mcp", "--host", base], env={"VACANCY_KEY": secret}))
    return Client(streamable_http_client(base + "/mcp", http_client=httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=60)))


async def main():
    seen = {}
    async with connect() as client:

        async def call(name, arguments):
            result = await client.call_tool(name, arguments)
            text = result.content[0].text
            if result.is_error:
                return {"refused": text}
            assert json.loads(text) == result.structured_content, name
            return result.structured_content

        async def end(started):
            while True:
                s = await call("get_task_status", {"task_id": started["taskId"]})
                if s["status"] not in ("pending", "working"):
                    return f"{s['status']} {s.get('question') or s['result']['response'].split(': ')[-1]}"
                await asyncio.sleep(0.1)

        for t in (await client.list_tools()).tools:
            if t.name in ("list_agents", "dispatch_agent", "get_task_status", "cancel_task", "answer_task", "get_locks"):
                hints = [h for h in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint") if t.annotations.model_dump(by_alias=True).get(h)]
                seen[f"tool {t.name}"] = f"{t.title} ({' '.join(t.input_schema.get('required', []))}) {' '.join(hints)}".strip()
        agents = (await call("list_agents", {"unknown": 1}))["agents"]
        seen["agents"] = ", ".join(sorted(f"{a['name']} {a['tier']} {a['description']}" for a in agents if not a["name"].startswith("late")))
        resources = (await client.list_resources()).resources
        seen["resources"] = " ".join(sorted(str(r.uri) for r in resources if "late" not in str(r.uri)))
        seen["templates"] = " ".join(t.uri_template for t in (await client.list_resource_templates()).resource_templates)
        seen["read"] = json.loads((await client.read_resource("agents://writer")).contents[0].text)["default_mode"]
        try:
            await client.read_resource("agents://nobody")
            seen["read unknown"] = "read"
        except Exception:
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
        if way == "stdio":
            name = f"late-{random.randrange(1 << 32)}"
            async with client.listen(resources_list_changed=True) as changes:
                create = await asyncio.create_subprocess_exec(
                    command, "create", name, "--capability", "comes later", "--substrate", "echo", "--host", base, "--no-check",
                    env={**os.environ, "VACANCY_KEY": owner}, stdout=asyncio.subprocess.DEVNULL,
                )
                assert await create.wait() == 0
                try:
                    await asyncio.wait_for(anext(changes), 6)
                    seen["changed"] = "told"
                except TimeoutError:
                    seen["changed"] = "not told within 6 s"
                resources = (await client.list_resources()).resources
                seen["listed then"] = str(any(str(r.uri) == f"agents://{name}" for r in resources)).lower()
    print(json.dumps(seen))


asyncio.run(main())
