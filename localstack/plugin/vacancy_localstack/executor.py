"""Runs a Lambda function's `bootstrap` as an ordinary child process.

One process for each execution environment, with a Runtime API of its own.
LocalStack does the rest: how many environments there are, how long they stay
warm, retries, event source mappings, Function URLs. The invariant: a process of
a function is a child of this server in a session of its own, started from a
path inside the run's folder, and gone when its environment is.
"""

import json
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from queue import Queue

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.models import lambda_stores
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from vacancy_localstack import FREEZE, instances, lineage, logs
from vacancy_localstack.process import Process
from vacancy_localstack.runtime_api import Invocation, Server, error

LOG = logging.getLogger(__name__)


class ProcessExecutor(RuntimeExecutor):
    """One execution environment. LocalStack calls it from many threads, but has
    at most one invocation in it at a time."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        super().__init__(id=id, function_version=function_version)
        self.function = function_version.id.function_name
        self.role = function_version.config.role
        self.current: Invocation | None = None
        self.process: Process | None = None
        self.invocations = 0
        self._queue: Queue = Queue()
        self._idle = threading.Event()  # the process polls: started, or done with an event
        self._init_failed: bytes | None = None
        self._stopping = False
        self._server: Server | None = None
        self._env: dict[str, str] = {}
        self._tmp = ""

    # What the Runtime API calls.

    def next_invocation(self) -> Invocation | None:
        queue = self._queue
        self._idle.set()
        return queue.get()  # None: the process is gone, or the environment stops

    def init_error(self, body: bytes) -> None:
        self._init_failed = body
        self._idle.set()

    # What LocalStack calls.

    def start(self, env_vars: dict[str, str]) -> None:
        self._env = env_vars
        self._tmp = tempfile.mkdtemp(prefix=f"function-{self.id[:8]}-")
        self._server = Server(self, self.id[:8])
        instances.add(env_vars["AWS_ACCESS_KEY_ID"], self)
        self._spawn()
        if FREEZE:
            self.process.signal(signal.SIGSTOP)

    def stop(self) -> None:
        # When code is replaced LocalStack stops what runs the old at once. AWS
        # lets an invocation under way end: its caller is to have the answer.
        deadline = time.monotonic() + int(self.function_version.config.timeout or 3)
        while self.current is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        self._stopping = True
        instances.remove(self)
        self.kill()
        self._queue.put(None)
        if self.current is not None:
            self.current.done.cancel()
        if self._server is not None:
            self._server.close()
        if self._tmp:
            shutil.rmtree(self._tmp, ignore_errors=True)

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        trace, count = lineage.trace(payload, self.function)
        invocation = Invocation({**payload, "trace-id": trace})
        if count > lineage.MOST and self._function().recursive_loop != "Allow":
            words = f"Recursion detected: {self.function} was invoked {lineage.MOST} times by a chain of its own messages"
            LOG.warning(words)
            return InvocationResult(invocation.id, error("Lambda.RecursionDetected", words), True, "")
        timeout = int(self.function_version.config.timeout or 3)
        if self.process is None or not self.process.alive():
            self._spawn()  # it died since: a fresh process, as AWS makes a fresh sandbox
        elif FREEZE:
            self.process.signal(signal.SIGCONT)
        started = time.monotonic()
        if not self._idle.wait(timeout):  # still at work behind its last answer
            self.kill()
            return self._timed_out(invocation, timeout, "")
        self.process.take_log()
        self._idle.clear()
        self.invocations += 1
        started = time.monotonic()
        invocation.deadline_ms = int((time.time() + timeout) * 1000)
        self.current = invocation
        self._queue.put(invocation)
        answer = self._await(invocation, started + timeout)
        self.current = None
        if answer is None:
            self.kill()
            return self._timed_out(invocation, timeout, self.process.take_log())
        peak = self.process.memory_mb("VmHWM")
        if FREEZE and self.process.alive():
            self._idle.wait(max(0.0, min(1.0, started + timeout - time.monotonic())))
            self.process.signal(signal.SIGSTOP)
        is_error, body = answer
        elapsed = (time.monotonic() - started) * 1000
        status = "error" if is_error else "success"
        log = self._report(invocation, self.process.take_log(), elapsed, peak, status)
        return InvocationResult(invocation.id, body, is_error, log)

    def get_address(self) -> str:
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    def get_logs(self) -> str:
        return self.process.all_log() if self.process else ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        if function_version.config.code:
            function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        pass

    def _function(self):
        id = self.function_version.id
        return lambda_stores[id.account][id.region].functions[id.function_name]

    # The process.

    def kill(self) -> int:
        """Ends the process as kill -9 does, stopped or not; its pid, 0 if none ran."""
        process = self.process
        if process is None or not process.alive():
            return 0
        process.kill()
        return process.pid

    def state(self) -> dict:
        """What `status` shows of an environment."""
        process = self.process
        return {
            "function": self.function,
            "instance": self.id,
            "pid": process.pid if process and process.alive() else 0,
            "busy": self.current is not None,
            "invocations": self.invocations,
        }

    def _spawn(self) -> None:
        self._queue.put(None)  # ends a thread that still waits for the former process
        self._queue = Queue()
        self._idle.clear()
        self._init_failed = None
        root = str(self.function_version.config.code.get_unzipped_code_location())
        env = {k: str(v) for k, v in self._env.items() if v is not None}
        env |= {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "en_US.UTF-8",
            "LAMBDA_TASK_ROOT": root,
            "LAMBDA_RUNTIME_DIR": root,
            "TMPDIR": self._tmp,
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_address[1]}",
        }
        try:
            self.process = Process(root, env, name=self.id[:8])
        except OSError as e:
            message = f"Couldn't find valid bootstrap(s): [{root}/bootstrap]: {e.strerror}"
            raise StatusErrorException(message, payload=error("Runtime.InvalidEntrypoint", message)) from e
        try:
            self._await_init()
        except StatusErrorException:
            said = self.process.take_log()
            LOG.warning("init of %s failed:\n%s", self.function, said)
            # LocalStack stores the logs of invocations only, AWS those of init too.
            logs.store(self.function_version, self.id, said)
            self.kill()
            raise

    def _await_init(self) -> None:
        deadline = time.monotonic() + config.LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT
        while not self._idle.wait(0.02):
            if not self.process.alive():
                words = f"Error: Runtime exited with error: {self.process.exit_text()}"
                raise StatusErrorException(words, payload=error("Runtime.ExitError", words))
            if self._stopping or time.monotonic() > deadline:
                words = f"Init timed out after {config.LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT} seconds"
                raise StatusErrorException(words, payload=error("Sandbox.Timedout", words))
        if self._init_failed is not None:
            raise StatusErrorException("init error", payload=self._init_failed)

    def _await(self, invocation: Invocation, deadline: float) -> tuple[bool, bytes] | None:
        """The answer of the process, or of its death; None after the deadline."""
        memory = int(self.function_version.config.memory_size or 128)
        while True:
            left = deadline - time.monotonic()
            try:
                return invocation.done.result(timeout=max(0, min(left, 0.1)))
            except TimeoutError:
                pass
            if not self.process.alive():
                time.sleep(0.05)  # an answer may still be in flight
                words = f"RequestId: {invocation.id} Error: Runtime exited with error: {self.process.exit_text()}"
                invocation.finish(True, error("Runtime.ExitError", words))
            elif self.process.memory_mb("VmRSS") > memory:
                self.kill()
            elif left <= 0:
                return None

    # Logs.

    def _timed_out(self, invocation: Invocation, timeout: int, said: str) -> InvocationResult:
        words = f"RequestId: {invocation.id} Error: Task timed out after {timeout:.2f} seconds"
        log = self._report(invocation, said, timeout * 1000, 0, "timeout")
        return InvocationResult(invocation.id, error("Sandbox.Timedout", words), True, log)

    def _report(self, invocation: Invocation, said: str, elapsed: float, peak: int, status: str) -> str:
        """What the function said, within the lines that the platform adds: plain
        ones around it, or in JSON at level WARN one only if it went wrong."""
        if said and not said.endswith("\n"):
            said += "\n"
        memory = int(self.function_version.config.memory_size or 128)
        asked = self.function_version.config.logging_config or {}
        if asked.get("LogFormat") == "JSON":
            record = {
                "requestId": invocation.id,
                "status": status,
                "metrics": {"durationMs": round(elapsed, 2), "memorySizeMB": memory, "maxMemoryUsedMB": peak},
            }
            if status == "success" and asked.get("SystemLogLevel") == "WARN":
                return said
            now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
            return said + json.dumps({"time": now, "type": "platform.report", "record": record}) + "\n"
        late = f"RequestId: {invocation.id} Error: Task timed out after {elapsed / 1000:.2f} seconds\n"
        return (
            f"START RequestId: {invocation.id} Version: {self.function_version.id.qualifier}\n"
            f"{said}END RequestId: {invocation.id}\n"
            f"REPORT RequestId: {invocation.id}\tDuration: {elapsed:.2f} ms\tBilled Duration: {int(elapsed) + 1} ms\t"
            f"Memory Size: {memory} MB\tMax Memory Used: {peak} MB\t\n" + (late if status == "timeout" else "")
        )
