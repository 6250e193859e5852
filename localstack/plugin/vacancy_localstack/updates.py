"""CloudFormation: what LocalStack 4.14 reports as updated and does not update."""

from localstack.services.cloudformation.engine.v2.change_set_model_executor import ChangeSetModelExecutor
from localstack.services.cloudformation.resource_provider import ResourceProviderExecutor


def install() -> None:
    _replace_only_what_changed()


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
