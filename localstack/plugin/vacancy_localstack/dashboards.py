"""AWS::CloudWatch::Dashboard, of which LocalStack 4.14 has the API and no
resource provider: a stack with one "succeeds" without it."""

from localstack.services.cloudformation.resource_provider import (
    CloudFormationResourceProviderPlugin,
    OperationStatus,
    ProgressEvent,
    ResourceProvider,
)


class DashboardProvider(ResourceProvider):
    TYPE = "AWS::CloudWatch::Dashboard"
    SCHEMA = {
        "typeName": TYPE,
        "properties": {"DashboardName": {"type": "string"}, "DashboardBody": {"type": "string"}},
        "createOnlyProperties": ["/properties/DashboardName"],
        "primaryIdentifier": ["/properties/DashboardName"],
        "required": ["DashboardBody"],
        "handlers": {"create": {}, "update": {}, "delete": {}},
    }

    def create(self, request):
        from localstack.services.cloudformation.provider_utils import generate_default_name

        model = request.desired_state
        name = model.get("DashboardName") or generate_default_name(request.stack_name, request.logical_resource_id)
        request.aws_client_factory.cloudwatch.put_dashboard(DashboardName=name, DashboardBody=model["DashboardBody"])
        return ProgressEvent(OperationStatus.SUCCESS, resource_model={**model, "DashboardName": name})

    def update(self, request):
        request.desired_state["DashboardName"] = request.previous_state["DashboardName"]
        return self.create(request)

    def delete(self, request):
        request.aws_client_factory.cloudwatch.delete_dashboards(DashboardNames=[request.desired_state["DashboardName"]])
        return ProgressEvent(OperationStatus.SUCCESS, resource_model={})


class DashboardPlugin(CloudFormationResourceProviderPlugin):
    name = DashboardProvider.TYPE

    def load(self):
        self.factory = DashboardProvider
