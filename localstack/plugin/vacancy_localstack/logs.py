"""The logs of functions, as Lambda writes them.

LocalStack 4.14 keeps LoggingConfig.LogGroup and writes to /aws/lambda/NAME all
the same; it asks for a new group although there is one, which the role may not;
and it stores nothing of an init that failed.
"""

import logging
import time
from datetime import date

from localstack.aws.connect import connect_to
from localstack.services.lambda_.invocation import logs as handlers
from localstack.services.lambda_.invocation.execution_environment import ExecutionEnvironment
from localstack.utils.aws.client_types import ServicePrincipal

LOG = logging.getLogger(__name__)


def group(function_version) -> str:
    """The log group of a function."""
    config = function_version.config.logging_config or {}
    return config.get("LogGroup") or f"/aws/lambda/{function_version.id.function_name}"


def store(function_version, instance: str, text: str) -> None:
    """Puts text, what an init printed, into the function's log."""
    id = function_version.id
    client = _client(function_version.config.role, id.region)
    stream = f"{date.today():%Y/%m/%d}/[{id.qualifier}]{instance}"
    _put(client, group(function_version), stream, text)


def _client(role: str, region: str):
    lambda_ = ServicePrincipal.lambda_
    return connect_to.with_assumed_role(region_name=region, role_arn=role, service_principal=lambda_).logs


def _put(client, group: str, stream: str, text: str) -> None:
    """One event a line. The stream is made when it is missing, the group only
    when it is: a function with a group of its own may not make one."""
    now = int(time.time() * 1000)
    events = [{"timestamp": now, "message": line + "\n"} for line in text.split("\n") if line]
    if not events:
        return
    missing = client.exceptions.ResourceNotFoundException
    place = {"logGroupName": group, "logStreamName": stream}
    try:
        try:
            client.put_log_events(logEvents=events, **place)
        except missing:
            try:
                _unless_there(client, client.create_log_stream, place)
            except missing:
                _unless_there(client, client.create_log_group, {"logGroupName": group})
                _unless_there(client, client.create_log_stream, place)
            client.put_log_events(logEvents=events, **place)
    except Exception as e:
        LOG.warning("storing the log of %s: %s", group, e)


def _unless_there(client, create, members: dict) -> None:
    try:
        create(**members)
    except client.exceptions.ResourceAlreadyExistsException:
        pass  # another instance was faster


def _run(self, *_, **__) -> None:
    """The loop of LocalStack's LogHandler."""
    client = _client(self.role_arn, self.region)
    while not self._shutdown_event.is_set():
        item = self.log_queue.get()
        if item is handlers.QUEUE_SHUTDOWN:
            return
        _put(client, item.log_group, item.log_stream, item.logs)


def install() -> None:
    ExecutionEnvironment.get_log_group_name = lambda self: group(self.function_version)
    handlers.LogHandler.run_log_loop = _run
