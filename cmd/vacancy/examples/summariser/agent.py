"""Two agents in one program, at /pick and /index; plan.yaml makes a summariser of them.
Run it: python3 cmd/vacancy/examples/summariser/agent.py. README.md beside this folder makes the vacants.
"""

import json
import os
import re
from collections import Counter
from wsgiref.simple_server import make_server

COMMON = set("a an and are as at be but by for from has have he her his i in is it its me my no not of on or she so that "
             "the their them they this to too very was we were what when which who will with you your".split())  # fmt: skip


def words(text):
    """The words of a text that are not common."""
    return [w for w in re.findall(r"\w+", text.lower()) if w not in COMMON]


def pick(text):
    """The sentence whose words the text uses most; the first of equals."""
    often = Counter(words(text))
    sentences = re.split(r"(?<=[.!?])\s+", text.strip())
    return max(sentences, key=lambda s: sum(often[w] for w in set(words(s))))


def index(text):
    """The words of a text, once each, sorted."""
    return ", ".join(sorted(set(words(text))))


AGENTS = {"/pick": pick, "/index": index}


def is_foreign(environ):
    """Whether a web page may have sent a request to this machine: not as JSON, or with an Origin or its site's Host."""
    local = environ.get("HTTP_HOST", "").rpartition(":")[0] in ("127.0.0.1", "localhost")
    return environ["CONTENT_TYPE"] != "application/json" or "HTTP_ORIGIN" in environ or not local


def server(environ, start_response):
    if is_foreign(environ):
        start_response("403 Forbidden", [])
        return [b""]
    question = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [AGENTS[environ["PATH_INFO"]](question["message"]).encode()]


if __name__ == "__main__":
    try:
        make_server("127.0.0.1", int(os.environ.get("PORT", 9105)), server).serve_forever()
    except KeyboardInterrupt:
        pass
