"""Asks the vacant paid by a2a-sdk, with a token of a provider: by_a2a.py HOST ISSUER. The SDK sends the
token because the card declares the login. Prints what this client saw as JSON."""
import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, InMemoryContextCredentialStore
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState

host, issuer = sys.argv[1:]


async def main():
    http = httpx.AsyncClient(timeout=60)
    vacant = f"{host}/v/paid"
    card = await A2ACardResolver(http, vacant).get_agent_card()
    got = {"login": card.security_schemes["login"].open_id_connect_security_scheme.open_id_connect_url.removeprefix(issuer)}
    answer = await http.post(f"{issuer}/token", auth=("robot", "secret"), data={"grant_type": "client_credentials", "resource": vacant})
    tokens = InMemoryContextCredentialStore()
    await tokens.set_credentials("session", "login", answer.json()["access_token"])
    for binding in ["JSONRPC", "HTTP+JSON"]:
        config = ClientConfig(httpx_client=http, streaming=False, supported_protocol_bindings=[binding], use_client_preference=True)
        client = ClientFactory(config).create(card, interceptors=[AuthInterceptor(tokens)])
        asked = SendMessageRequest(message=Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text="hi")]))
        async for event in client.send_message(asked, context=ClientCallContext(state={"sessionId": "session"})):
            status = event.task.status
        got[binding] = TaskState.Name(status.state) + " " + status.message.parts[0].text.split(": ", 1)[1]
    print(json.dumps(got))


asyncio.run(main())
