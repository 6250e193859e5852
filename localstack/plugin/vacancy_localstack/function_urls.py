"""Function URLs, where LocalStack 4.14 differs from AWS.

An event names its caller: sourceIp and x-forwarded-for are empty there, and a
limit per address would see one address. And a function whose reserved
concurrency is used up answers 429, not 500.
"""

from localstack.aws.api.lambda_ import TooManyRequestsException
from localstack.http import Response
from localstack.services.lambda_ import urlrouter


def install() -> None:
    event_for, handle = urlrouter.event_for_lambda_url, urlrouter.FunctionUrlRouter.handle_lambda_url_invocation

    def event_for_lambda_url(api_id, request):
        event = event_for(api_id, request)
        address = request.remote_addr or ""
        event["requestContext"]["http"]["sourceIp"] = address
        event["headers"]["x-forwarded-for"] = address
        return event

    def handle_lambda_url_invocation(self, *args, **kwargs):
        try:
            return handle(self, *args, **kwargs)
        except TooManyRequestsException:
            response = Response(status=429)
            response.set_json({"Message": "Rate Exceeded."})
            return response

    urlrouter.event_for_lambda_url = event_for_lambda_url
    urlrouter.FunctionUrlRouter.handle_lambda_url_invocation = handle_lambda_url_invocation
