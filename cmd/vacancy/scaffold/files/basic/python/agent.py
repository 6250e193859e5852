"""{{.Name}}: an agent that answers for a vacant (vacancy help agent-contract)."""

import hashlib
import hmac
import json
import os
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Signs the requests of the host; "vacancy watch" makes one. Without it, requests to this machine's own names are accepted.
SECRET = os.environ.get("AGENT_SECRET", "")


def answer(question):
    """Return the text for question["message"], from question["caller"].

    question["context_id"] is the caller's thread, or None; question["id"] is the
    call's, and the host waits for question["deadline_ms"] milliseconds.

    To ask the caller a question, return {"text": "which color?", "state": "input-required"}.
    The reply is the next question of the same thread.
    """
    return "You wrote: " + question["message"]


def signed(header, body):
    """Whether the body was signed with the secret in the last five minutes."""
    parts = re.fullmatch(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})", header or "")
    if not parts or abs(time.time() - int(parts[1])) > 300:
        return False
    want = hmac.new(SECRET.encode(), parts[1].encode() + b"." + body, hashlib.sha256)
    return hmac.compare_digest(want.hexdigest(), parts[2])


def refusal(headers, body):
    """Why a request is refused, as status and text; None for a host's. Any web page that a browser on this machine
    shows can send requests here, but not with this Content-Type, or under its own name, and never with a signature.
    """
    if headers.get_content_type() != "application/json":
        return 415, "Content-Type: expected application/json"
    if SECRET:
        return None if signed(headers["Vacancy-Signature"], body) else (401, "not signed with AGENT_SECRET")
    if headers["Origin"] or not re.fullmatch(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?", headers["Host"] or ""):
        return 403, "Host: expected 127.0.0.1 or localhost, and no web page; requests of others need AGENT_SECRET"
    return None


class Agent(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # header and body in one packet

    def do_POST(self):
        try:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if refused := refusal(self.headers, body):
                status, body = refused[0], {"error": refused[1]}
            else:
                answered = answer(json.loads(body))
                status, body = 200, answered if isinstance(answered, dict) else {"text": answered}
        except Exception as error:  # the host's operator sees it in `vacancy logs --failed`
            status, body = 500, {"error": repr(error)}
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *args):
        pass  # the host logs each call


def serve(port):
    """A server on this machine; port 0 picks a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), Agent)


if __name__ == "__main__":
    server = serve(int(os.environ.get("PORT", "{{.Port}}")))
    print(f"listening at http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
