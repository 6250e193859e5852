"""The record of AWS calls: one JSON line each, in calls.jsonl of the run.

It holds what an IAM policy can see and how the call ended. Never a body: of an
item only the partition of a document, of an expression only its text, which
names attributes and holds no value.
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


def _partition(request: dict) -> dict[str, str]:
    """The partition that an item lies in, where it is a text: of documents. A
    query's is the value that its condition compares first."""
    item = request.get("Item") or request.get("Key") or {}
    partition = item.get("pk") or {}
    if request.get("KeyConditionExpression"):
        first = request["KeyConditionExpression"].split("=", 1)[-1].split()[0]
        partition = (request.get("ExpressionAttributeValues") or {}).get(first) or {}
    return {"dynamodb:LeadingKeys": partition["S"]} if "S" in partition else {}


def _of_dynamodb(operation: str, request: dict, where: str) -> list[dict]:
    if parts := request.get("TransactItems"):
        return [
            {
                "action": f"dynamodb:{_PARTS[kind]}",
                "resource": _table(part["TableName"], where),
                "condition": part.get("ConditionExpression") or "",
                "keys": _partition(part),
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
            "keys": _partition(request),
        }
    ]


def _of_streams(operation: str, request: dict, where: str) -> list[dict]:
    # A shard iterator has the ARN of its stream in it.
    parts = (request.get("ShardIterator") or "").split("|")
    arn = request.get("StreamArn") or next((p for p in parts if p.startswith("arn:")), "*")
    arn = arn.replace(":ddblocal:", f":{where.split(':')[0]}:")  # as DynamoDB Local calls its Region
    return [{"action": f"dynamodb:{operation}", "resource": arn, "condition": ""}]


def _of_kms(operation: str, request: dict, response: dict, where: str) -> list[dict]:
    key = (response or {}).get("KeyId") or request.get("KeyId") or "*"
    if not key.startswith("arn:") and key != "*":
        key = f"arn:aws:kms:{where}:{key if key.startswith('alias/') else 'key/' + key}"
    return [{"action": f"kms:{operation}", "resource": key, "condition": ""}]


def _of_logs(operation: str, request: dict, where: str) -> list[dict]:
    arn = f"arn:aws:logs:{where}:log-group:{request.get('logGroupName', '*')}"
    if stream := request.get("logStreamName"):
        arn += f":log-stream:{stream}"
    return [{"action": f"logs:{operation}", "resource": arn, "condition": ""}]


def _of_sqs(operation: str, request: dict, where: str) -> list[dict]:
    queue = (request.get("QueueUrl") or "*").rsplit("/", 1)[-1]
    # IAM knows the operations on batches by those on one message.
    return [{"action": f"sqs:{operation.removesuffix('Batch')}", "resource": f"arn:aws:sqs:{where}:{queue}", "condition": ""}]


# Operations of S3 that IAM knows by another name.
_S3 = {"HeadObject": "GetObject", "ListObjectsV2": "ListBucket", "ListObjects": "ListBucket", "HeadBucket": "ListBucket"}


def _of_s3(operation: str, request: dict) -> list[dict]:
    arn = f"arn:aws:s3:::{request.get('Bucket', '*')}"
    if key := request.get("Key"):
        arn += f"/{key}"
    return [{"action": f"s3:{_S3.get(operation, operation)}", "resource": arn, "condition": ""}]


def _of_states(operation: str, request: dict) -> list[dict]:
    # IAM has another word for Step Functions than LocalStack.
    arn = request.get("executionArn") or request.get("stateMachineArn") or "*"
    return [{"action": f"states:{operation}", "resource": arn, "condition": ""}]


def _of_lambda(operation: str, request: dict, where: str) -> list[dict]:
    name = request.get("FunctionName") or "*"
    if not name.startswith("arn:") and name != "*":
        name = f"arn:aws:lambda:{where}:function:{name}"
    # IAM has another word for Invoke than Lambda.
    action = "InvokeFunction" if operation == "Invoke" else operation
    return [{"action": f"lambda:{action}", "resource": name, "condition": ""}]


# Members that name the resource, for the services that only pass by.
_NAMES = {
    "sns": ("TopicArn", "{name}"),
    "secretsmanager": ("SecretId", "{name}"),
}


def actions(service: str, operation: str, request: dict, response: dict | None, where: str) -> list[dict]:
    """What IAM would ask for: one action, or one for each part of a transaction.
    where is REGION:ACCOUNT."""
    request = request or {}
    if service == "dynamodb":
        return _of_dynamodb(operation, request, where)
    if service == "dynamodbstreams":
        return _of_streams(operation, request, where)
    if service == "kms":
        return _of_kms(operation, request, response, where)
    if service == "logs":
        return _of_logs(operation, request, where)
    if service == "sqs":
        return _of_sqs(operation, request, where)
    if service == "s3":
        return _of_s3(operation, request)
    if service == "stepfunctions":
        return _of_states(operation, request)
    if service == "lambda":
        return _of_lambda(operation, request, where)
    member, form = _NAMES.get(service, ("", ""))
    resource = form.format(where=where, name=request[member]) if request.get(member) else "*"
    return [{"action": f"{service}:{operation}", "resource": resource, "condition": ""}]


# Members of a request that IAM can ask about, by the name it has for them.
_KEYS = {
    "kms": {"SigningAlgorithm": "kms:SigningAlgorithm", "MessageType": "kms:MessageType"},
    "dynamodb": {"Select": "dynamodb:Select", "ReturnValues": "dynamodb:ReturnValues"},
    "s3": {"Prefix": "s3:prefix"},
}


def keys(service: str, request: dict) -> dict[str, str]:
    """The condition keys of a request, but for the encryption context's and for
    those that each of its actions has of its own."""
    return {key: str(request[member]) for member, key in _KEYS.get(service, {}).items() if request.get(member)}


class Recorder:
    def __init__(self, path: Path):
        self._lock = threading.Lock()
        # Unbuffered: a line is whole in the file before the call is answered.
        self._file = open(path, "ab", buffering=0)

    def add(self, call: dict) -> None:
        line = json.dumps(call, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock:
            self._file.write(line)
