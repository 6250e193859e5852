"""Runs the scenarios with a2a-sdk of A2A 0.3 and prints what it saw as JSON."""
import asyncio, json, os, sys, uuid

import httpx
import jwt
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import DataPart, FilePart, FileWithBytes, Message, Part, Role, TaskIdParams, TaskQueryParams, TaskState, TaskStatusUpdateEvent, TextPart
from a2a.utils.signing import create_signature_verifier

URL = sys.argv[1]


def say(text, **more):
    return Message(message_id=str(uuid.uuid4()), role=Role.user, parts=[Part(root=TextPart(text=text))], **more)


def shown(parts):
    s = "".join(p.root.text for p in parts)
    return "echo: " + s.split(": ", 1)[1] if s.startswith("echo from ") else s


def status(s):
    return (s.state.value + " " + (shown(s.message.parts) if s.message else "")).strip()


def event(task, update):
    if update is None:
        return status(task.status)
    if isinstance(update, TaskStatusUpdateEvent):
        return status(update.status)
    return "artifact " + shown(update.artifact.parts)


NAMES = {-32001: "task not found", -32002: "task not cancelable", -32004: "unsupported operation", -32005: "content type not supported"}


async def failure(awaited):
    try:
        return f"no error: {await awaited}"
    except A2AClientJSONRPCError as e:
        return NAMES.get(e.error.code, repr(e))


async def main():
    http = httpx.AsyncClient(timeout=30)
    keys = {}

    def key(kid, jku):
        jwk = keys.setdefault(jku, httpx.get(jku).json()["keys"][0])
        assert jwk["kid"] == kid
        return jwt.PyJWK(jwk)

    async def client(name, streaming=True, polling=False):
        card = await A2ACardResolver(http, f"{URL}/v/{name}").get_agent_card(signature_verifier=create_signature_verifier(key, ["EdDSA"]))
        return ClientFactory(ClientConfig(httpx_client=http, streaming=streaming, polling=polling)).create(card)

    async def last(c, m):
        async for task, _ in c.send_message(m):
            sent = task
        return sent

    async def events(all):
        return "; ".join([event(task, update) async for task, update in all])

    echo, unary, slow, slower = await client("echo"), await client("echo", streaming=False), await client("slow"), await client("slower")
    got = {}
    task = await last(unary, say("hi"))
    got["send"] = status(task.status)
    got["get"] = status((await unary.get_task(TaskQueryParams(id=task.id))).status)
    got["get unknown"] = await failure(unary.get_task(TaskQueryParams(id="none")))
    got["cancel ended"] = await failure(unary.cancel_task(TaskIdParams(id=task.id)))
    got["send to ended"] = await failure(last(unary, say("more", task_id=task.id)))
    got["fail"] = status((await last(await client("failing", streaming=False), say("hi"))).status)
    got["no text"] = await failure(last(unary, Message(message_id="m", role=Role.user, parts=[Part(root=DataPart(data={"a": 1}))])))
    streams = not os.environ.get("A2A_UNARY")
    if streams:
        png = FilePart(file=FileWithBytes(name="a.png", mime_type="image/png", bytes="iVBORw0KGgo="))
        files = [Part(root=TextPart(text="see")), Part(root=png), Part(root=DataPart(data={"a": "b"}))]
        viewer = await client("viewer", streaming=False)
        got["files"] = status((await last(viewer, Message(message_id="f", role=Role.user, parts=files))).status)
        got["signatures"] = f"{len(keys)} keys verified"
        got["stream"] = await events(slow.send_message(say("hi")))
        got["stream of echo"] = await events(echo.send_message(say("hi")))
    poller = await client("slow", streaming=False, polling=True)
    first = await last(poller, say("hi"))
    for _ in range(100):
        read = await poller.get_task(TaskQueryParams(id=first.id))
        if read.status.state == TaskState.completed:
            break
        await asyncio.sleep(0.05)
    got["immediately"] = first.status.state.value + ", then " + status(read.status)
    if streams:
        got["follow unknown"] = await failure(anext(echo.resubscribe(TaskIdParams(id="none"))))
        async for task, _ in slower.send_message(say("hi")):
            ended = await slower.cancel_task(TaskIdParams(id=task.id))
            got["cancel"] = task.status.state.value + ", then " + ended.status.state.value
            break
        async for task, update in slow.send_message(say("hi")):
            if update is not None:
                got["subscribe"] = await events(slow.resubscribe(TaskIdParams(id=task.id)))
                break
    got["signatures"] = f"{len(keys)} keys verified"
    print(json.dumps(got))


asyncio.run(main())
