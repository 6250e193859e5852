"""Stands at LocalStack's gateway: records the AWS calls of functions and does
to them what faults.Plans says."""

import functools
import logging
import time
from datetime import UTC, datetime
from pathlib import Path

from localstack import config
from localstack.aws import handlers
from localstack.aws.api import CommonServiceException
from localstack.utils.aws.request_context import extract_access_key_id_from_auth_header
from twisted.internet import reactor

from vacancy_localstack import instances, roles
from vacancy_localstack.faults import Call, Plans
from vacancy_localstack.recorder import Recorder, actions, keys

LOG = logging.getLogger(__name__)

plans = Plans()


def listen_on_loopback() -> None:
    """Binds the host of GATEWAY_LISTEN, which the Twisted server ignores."""
    from localstack.runtime.server import twisted

    bound = functools.partial(twisted.endpoints.TCP4ServerEndpoint, interface=config.GATEWAY_LISTEN[0].host)
    twisted.endpoints.TCP4ServerEndpoint = bound


def watch_calls(path: Path) -> None:
    """Installs the watch. path gets the record."""
    watch = _Watch(Recorder(path))
    _reach_connections()
    handlers.serve_custom_service_request_handlers.append(watch.request)
    handlers.run_custom_response_handlers.append(watch.response)


def _reach_connections() -> None:
    """Lets a request's environment end its connection without an answer."""
    import rolo.serving.twisted as serving

    original = serving.update_wsgi_environment

    def update_wsgi_environment(environ, request):
        original(environ, request)
        channel = request.channel
        environ["vacancy.cut"] = lambda: reactor.callFromThread(lambda: channel.transport.abortConnection())

    serving.update_wsgi_environment = update_wsgi_environment


def _cut(context) -> None:
    cut = context.request.environ.get("vacancy.cut")
    if cut:
        cut()


class _Watch:
    def __init__(self, recorder: Recorder):
        self._recorder = recorder

    def request(self, chain, context, response) -> None:
        """Before the service sees a call."""
        if not context.operation:
            return
        key = extract_access_key_id_from_auth_header(context.request.headers)
        context.vacancy_executor = executor = instances.of(key)
        context.vacancy_key = key
        context.vacancy_after = None
        if executor is None:
            return
        request = context.service_request or {}
        name = request.get("TableName") or ""
        call = Call(executor.function, context.service.service_name, context.operation.name, name)
        invocation = executor.current
        when = plans.kill(call, invocation.calls) if invocation else None
        if when == "before":
            executor.kill()
            self._record(context, executor, "killed before")
            return _drop(chain, context)
        if when == "after":
            context.vacancy_after = "killed"
            return None
        fault = plans.fault(call)
        if fault is None:
            return None
        context.vacancy_fault = fault.kind
        if fault.kind == "slow":
            time.sleep(fault.seconds)
        elif fault.kind == "lost":
            context.vacancy_after = "lost"
        elif fault.kind == "refused":
            self._record(context, executor, "refused")
            return _drop(chain, context)
        else:
            code, status, words = fault.answer(call.service)
            raise CommonServiceException(code, words, status_code=status, sender_fault=status < 500)
        return None

    def response(self, chain, context, response) -> None:
        """After the service answered, before the caller hears of it."""
        if not context.operation or getattr(context, "vacancy_dropped", False):
            return
        executor = getattr(context, "vacancy_executor", None)
        if executor is None:
            self._record_on_behalf(context, response)
            return
        after = context.vacancy_after
        self._record(context, executor, after or getattr(context, "vacancy_fault", ""), response.status_code)
        if after == "killed":
            executor.kill()
        if after:
            _cut(context)

    def _record(self, context, executor, fault: str = "", status: int = 0) -> None:
        self._recorder.add(
            self._line(context, status)
            | {
                "function": executor.function,
                "role": executor.role,
                "instance": executor.id,
                "invocation": executor.current.id if executor.current else "",
                "fault": fault,
            }
        )

    def _record_on_behalf(self, context, response) -> None:
        """Calls that Lambda makes with a function's role: its logs, its stream.
        They come several times a second, so each kind is recorded once."""
        role = roles.of(context.vacancy_key if hasattr(context, "vacancy_key") else None)
        if role is None:
            return
        line = self._line(context, response.status_code) | {"function": role.function, "role": role.arn}
        if role.first(line["operation"], str(line["actions"]), line["error"]):
            self._recorder.add(line | {"instance": "", "invocation": "", "fault": ""})

    @staticmethod
    def _line(context, status: int) -> dict:
        request, exception = context.service_request or {}, context.service_exception
        service, operation = context.service.service_name, context.operation.name
        where = f"{context.region}:{context.account_id}"
        return {
            "time": datetime.now(UTC).isoformat(),
            "service": service,
            "operation": operation,
            "actions": actions(service, operation, request, context.service_response, where),
            "context": dict(request.get("EncryptionContext") or {}) if service == "kms" else {},
            "keys": keys(service, request),
            "parameters": sorted(request),
            "status": status,
            "error": getattr(exception, "code", "") if exception else "",
        }


def _drop(chain, context) -> None:
    """Ends the request with no answer: the call is not carried out."""
    context.vacancy_dropped = True
    _cut(context)
    chain.terminate()
