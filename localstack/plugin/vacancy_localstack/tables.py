"""Tables of CloudFormation's AWS::DynamoDB::GlobalTable, which is what CDK's
TableV2 becomes.

LocalStack 4.14 makes such a table and drops what its one replica says:
point-in-time recovery, deletion protection, the key, the tags; the ceilings on
throughput too. It also enters the table's own Region as a replica, after which
it is listed twice. And it carries out no update.
"""

from localstack.services.cloudformation.resource_provider import (
    OperationStatus,
    ProgressEvent,
    ResourceRequest,
)
from localstack.services.dynamodb.resource_providers.aws_dynamodb_globaltable import (
    DynamoDBGlobalTableProvider,
)

# Of the table and of its replica, what an update carries out. Any other change
# is left to LocalStack to say that it is not.
_UPDATED = {"StreamSpecification", "TimeToLiveSpecification", "WriteOnDemandThroughputSettings", "GlobalSecondaryIndexes"}
_UPDATED_OF_REPLICA = {
    "GlobalSecondaryIndexes",
    "DeletionProtectionEnabled",
    "PointInTimeRecoverySpecification",
    "ReadOnDemandThroughputSettings",
    "Tags",
}


def replica_of(model: dict, region: str) -> dict:
    """The part of a table that is about this Region, the only one here."""
    replicas = model.get("Replicas") or []
    if len(replicas) != 1 or replicas[0].get("Region", region) != region:
        raise ValueError(f"replicas = {[r.get('Region') for r in replicas]}, want {region} alone")
    return replicas[0]


def ceilings(write: dict | None, read: dict | None) -> dict:
    """OnDemandThroughput as the API of DynamoDB has it."""
    limits = {
        "MaxWriteRequestUnits": (write or {}).get("MaxWriteRequestUnits"),
        "MaxReadRequestUnits": (read or {}).get("MaxReadRequestUnits"),
    }
    return {name: int(limit) for name, limit in limits.items() if limit is not None}


def indexes(model: dict, replica: dict) -> list[dict]:
    """The indexes; their reading ceilings stand with the replica."""
    of_replica = {i["IndexName"]: i for i in replica.get("GlobalSecondaryIndexes") or []}
    out = []
    for index in model.get("GlobalSecondaryIndexes") or []:
        one = {k: index[k] for k in ("IndexName", "KeySchema", "Projection")}
        read = of_replica.get(index["IndexName"], {}).get("ReadOnDemandThroughputSettings")
        if limits := ceilings(index.get("WriteOnDemandThroughputSettings"), read):
            one["OnDemandThroughput"] = limits
        out.append(one)
    return out


def create_parameters(model: dict, region: str) -> dict:
    """CreateTable's parameters for a table of CloudFormation."""
    replica = replica_of(model, region)
    out = {k: model[k] for k in ("TableName", "AttributeDefinitions", "KeySchema", "LocalSecondaryIndexes") if model.get(k)}
    out["BillingMode"] = model.get("BillingMode") or "PROVISIONED"
    if found := indexes(model, replica):
        out["GlobalSecondaryIndexes"] = found
    if limits := ceilings(model.get("WriteOnDemandThroughputSettings"), replica.get("ReadOnDemandThroughputSettings")):
        out["OnDemandThroughput"] = limits
    if stream := model.get("StreamSpecification"):
        out["StreamSpecification"] = {"StreamEnabled": True, **stream}
    if sse := model.get("SSESpecification"):
        out["SSESpecification"] = {
            "Enabled": sse["SSEEnabled"],
            "SSEType": sse.get("SSEType", "KMS"),
            **(replica.get("SSESpecification") or {}),
        }
    out["DeletionProtectionEnabled"] = bool(replica.get("DeletionProtectionEnabled"))
    if tags := replica.get("Tags"):
        out["Tags"] = tags
    return out


def index_updates(before: list[dict], after: list[dict]) -> list[dict]:
    """The changes of ceilings; a change of anything else is not carried out."""

    def plain(indexes):
        return [{k: v for k, v in i.items() if k != "OnDemandThroughput"} for i in indexes]

    if plain(before) != plain(after):
        raise NotImplementedError
    return [
        {"Update": {"IndexName": new["IndexName"], "OnDemandThroughput": new.get("OnDemandThroughput", {})}}
        for old, new in zip(before, after)
        if old != new
    ]


