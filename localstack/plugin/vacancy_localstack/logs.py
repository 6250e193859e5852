"""Functions log into the group that they name: LocalStack 4.14 keeps
LoggingConfig.LogGroup and then writes to /aws/lambda/NAME all the same. And the
output of an init that failed is stored, as on AWS."""

import logging
import time
from datetime import date

from localstack.aws.connect import connect_to
from localstack.services.lambda_.invocation.execution_environment import ExecutionEnvironment

LOG = logging.getLogger(__name__)


def group(function_version) -> str:
    """The log group of a function."""
    config = function_version.config.logging_config or {}
    return config.get("LogGroup") or f"/aws/lambda/{function_version.id.function_name}"


def store(function_version, instance: str, text: str) -> None:
    """Puts text into the function's log, one event a line."""
    lines = [line for line in text.splitlines() if line]
    if not lines:
        return
    id = function_version.id
    place = {
        "logGroupName": group(function_version),
        "logStreamName": f"{date.today():%Y/%m/%d}/[{id.qualifier}]{instance}-init",
    }
    client = connect_to(aws_access_key_id=id.account, region_name=id.region).logs
    now = int(time.time() * 1000)
    try:
        for create, members in (
            (client.create_log_group, {"logGroupName": place["logGroupName"]}),
            (client.create_log_stream, place),
        ):
            try:
                create(**members)
            except client.exceptions.ResourceAlreadyExistsException:
                pass
        client.put_log_events(logEvents=[{"timestamp": now, "message": line} for line in lines], **place)
    except Exception as e:
        LOG.warning("storing the log of %s: %s", id.function_name, e)


def install() -> None:
    ExecutionEnvironment.get_log_group_name = lambda self: group(self.function_version)
