"""What a stream's mapping could not deliver goes to its queue with the
function's own role, as on AWS: LocalStack 4.14 sends it with none, and a missing
or a needless permission would not be seen. And its filters see binary values as
the function does, in base64: LocalStack 4.14 compares the raw bytes."""

import base64
import json

from localstack.aws.connect import connect_to
from localstack.services.lambda_.event_source_mapping.pollers.dynamodb_poller import DynamoDBPoller
from localstack.services.lambda_.event_source_mapping.pollers.stream_poller import StreamPoller
from localstack.services.lambda_.event_source_mapping.pollers.sqs_poller import get_queue_url
from localstack.services.lambda_.event_source_mapping.pipe_utils import get_current_time
from localstack.utils.aws.arns import parse_arn


def install() -> None:
    original = StreamPoller.send_events_to_dlq

    def send_events_to_dlq(self, shard_id, events, context):
        arn = self.stream_parameters.get("DeadLetterConfig", {}).get("Arn")
        if not arn or parse_arn(arn)["service"] != "sqs":
            return original(self, shard_id, events, context)
        # The poller reads the stream with the role already.
        client = getattr(self.source_client, "_client", self.source_client)
        credentials = client._request_signer._credentials
        sqs = connect_to(
            region_name=parse_arn(arn)["region"],
            aws_access_key_id=credentials.access_key,
            aws_secret_access_key=credentials.secret_key,
            aws_session_token=credentials.token,
        ).sqs
        event = self.create_dlq_event(shard_id, events, context, get_current_time())
        sqs.send_message(QueueUrl=get_queue_url(arn), MessageBody=json.dumps(event))

    StreamPoller.send_events_to_dlq = send_events_to_dlq

    transform = DynamoDBPoller.transform_into_events

    def transform_into_events(self, records, shard_id):
        return as_json(transform(self, records, shard_id))

    DynamoDBPoller.transform_into_events = transform_into_events


def as_json(value):
    """value with its bytes in base64, as JSON has them."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {k: as_json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [as_json(v) for v in value]
    return value
