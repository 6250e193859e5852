"""Runs the scenarios with a2a-sdk of A2A 1.0 and prints what it saw as JSON."""
import asyncio, base64, json, os, sys, uuid

import httpx
import jwt
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Part, Role, SendMessageRequest,
                       SubscribeToTaskRequest, TaskState)
from a2a.utils.errors import A2AError
from a2a.utils.signing import create_signature_verifier
from google.protobuf.struct_pb2 import Value

URL, BINDING = sys.argv[1], sys.argv[2]


def say(text, **more):
    return SendMessageRequest(message=Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **more))


def state(s):
    return TaskState.Name(s).removeprefix("TASK_STATE_").lower().replace("_", "-")


def shown(parts):
    s = "".join(p.text for p in parts)
    return "echo: " + s.split(": ", 1)[1] if s.startswith("echo from ") else s


def status(s):
    return (state(s.state) + " " + shown(s.message.parts)).strip()


def event(e):
    kind = e.WhichOneof("payload")
    if kind == "task":
        return status(e.task.status)
    if kind == "status_update":
        return status(e.status_update.status)
    return "artifact " + shown(e.artifact_update.artifact.parts)


NAMES = {"TaskNotFoundError": "task not found", "TaskNotCancelableError": "task not cancelable",
         "UnsupportedOperationError": "unsupported operation", "ContentTypeNotSupportedError": "content type not supported"}


async def failure(awaited):
    try:
        return f"no error: {await awaited}"
    except A2AError as e:
        return NAMES.get(type(e).__name__, repr(e))


async def main():
    http = httpx.AsyncClient(timeout=30)
    keys = {}

    def key(kid, jku):
        jwk = keys.setdefault(jku, httpx.get(jku).json()["keys"][0])
        assert jwk["kid"] == kid
        return jwt.PyJWK(jwk)

    async def client(name, streaming=True, polling=False):
        card = await A2ACardResolver(http, f"{URL}/v/{name}").get_agent_card(signature_verifier=create_signature_verifier(key, ["EdDSA"]))
        return ClientFactory(ClientConfig(httpx_client=http, streaming=streaming, polling=polling, supported_protocol_bindings=[BINDING], use_client_preference=True)).create(card)

    async def last(c, q):
        async for e in c.send_message(q):
            sent = e
        return sent.task

    async def events(all):
        return "; ".join([event(e) async for e in all])

    echo, unary, slow, slower = await client("echo"), await client("echo", streaming=False), await client("slow"), await client("slower")
    got = {}
    await client("failing")
    got["signatures"] = f"{len(keys)} keys verified"
    task = await last(unary, say("hi"))
    got["send"] = status(task.status)
    got["get"] = status((await unary.get_task(GetTaskRequest(id=task.id))).status)
    if not os.environ.get("A2A_UNARY"):
        got["follow unknown"] = await failure(anext(echo.subscribe(SubscribeToTaskRequest(id="none"))))
    got["get unknown"] = await failure(unary.get_task(GetTaskRequest(id="none")))
    got["cancel ended"] = await failure(unary.cancel_task(CancelTaskRequest(id=task.id)))
    got["send to ended"] = await failure(last(unary, say("more", task_id=task.id)))
    got["fail"] = status((await last(await client("failing", streaming=False), say("hi"))).status)
    data = Value()
    data.struct_value.update({"a": 1})
    got["no text"] = await failure(last(unary, SendMessageRequest(message=Message(message_id="m", role=Role.ROLE_USER, parts=[Part(data=data)]))))
    streams = not os.environ.get("A2A_UNARY")
    if streams:
        data.struct_value.update({"a": "b"})
        files = [Part(text="see"), Part(raw=base64.b64decode("iVBORw0KGgo="), filename="a.png", media_type="image/png"), Part(data=data)]
        viewer = await client("viewer", streaming=False)
        got["files"] = status((await last(viewer, SendMessageRequest(message=Message(message_id="f", role=Role.ROLE_USER, parts=files)))).status)
        got["signatures"] = f"{len(keys)} keys verified"
        got["stream"] = await events(slow.send_message(say("hi")))
        got["stream of echo"] = await events(echo.send_message(say("hi")))
    poller = await client("slow", streaming=False, polling=True)
    first = await last(poller, say("hi"))
    for _ in range(100):
        read = await poller.get_task(GetTaskRequest(id=first.id))
        if read.status.state == TaskState.TASK_STATE_COMPLETED:
            break
        await asyncio.sleep(0.05)
    got["immediately"] = state(first.status.state) + ", then " + status(read.status)
    if streams:
        async for e in slower.send_message(say("hi")):
            ended = await slower.cancel_task(CancelTaskRequest(id=e.task.id))
            got["cancel"] = state(e.task.status.state) + ", then " + state(ended.status.state)
            break
        async for e in slow.send_message(say("hi")):
            if e.WhichOneof("payload") == "artifact_update":
                got["subscribe"] = await events(slow.subscribe(SubscribeToTaskRequest(id=e.artifact_update.task_id)))
                break
        conformance, asking = await client("conformance"), await client("conformance", streaming=False)
        ask = say("one")
        ask.message.message_id = "tck-input-required-" + ask.message.message_id
        asked = await last(asking, ask)
        seen = []
        async for e in conformance.subscribe(SubscribeToTaskRequest(id=asked.id)):
            if not seen:
                await last(asking, say("two", task_id=asked.id))
            seen.append(event(e))
        got["waiting"] = "; ".join(seen)
    one = await last(unary, say("one"))
    await last(unary, say("two", context_id=one.context_id))
    page = await unary.list_tasks(ListTasksRequest(context_id=one.context_id))
    got["list"] = f"{len(page.tasks)} of {page.total_size}"
    print(json.dumps(got))


asyncio.run(main())
