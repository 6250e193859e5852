"""A story about whatever it is asked for. Callers that stream hear each sentence as it comes.
Run it: vacancy watch cmd/vacancy/examples/storyteller. Then: vacancy call storyteller "a fox"
"""

import json
import os
import random
import time
from wsgiref.simple_server import make_server

PLACES = ["in a forest", "by the sea", "on a mountain", "in an old town"]
FINDS = ["a golden key", "a letter without a name", "a boat of paper", "a door in a tree"]
ENDS = ["and kept it secret", "and gave it to the moon", "and told everybody", "and went home to sleep"]


def story(about):
    """Yield the sentences; the same words make the same story."""
    chance = random.Random(about)
    yield f"Once upon a time, {about} lived {chance.choice(PLACES)}. "
    yield f"One morning {about} found {chance.choice(FINDS)} "
    yield f"{chance.choice(ENDS)}."


def events(pieces):
    """The pieces as a host reads them: an event for each, and done at the end."""
    for piece in pieces:
        yield f"event: delta\ndata: {json.dumps({'text': piece})}\n\n".encode()
        time.sleep(0.3)  # a storyteller breathes
    yield b"event: done\ndata: {}\n\n"


def is_foreign(environ):
    """Whether a web page may have sent a request to this machine: not as JSON, or with an Origin or its site's Host."""
    local = environ.get("HTTP_HOST", "").rpartition(":")[0] in ("127.0.0.1", "localhost")
    return environ["CONTENT_TYPE"] != "application/json" or "HTTP_ORIGIN" in environ or not local


def server(environ, start_response):
    if is_foreign(environ):
        start_response("403 Forbidden", [])
        return [b""]
    question = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    start_response("200 OK", [("Content-Type", "text/event-stream")])
    return events(story(question["message"]))


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", 9102)), server).serve_forever()