def changed(old: dict, new: dict) -> set[str]:
    """The names of members that differ; a read-only one is in one of the two only."""
    return {k for k in old.keys() & new.keys() if old[k] != new[k]} | {k for k in new.keys() - old.keys()}


def install() -> None:
    original = DynamoDBGlobalTableProvider.create

    def create(self, request: ResourceRequest) -> ProgressEvent:
        model = request.desired_state
        if request.custom_context.get("repeated_invocation"):
            return original(self, request)
        request.custom_context["repeated_invocation"] = True
        if not model.get("TableName"):
            from localstack.services.cloudformation.provider_utils import generate_default_name

            model["TableName"] = generate_default_name(request.stack_name, request.logical_resource_id)
        dynamodb = request.aws_client_factory.dynamodb
        made = dynamodb.create_table(**create_parameters(model, request.region_name))["TableDescription"]
        model["Arn"], model["TableId"] = made["TableArn"], made["TableId"]
        if made.get("LatestStreamArn"):
            model["StreamArn"] = made["LatestStreamArn"]
        _recovery(dynamodb, model, request.region_name)
        if ttl := model.get("TimeToLiveSpecification"):
            dynamodb.update_time_to_live(TableName=model["TableName"], TimeToLiveSpecification=ttl)
        return ProgressEvent(OperationStatus.IN_PROGRESS, resource_model=model, custom_context=request.custom_context)

    DynamoDBGlobalTableProvider.create = create
    DynamoDBGlobalTableProvider.update = lambda self, request: update(request)


def _recovery(dynamodb, model: dict, region: str) -> None:
    if recovery := replica_of(model, region).get("PointInTimeRecoverySpecification"):
        dynamodb.update_continuous_backups(
            TableName=model["TableName"], PointInTimeRecoverySpecification=_typed(recovery)
        )


def _typed(recovery: dict) -> dict:
    """CloudFormation's values are text where a template says so."""
    out = {"PointInTimeRecoveryEnabled": str(recovery["PointInTimeRecoveryEnabled"]).lower() == "true"}
    if days := recovery.get("RecoveryPeriodInDays"):
        out["RecoveryPeriodInDays"] = int(days)
    return out


def update(request: ResourceRequest) -> ProgressEvent:
    """Carries out the updates of a stage's settings; refuses all others."""
    old, new = request.previous_state or {}, request.desired_state
    region = request.region_name
    before, after = replica_of(old, region), replica_of(new, region)
    if changed({k: v for k, v in old.items() if k != "Replicas"}, {k: v for k, v in new.items() if k != "Replicas"}) - _UPDATED:
        raise NotImplementedError
    if changed(before, after) - _UPDATED_OF_REPLICA:
        raise NotImplementedError
    model = {**old, **new}
    name, dynamodb = model["TableName"], request.aws_client_factory.dynamodb
    parameters = {"DeletionProtectionEnabled": bool(after.get("DeletionProtectionEnabled"))}
    if limits := ceilings(new.get("WriteOnDemandThroughputSettings"), after.get("ReadOnDemandThroughputSettings")):
        parameters["OnDemandThroughput"] = limits
    if updates := index_updates(indexes(old, before), indexes(new, after)):
        parameters["GlobalSecondaryIndexUpdates"] = updates
    if old.get("StreamSpecification") != new.get("StreamSpecification"):
        stream = new.get("StreamSpecification")
        parameters["StreamSpecification"] = {"StreamEnabled": True, **stream} if stream else {"StreamEnabled": False}
    described = dynamodb.update_table(TableName=name, **parameters)["TableDescription"]
    if described.get("LatestStreamArn"):
        model["StreamArn"] = described["LatestStreamArn"]
    _recovery(dynamodb, model, region)
    if (ttl := new.get("TimeToLiveSpecification")) != old.get("TimeToLiveSpecification"):
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=ttl or {**old["TimeToLiveSpecification"], "Enabled": False})
    if tags := after.get("Tags"):
        dynamodb.tag_resource(ResourceArn=model["Arn"], Tags=tags)
    return ProgressEvent(OperationStatus.SUCCESS, resource_model=model)
