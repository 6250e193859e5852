"""An oracle that takes money. What it cannot answer it refuses with an error, and a call that fails is free.
Run it: vacancy watch cmd/vacancy/examples/oracle. README.md beside this folder sets its price and pays it.
"""

import hashlib
import json
import os
from wsgiref.simple_server import make_server

ANSWERS = ["Yes.", "No.", "Not before winter.", "Only if you ask nobody else."]


def answer(question):
    """The same question has the same answer."""
    words = question.strip().lower()
    if not words.endswith("?"):
        raise ValueError("not a question")
    return ANSWERS[hashlib.sha256(words.encode()).digest()[0] % len(ANSWERS)]


def is_foreign(environ):
    """Whether a web page may have sent a request to this machine: not as JSON, or with an Origin or its site's Host."""
    local = environ.get("HTTP_HOST", "").rpartition(":")[0] in ("127.0.0.1", "localhost")
    return environ["CONTENT_TYPE"] != "application/json" or "HTTP_ORIGIN" in environ or not local


def server(environ, start_response):
    if is_foreign(environ):
        start_response("403 Forbidden", [])
        return [b""]
    question = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    try:
        status, text = "200 OK", answer(question["message"])
    except ValueError as error:  # its owner reads it in `vacancy logs oracle --failed`
        status, text = "400 Bad Request", str(error)
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode()]


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", 9103)), server).serve_forever()
