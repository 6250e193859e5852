"""The record of AWS calls: one JSON line each, in calls.jsonl of the run.

It holds what an IAM policy can see and how the call ended. Never a body: of an
expression only its text, which names attributes and holds no value.
"""

import json
import threading
from pathlib import Path

# The member of TransactWriteItems' and TransactGetItems' parts is the operation
# that IAM asks a permission for; ConditionCheck's is spelled otherwise.
_PARTS = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}


def _table(name: str, where: str, index: str | None = None) -> str:
    arn = name if name.startswith("arn:") else f"arn:aws:dynamodb:{where}:table/{name}"
    return f"{arn}/index/{index}" if index else arn


def _of_dynamodb(operation: str, request: dict, where: str) -> list[dict]:
    if parts := request.get("TransactItems"):
        return [
            {
                "action": f"dynamodb:{_PARTS[kind]}",
                "resource": _table(part["TableName"], where),
                "condition": part.get("ConditionExpression") or "",
            }
            for item in parts
            for kind, part in item.items()
        ]
    if isinstance(request.get("RequestItems"), dict):
        return [
            {"action": f"dynamodb:{operation}", "resource": _table(name, where), "condition": ""}
            for name in request["RequestItems"]
        ]
    resource = "*"
    if name := request.get("TableName"):
        resource = _table(name, where, request.get("IndexName"))
    elif arn := request.get("ResourceArn"):
        resource = arn
    return [
        {
            "action": f"dynamodb:{operation}",
            "resource": resource,
            "condition": request.get("ConditionExpression") or "",
        }
    ]


def _of_streams(operation: str, request: dict) -> list[dict]:
    # A shard iterator begins with the ARN of its stream.
    arn = request.get("StreamArn") or (request.get("ShardIterator") or "*").split("|")[0]
    return [{"action": f"dynamodb:{operation}", "resource": arn, "condition": ""}]


def _of_kms(operation: str, request: dict, response: dict, where: str) -> list[dict]:
    key = (response or {}).get("KeyId") or request.get("KeyId") or "*"
    if not key.startswith("arn:") and key != "*":
        key = f"arn:aws:kms:{where}:{key if key.startswith('alias/') else 'key/' + key}"
    return [{"action": f"kms:{operation}", "resource": key, "condition": ""}]


# Members that name the resource, for the services that only pass by.
_NAMES = {
    "logs": ("logGroupName", "arn:aws:logs:{where}:log-group:{name}"),
    "sns": ("TopicArn", "{name}"),
    "sqs": ("QueueUrl", "{name}"),
    "secretsmanager": ("SecretId", "{name}"),
    "s3": ("Bucket", "arn:aws:s3:::{name}"),
}


def actions(service: str, operation: str, request: dict, response: dict | None, where: str) -> list[dict]:
    """What IAM would ask for: one action, or one for each part of a transaction.
    where is REGION:ACCOUNT."""
    request = request or {}
    if service == "dynamodb":
        return _of_dynamodb(operation, request, where)
    if service == "dynamodbstreams":
        return _of_streams(operation, request)
    if service == "kms":
        return _of_kms(operation, request, response, where)
    member, form = _NAMES.get(service, ("", ""))
    resource = form.format(where=where, name=request[member]) if request.get(member) else "*"
    return [{"action": f"{service}:{operation}", "resource": resource, "condition": ""}]


class Recorder:
    def __init__(self, path: Path):
        self._lock = threading.Lock()
        # Unbuffered: a line is whole in the file before the call is answered.
        self._file = open(path, "ab", buffering=0)

    def add(self, call: dict) -> None:
        line = json.dumps(call, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock:
            self._file.write(line)
