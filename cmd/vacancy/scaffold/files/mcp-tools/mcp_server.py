"""Serves functions as tools of MCP, over HTTP."""

import inspect
import json
import os
import re
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def described(function, reads):
    """What a model is told of a function: its name, its text and its parameters, all of which are required."""
    parameters = inspect.signature(function).parameters
    return {
        "name": function.__name__,
        "description": inspect.getdoc(function),
        "inputSchema": {
            "type": "object",
            "properties": {name: {"type": TYPES[p.annotation]} for name, p in parameters.items()},
            "required": list(parameters),
        },
        "annotations": {"readOnlyHint": reads},
    }


def called(functions, params):
    """The result of a call. The model sees an error, and can try again."""
    try:
        text, failed = str(functions[params["name"]](**params.get("arguments", {}))), False
    except Exception as error:
        text, failed = repr(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def refusal(environ):
    """Why a request is refused, as a status; None for a host's. Any web page that a browser on this machine shows can
    send requests here, but not with this Content-Type, or under its own name, and with an Origin.
    """
    if environ["REQUEST_METHOD"] != "POST":
        return "405 Method Not Allowed"
    if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != "application/json":
        return "415 Unsupported Media Type"
    local = re.fullmatch(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?", environ.get("HTTP_HOST", ""))
    if "HTTP_ORIGIN" in environ or not local:
        return "403 Forbidden"
    return None


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Handler(WSGIRequestHandler):
    def log_message(self, *args):
        pass  # the host logs each call of a tool


def serve(reads, writes, port):
    """A server of tools on this machine; port 0 picks a free one. Only functions in writes change something."""
    functions = {f.__name__: f for f in reads + writes}
    tools = [described(f, f in reads) for f in reads + writes]

    def answer(method, params):
        if method == "initialize":
            server = {"name": "tools", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
        if method == "tools/list":
            return {"tools": tools}
        if method == "tools/call":
            return called(functions, params)
        if method == "ping":
            return {}
        raise NotImplementedError(method)

    def endpoint(environ, start_response):
        if status := refusal(environ):
            start_response(status, [])
            return [b""]
        asked = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        if "id" not in asked:  # a notification
            start_response("202 Accepted", [])
            return [b""]
        reply = {"jsonrpc": "2.0", "id": asked["id"]}
        try:
            reply["result"] = answer(asked["method"], asked.get("params", {}))
        except NotImplementedError as error:
            reply["error"] = {"code": -32601, "message": f"no such method: {error}"}
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(reply).encode()]

    return make_server("127.0.0.1", port, endpoint, Server, Handler)


def run(reads, writes, port):
    """Serve until Ctrl-C, at the port PORT if it is set."""
    server = serve(reads, writes, int(os.environ.get("PORT", port)))
    print(f"listening at http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
