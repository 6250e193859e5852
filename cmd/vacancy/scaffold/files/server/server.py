"""Serves an agent to hosts, which get each piece of an answer as it comes (vacancy help agent-contract)."""

import hashlib
import hmac
import json
import os
import re
import time
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

# Signs the requests of the host; "vacancy watch" makes one. Without it, requests to this machine's own names are accepted.
SECRET = os.environ.get("AGENT_SECRET", "")


def signed(header, body):
    """Whether the body was signed with the secret in the last five minutes."""
    parts = re.fullmatch(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})", header or "")
    if not parts or abs(time.time() - int(parts[1])) > 300:
        return False
    want = hmac.new(SECRET.encode(), parts[1].encode() + b"." + body, hashlib.sha256)
    return hmac.compare_digest(want.hexdigest(), parts[2])


def refusal(environ, body):
    """Why a request is refused, as status and text; None for a host's. Any web page that a browser on this machine
    shows can send requests here, but not with this Content-Type, or under its own name, and never with a signature.
    """
    if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != "application/json":
        return "415 Unsupported Media Type", "Content-Type: expected application/json"
    if SECRET:
        header = environ.get("HTTP_VACANCY_SIGNATURE")
        return None if signed(header, body) else ("401 Unauthorized", "not signed with AGENT_SECRET")
    local = re.fullmatch(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?", environ.get("HTTP_HOST", ""))
    if "HTTP_ORIGIN" in environ or not local:
        return "403 Forbidden", "Host: expected 127.0.0.1 or localhost, and no web page; requests of others need AGENT_SECRET"
    return None


def events(answer, body):
    """The answer to a question as server-sent events."""

    def event(name, data):
        return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()

    try:
        for piece in answer(json.loads(body)):
            if isinstance(piece, str):
                yield event("delta", {"text": piece})
            elif "ask" in piece:  # a question to the caller
                yield event("ask", {"text": piece["ask"]})
            else:  # the tokens that the answer used
                yield event("usage", piece)
        yield event("done", {})
    except Exception as error:  # the host's operator sees it in `vacancy logs --failed`
        yield event("error", {"error": repr(error)})


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Handler(WSGIRequestHandler):
    def log_message(self, *args):
        pass  # the host logs each call


def serve(answer, port):
    """A server on this machine; port 0 picks a free one.

    answer(question) yields texts, and may yield {"input_tokens": 12, "output_tokens": 7}. To ask the caller a
    question, it yields {"ask": "which color?"}; the reply is the next question of the same thread.
    """

    def agent(environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if refused := refusal(environ, body):
            start_response(refused[0], [("Content-Type", "text/plain")])
            return [refused[1].encode()]
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return events(answer, body)

    return make_server("127.0.0.1", port, agent, Server, Handler)


def run(answer, port):
    """Serve until Ctrl-C, at the port PORT if it is set."""
    server = serve(answer, int(os.environ.get("PORT", port)))
    print(f"listening at http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
