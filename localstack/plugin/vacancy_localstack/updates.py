"""CloudFormation: what LocalStack 4.14 says it made or updated, and did not.

One function for each kind of resource of this project's stacks that needs it.
An update that is not carried out here either raises NotImplementedError, which
LocalStack logs in words that the tests look for.
"""

import json

from localstack.services.cloudformation.engine.v2.change_set_model_executor import ChangeSetModelExecutor
from localstack.services.cloudformation.resource_provider import (
    OperationStatus,
    ProgressEvent,
    ResourceProviderExecutor,
    ResourceRequest,
)

from vacancy_localstack import tables
from vacancy_localstack.tables import changed


def install() -> None:
    _replace_only_what_changed()
    _keep_what_is_retained()
    tables.install()
    _log_groups()
    _functions()
    _urls()
    _keys()
    _made_again()


def _replace_only_what_changed() -> None:
    """A create-only property that refers to a changed resource counts as changed
    even if its value stays, and the resource is made a second time."""
    original = ChangeSetModelExecutor._execute_resource_change

    def execute(self, name, before, after):
        if getattr(after, "requires_replacement", False) and getattr(before, "properties", None):
            provider = ResourceProviderExecutor.try_load_resource_provider(after.resource_type)
            schema = provider.SCHEMA if provider else {}
            names = [p.removeprefix("/properties/") for p in schema.get("createOnlyProperties", [])]
            old, new = before.properties.properties, after.properties.properties
            if provider and all(old.get(p) == new.get(p) for p in names):
                after.requires_replacement = False
        return original(self, name, before, after)

    ChangeSetModelExecutor._execute_resource_change = execute


def _keep_what_is_retained() -> None:
    """With RetainExceptOnCreate a resource outlives its stack, as with Retain.
    LocalStack keeps only the latter, and has no failed creations to tell apart."""
    original = ChangeSetModelExecutor._execute_resource_change

    def execute(self, name, before, after):
        if getattr(before, "deletion_policy", None) == "RetainExceptOnCreate":
            before.deletion_policy = "Retain"
        return original(self, name, before, after)

    ChangeSetModelExecutor._execute_resource_change = execute


def _done(request: ResourceRequest) -> ProgressEvent:
    return ProgressEvent(
        OperationStatus.SUCCESS, resource_model={**(request.previous_state or {}), **request.desired_state}
    )


def _only(request: ResourceRequest, *names: str) -> None:
    """Refuses an update of anything but what is named."""
    if changed(request.previous_state or {}, request.desired_state) - set(names):
        raise NotImplementedError


def _log_groups() -> None:
    """A group keeps its lines as long as it is told, also when it is made."""
    from localstack.services.logs.resource_providers.aws_logs_loggroup import LogsLogGroupProvider as Provider

    original = Provider.create

    def retain(request):
        logs, model = request.aws_client_factory.logs, request.desired_state
        name = model.get("LogGroupName") or request.previous_state["LogGroupName"]
        if days := model.get("RetentionInDays"):
            logs.put_retention_policy(logGroupName=name, retentionInDays=int(days))
        else:
            logs.delete_retention_policy(logGroupName=name)

    def create(self, request):
        event = original(self, request)
        if request.desired_state.get("RetentionInDays"):
            retain(request)
        return event

    def update(self, request):
        _only(request, "RetentionInDays")
        retain(request)
        return _done(request)

    Provider.create, Provider.update = create, update


def _functions() -> None:
    """Reserved concurrency, which is part of the spend guard, and recursion."""
    from localstack.services.lambda_.resource_providers.aws_lambda_function import LambdaFunctionProvider as Provider

    create, update = Provider.create, Provider.update

    def reserve(request, event):
        if event.status != OperationStatus.SUCCESS:
            return event
        client, name = request.aws_client_factory.lambda_, event.resource_model["FunctionName"]
        if (reserved := request.desired_state.get("ReservedConcurrentExecutions")) is not None:
            client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=int(reserved))
        elif (request.previous_state or {}).get("ReservedConcurrentExecutions") is not None:
            client.delete_function_concurrency(FunctionName=name)
        loop = request.desired_state.get("RecursiveLoop") or "Terminate"
        client.put_function_recursion_config(FunctionName=name, RecursiveLoop=loop)
        return event

    Provider.create = lambda self, request: reserve(request, create(self, request))
    Provider.update = lambda self, request: reserve(request, update(self, request))


def _urls() -> None:
    from localstack.services.lambda_.resource_providers.aws_lambda_url import LambdaUrlProvider as Provider

    def update(self, request):
        _only(request, "AuthType", "Cors", "InvokeMode")
        new = request.desired_state
        request.aws_client_factory.lambda_.update_function_url_config(
            FunctionName=new["TargetFunctionArn"],
            **{k: new[k] for k in ("Qualifier", "AuthType", "Cors", "InvokeMode") if k in new},
        )
        return _done(request)

    Provider.update = update


def _keys() -> None:
    from localstack.services.kms.resource_providers.aws_kms_key import KMSKeyProvider as Provider

    def update(self, request):
        _only(request, "KeyPolicy", "Description", "EnableKeyRotation", "PendingWindowInDays")
        kms, new = request.aws_client_factory.kms, request.desired_state
        key = (request.previous_state or {})["KeyId"]
        kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(new["KeyPolicy"]))
        kms.update_key_description(KeyId=key, Description=new.get("Description", ""))
        (kms.enable_key_rotation if new.get("EnableKeyRotation") else kms.disable_key_rotation)(KeyId=key)
        return _done(request)

    Provider.update = update


def _made_again() -> None:
    """Kinds whose API puts the whole thing under its name: to update is to make
    again, under the name that it has."""
    from localstack.services.cloudwatch.resource_providers.aws_cloudwatch_alarm import CloudWatchAlarmProvider
    from localstack.services.events.resource_providers.aws_events_rule import EventsRuleProvider
    from localstack.services.s3.resource_providers.aws_s3_bucketpolicy import S3BucketPolicyProvider
    from localstack.services.sns.resource_providers.aws_sns_topicpolicy import SNSTopicPolicyProvider
    from localstack.services.sqs.resource_providers.aws_sqs_queuepolicy import SQSQueuePolicyProvider

    def again(provider, *identity):
        create = provider.create

        def update(self, request):
            previous = request.previous_state or {}
            kept = {k: previous[k] for k in identity if k in previous}
            request.desired_state = {**request.desired_state, **kept}
            event = create(self, request)
            # Some make up a new id; the resource is the same one.
            event.resource_model.update(kept)
            return event

        provider.update = update

    again(CloudWatchAlarmProvider, "AlarmName")
    again(EventsRuleProvider, "Name", "Id")
    again(S3BucketPolicyProvider, "Id")
    again(SNSTopicPolicyProvider, "Id")
    again(SQSQueuePolicyProvider, "Id")
