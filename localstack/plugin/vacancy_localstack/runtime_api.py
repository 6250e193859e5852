"""The Lambda Runtime API, as a `bootstrap` sees it: one server on a free port
of 127.0.0.1 for each execution environment."""

import json
import threading
from concurrent.futures import Future, InvalidStateError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

API = "/2018-06-01/runtime"
MOST = 6 * 1024 * 1024 + 100  # bytes of a buffered response, as AWS


class Invocation:
    """One event on its way through a process."""

    def __init__(self, payload: dict):
        body = payload["payload"]
        self.id: str = payload["invoke-id"]
        self.arn: str = payload["invoked-function-arn"]
        self.trace: str = payload.get("trace-id") or ""
        self.body = body.encode() if isinstance(body, str) else body
        self.deadline_ms = 0
        self.calls: dict = {}  # AWS calls made so far, as faults.Plans counts them
        self.done: Future = Future()  # of (is error, body)

    def finish(self, is_error: bool, body: bytes) -> None:
        try:
            self.done.set_result((is_error, body))
        except InvalidStateError:
            pass  # the answer and the timeout raced; the first counts


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a runtime polls on one connection
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one segment

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path != f"{API}/invocation/next":
            return self._answer(404, b'{"errorType":"NotFound"}')
        invocation = self.server.executor.next_invocation()
        if invocation is None:  # the environment stops
            self.close_connection = True
            return None
        return self._answer(
            200,
            invocation.body,
            {
                "Lambda-Runtime-Aws-Request-Id": invocation.id,
                "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": invocation.arn,
                "Lambda-Runtime-Trace-Id": invocation.trace,
            },
        )

    def do_POST(self):
        body = self._body()
        if self.path == f"{API}/init/error":
            self.server.executor.init_error(body)
            return self._answer(202, b'{"status":"OK"}')
        parts = self.path.split("/")  # '', date, runtime, invocation, ID, response or error
        if len(parts) != 6 or parts[3] != "invocation" or parts[5] not in ("response", "error"):
            return self._answer(404, b'{"errorType":"NotFound"}')
        current = self.server.executor.current
        if current is None or current.id != parts[4]:
            return self._answer(400, b'{"errorMessage":"Invalid request ID","errorType":"InvalidRequestID"}')
        streamed = self.headers.get("Lambda-Runtime-Function-Response-Mode")
        if parts[5] == "response" and len(body) > MOST and not streamed:
            words = "Response payload size exceeded maximum allowed payload size (6291556 bytes)."
            current.finish(True, error("Function.ResponseSizeTooLarge", words))
            return self._answer(413, b'{"errorType":"RequestEntityTooLarge"}')
        # A streamed response tells its error in the trailers.
        failed = parts[5] == "error" or bool(self.headers.get("Lambda-Runtime-Function-Error-Type"))
        current.finish(failed, body)
        return self._answer(202, b'{"status":"OK"}')

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0].strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while line := self.rfile.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name] = value.strip()
        return bytes(body)

    def _answer(self, status: int, body: bytes, headers: dict | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(self, executor, name: str):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.executor = executor
        threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 1}, daemon=True, name=f"runtime-api-{name}"
        ).start()

    def handle_error(self, request, client_address):
        pass  # the process died while it spoke

    def close(self) -> None:
        # shutdown() waits for the poll interval: not on the caller's time.
        threading.Thread(target=self._close, daemon=True).start()

    def _close(self) -> None:
        self.shutdown()
        self.server_close()


def error(kind: str, message: str) -> bytes:
    """An error payload as Lambda words it."""
    return json.dumps({"errorMessage": message, "errorType": kind}).encode()
