"""Entry points that LocalStack calls by name while it starts; nothing else here.

Each imports its module late: the names of LocalStack that a module patches may
be imported only after the configuration is read.
"""

from localstack.runtime import hooks
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin

from vacancy_localstack import DYNAMODB, OWNED, RUN


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """Chosen by LAMBDA_RUNTIME_EXECUTOR=process."""

    name = "process"

    def load(self, *args, **kwargs):
        from vacancy_localstack.executor import ProcessExecutor

        return ProcessExecutor


@hooks.on_infra_start(priority=90)
def end_with_the_owner():
    if OWNED:
        from vacancy_localstack import owner

        owner.watch()


@hooks.on_infra_start(priority=80)
def listen_on_loopback():
    if RUN:
        from vacancy_localstack import gateway

        gateway.listen_on_loopback()


@hooks.on_infra_start(priority=70)
def watch_calls():
    if RUN:
        from vacancy_localstack import control, gateway

        gateway.watch_calls(RUN / "calls.jsonl")
        control.serve()


@hooks.on_infra_start(priority=60)
def run_dynamodb_local():
    if DYNAMODB:
        from vacancy_localstack import dynamodb_local

        dynamodb_local.install()


@hooks.on_infra_start(priority=50)
def keep_objects_in_the_run():
    if RUN:
        from localstack.services.s3 import provider

        # Else a fixed folder of the system's, which two runs would share.
        provider.DEFAULT_S3_TMP_DIR = str(RUN / "objects")


@hooks.on_infra_start(priority=40)
def offer_ed25519():
    from vacancy_localstack import ed25519

    ed25519.install()


@hooks.on_infra_start(priority=30)
def carry_out_updates():
    from vacancy_localstack import updates

    updates.install()


@hooks.on_infra_start(priority=20)
def act_as_lambda():
    from vacancy_localstack import function_urls, logs, streams

    function_urls.install()
    logs.install()
    streams.install()
