"""A Function URL's event names its caller: LocalStack 4.14 leaves sourceIp and
x-forwarded-for empty, and a limit per address would see one address."""

from localstack.services.lambda_ import urlrouter


def install() -> None:
    original = urlrouter.event_for_lambda_url

    def event_for_lambda_url(api_id, request):
        event = original(api_id, request)
        address = request.remote_addr or ""
        event["requestContext"]["http"]["sourceIp"] = address
        event["headers"]["x-forwarded-for"] = address
        return event

    urlrouter.event_for_lambda_url = event_for_lambda_url
