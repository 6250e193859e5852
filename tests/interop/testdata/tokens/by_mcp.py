"""Asks the vacant paid by the MCP SDK, with tokens of a provider that the SDK finds: by_mcp.py HOST ISSUER.
Prints what this client saw as JSON."""
import asyncio
import html
import json
import re
import sys
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

host, issuer = sys.argv[1:]
CALLBACK = "http://127.0.0.1:1/callback"


class Memory:
    """Keeps what the SDK stores."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def ask(url, auth, tool, arguments):
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http, Client(streamable_http_client(url, http_client=http)) as client:
        result = await client.call_tool(tool, arguments)
        return f"refused {result.structured_content['code']}" if result.is_error else result.content[0].text.split(": ", 1)[1]


def program(url):
    return ClientCredentialsOAuthProvider(url, Memory(), "robot", "secret", issuer=issuer)


def person(url, name):
    """A person with a browser, who logs in at the provider's forms and consents."""
    back = {}

    async def browse(at):
        form = None
        async with httpx2.AsyncClient(timeout=60) as browser:
            for _ in range(20):
                answer = await (browser.post(at, data=form) if form else browser.get(at))
                if to := answer.headers.get("location"):
                    at, form = urljoin(at, to), None
                    if at.startswith(CALLBACK):
                        back.update({k: v[0] for k, v in parse_qs(urlsplit(at).query).items()})
                        return
                else:
                    prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)[1]
                    at = urljoin(at, html.unescape(re.search(r'action="([^"]+)"', answer.text)[1]))
                    form = {"prompt": prompt, "login": name, "password": "any"}
        raise RuntimeError("the login has no end")

    async def called_back():
        return AuthorizationCodeResult(code=back["code"], state=back.get("state"), iss=back.get("iss"))

    about = OAuthClientMetadata(redirect_uris=[CALLBACK], grant_types=["authorization_code"], token_endpoint_auth_method="none", application_type="native")
    return OAuthClientProvider(url, about, Memory(), browse, called_back)


async def main():
    at = f"{host}/v/paid/mcp"
    print(json.dumps({
        "program": await ask(at, program(at), "ask", {"message": "hi"}),
        "program at the host": await ask(f"{host}/mcp", program(f"{host}/mcp"), "ask_agent", {"agent": "paid", "message": "hi"}),
        "login": await ask(at, person(at, "bob"), "ask", {"message": "hi"}),
    }))


asyncio.run(main())
