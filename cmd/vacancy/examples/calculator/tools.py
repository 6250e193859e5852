"""A calculator as a tool of MCP: one function, and the five answers of the protocol that a host asks for.
Run it: vacancy watch cmd/vacancy/examples/calculator. Then: vacancy call calculator "2 * (3 + 4)"
"""

import ast
import json
import operator
import os
from wsgiref.simple_server import make_server

OPERATIONS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod, ast.USub: operator.neg,
}  # fmt: skip


def calculate(expression):
    """The value of an expression of numbers, + - * / % and parentheses; nothing else is evaluated."""

    def value(node):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            return OPERATIONS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATIONS:
            return OPERATIONS[type(node.op)](value(node.operand))
        raise ValueError("expected numbers, + - * / % and parentheses")

    return value(ast.parse(expression[:1000], mode="eval").body)


TOOL = {
    "name": "calculate",
    "description": calculate.__doc__,
    "inputSchema": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    "annotations": {"readOnlyHint": True},
}


def answer(method, params):
    if method == "initialize":
        info = {"name": "desk", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        try:
            text, failed = str(calculate(params["arguments"]["expression"])), False
        except Exception as error:
            text, failed = str(error), True
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    return {}


def is_foreign(environ):
    """Whether a web page may have sent a request to this machine: not as JSON, or with an Origin or its site's Host."""
    local = environ.get("HTTP_HOST", "").rpartition(":")[0] in ("127.0.0.1", "localhost")
    return environ["CONTENT_TYPE"] != "application/json" or "HTTP_ORIGIN" in environ or not local


def server(environ, start_response):
    if is_foreign(environ):
        start_response("403 Forbidden", [])
        return [b""]
    if environ["REQUEST_METHOD"] != "POST":
        start_response("405 Method Not Allowed", [])
        return [b""]
    asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    if "id" not in asked:  # a notification
        start_response("202 Accepted", [])
        return [b""]
    start_response("200 OK", [("Content-Type", "application/json")])
    reply = {"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked["method"], asked.get("params", {}))}
    return [json.dumps(reply).encode()]


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", 9101)), server).serve_forever()
