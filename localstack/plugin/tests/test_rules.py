"""The rules of the plugin that need no server: run by localstack/server's tests
with the virtual environment's own unittest."""

import io
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from urllib.parse import quote

from vacancy_localstack import faults, lineage, recorder, tables
from vacancy_localstack.process import Process

WHERE = "us-east-1:000000000000"
TABLE = "arn:aws:dynamodb:us-east-1:000000000000:table/rows"


def call(function="message", service="dynamodb", operation="PutItem", table="rows"):
    return faults.Call(function, service, operation, table)


class FaultsHitWhatTheyName(unittest.TestCase):
    def test_as_often_as_asked_and_not_before_skipped_calls(self):
        plans = faults.Plans()
        plans.add(faults.Fault("throttled", operation="PutItem", skip=1, times=2))
        hit = [bool(plans.fault(call())) for _ in range(5)]
        self.assertEqual(hit, [False, True, True, False, False])
        self.assertEqual(plans.waiting(), [])

    def test_no_other_function_service_operation_or_table(self):
        for other in ({"function": "export"}, {"service": "kms"}, {"operation": "Query"}, {"table": "docs"}):
            plans = faults.Plans()
            plans.add(faults.Fault("denied", function="message", service="dynamodb", operation="PutItem", table="rows"))
            self.assertIsNone(plans.fault(call(**other)), other)
            self.assertEqual(plans.fault(call()).kind, "denied")

    def test_answers_are_in_the_words_of_the_service(self):
        fault = faults.Fault("throttled")
        self.assertEqual(fault.answer("dynamodb")[0], "ProvisionedThroughputExceededException")
        self.assertEqual(fault.answer("kms")[0], "ThrottlingException")
        self.assertIsNone(faults.Fault("lost").answer("dynamodb"))

    def test_unknown_words_are_refused(self):
        with self.assertRaises(ValueError):
            faults.Fault("unheard")
        with self.assertRaises(ValueError):
            faults.Kill("message", "sometimes")


class KillsCountTheCallsOfOneInvocation(unittest.TestCase):
    def test_the_nth_matching_call_and_only_once(self):
        plans = faults.Plans()
        plans.add(faults.Kill("message", "before", call=2, operation="PutItem"))
        first: dict = {}
        self.assertIsNone(plans.kill(call(), first))
        self.assertIsNone(plans.kill(call(operation="Query"), first))
        second: dict = {}
        self.assertIsNone(plans.kill(call(), second))
        self.assertEqual(plans.kill(call(), second), "before")
        self.assertIsNone(plans.kill(call(), first))


class TheRecordHoldsWhatIamAsks(unittest.TestCase):
    def test_an_action_for_each_part_of_a_transaction(self):
        request = {
            "TransactItems": [
                {"Put": {"TableName": "rows", "ConditionExpression": "attribute_not_exists(pk)", "Item": {"pk": {"S": "reg#1"}, "d": {"S": "secret"}}}},
                {"ConditionCheck": {"TableName": "rows", "ConditionExpression": "attribute_exists(pk)", "Key": {"pk": {"B": b"evt"}}}},
            ]
        }
        got = recorder.actions("dynamodb", "TransactWriteItems", request, None, WHERE)
        self.assertEqual(
            got,
            [
                {
                    "action": "dynamodb:PutItem",
                    "resource": TABLE,
                    "condition": "attribute_not_exists(pk)",
                    "keys": {"dynamodb:LeadingKeys": "reg#1"},
                },
                {"action": "dynamodb:ConditionCheckItem", "resource": TABLE, "condition": "attribute_exists(pk)", "keys": {}},
            ],
        )
        self.assertNotIn("secret", json.dumps(got))

    def test_resources(self):
        key = "arn:aws:kms:us-east-1:000000000000:key/k-1"
        for service, operation, request, response, want in (
            ("dynamodb", "Query", {"TableName": "rows", "IndexName": "listed"}, None, f"{TABLE}/index/listed"),
            ("dynamodb", "BatchGetItem", {"RequestItems": {"rows": {}}}, None, TABLE),
            ("dynamodb", "ListTables", {}, None, "*"),
            ("dynamodbstreams", "GetRecords", {"ShardIterator": f"000|{TABLE.replace('us-east-1', 'ddblocal')}/stream/s|1"}, None, f"{TABLE}/stream/s"),
            ("kms", "Decrypt", {"CiphertextBlob": b"x"}, {"KeyId": key}, key),
            ("kms", "Encrypt", {"KeyId": "k-1"}, None, key),
            ("kms", "Sign", {"KeyId": "alias/host"}, None, "arn:aws:kms:us-east-1:000000000000:alias/host"),
            ("logs", "PutLogEvents", {"logGroupName": "/v", "logStreamName": "s"}, None, "arn:aws:logs:us-east-1:000000000000:log-group:/v:log-stream:s"),
            ("s3", "HeadObject", {"Bucket": "b", "Key": "search/manifest.json"}, None, "arn:aws:s3:::b/search/manifest.json"),
            ("s3", "ListObjectsV2", {"Bucket": "b", "Prefix": "search/"}, None, "arn:aws:s3:::b"),
            ("sqs", "SendMessage", {"QueueUrl": "http://localhost:1/000000000000/lost"}, None, "arn:aws:sqs:us-east-1:000000000000:lost"),
            ("stepfunctions", "StartExecution", {"stateMachineArn": "arn:machine", "name": "n"}, None, "arn:machine"),
            ("stepfunctions", "GetExecutionHistory", {"executionArn": "arn:execution"}, None, "arn:execution"),
        ):
            got = recorder.actions(service, operation, request, response, WHERE)
            self.assertEqual([a["resource"] for a in got], [want], operation)

    def test_step_functions_have_another_name_in_iam(self):
        got = recorder.actions("stepfunctions", "StartExecution", {"stateMachineArn": "arn:machine"}, None, WHERE)
        self.assertEqual(got[0]["action"], "states:StartExecution")

    def test_the_partition_of_a_document_is_a_condition_key(self):
        for operation, request, want in (
            ("PutItem", {"Item": {"pk": {"S": "textkey"}, "sk": {"S": "2026-01-01"}, "d": {"B": b"secret"}}}, {"dynamodb:LeadingKeys": "textkey"}),
            ("GetItem", {"Key": {"pk": {"S": "reg#1"}, "sk": {"S": "card"}}}, {"dynamodb:LeadingKeys": "reg#1"}),
            (
                "Query",
                {"KeyConditionExpression": "xp = :p AND xs >= :first", "ExpressionAttributeValues": {":p": {"S": "registry"}, ":first": {"S": "0"}}},
                {"dynamodb:LeadingKeys": "registry"},
            ),
            ("PutItem", {"Item": {"pk": {"B": b"req"}, "sk": {"N": "1"}}}, {}),
            ("Query", {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"B": b"req"}}}, {}),
        ):
            got = recorder.actions("dynamodb", operation, {"TableName": "docs"} | request, None, WHERE)
            self.assertEqual([a["keys"] for a in got], [want], operation)

    def test_what_a_list_of_s3_is_limited_to(self):
        self.assertEqual(recorder.keys("s3", {"Bucket": "b", "Prefix": "search/"}), {"s3:prefix": "search/"})
        got = recorder.actions("s3", "HeadObject", {"Bucket": "b", "Key": "k"}, None, WHERE)
        self.assertEqual(got[0]["action"], "s3:GetObject")

    def test_condition_keys(self):
        got = recorder.keys("kms", {"SigningAlgorithm": "ED25519_SHA_512", "MessageType": "RAW", "Message": b"secret"})
        self.assertEqual(got, {"kms:SigningAlgorithm": "ED25519_SHA_512", "kms:MessageType": "RAW"})


class ChainsOfMessagesAreCounted(unittest.TestCase):
    @staticmethod
    def event(*headers):
        return json.dumps({"Records": [{"attributes": {"AWSTraceHeader": h} if h else {}} for h in headers]})

    def test_one_more_for_each_invocation(self):
        header, counts = None, []
        for _ in range(20):
            header, count = lineage.trace({"payload": self.event(header), "trace-id": "Root=1-2-3"}, "worker")
            counts.append(count)
            header = quote(header, safe="=;:+&[]{}'\",")
        self.assertEqual(counts, list(range(1, 21)))
        self.assertEqual(counts.index(lineage.MOST + 1), 16)
        self.assertTrue(header.startswith("Root=1-2-3;Lineage="), header)

    def test_each_function_has_its_own(self):
        header, _ = lineage.trace({"payload": "{}", "trace-id": "Root=1-2-3"}, "agent")
        for n in range(1, 4):
            header, count = lineage.trace({"payload": self.event(quote(header, safe="=;:"))}, "worker")
            self.assertEqual((count, header.count(":")), (n, 2))

    def test_the_longest_chain_of_a_batch(self):
        long, _ = lineage.trace({"payload": self.event()}, "worker")
        for _ in range(3):
            long, _ = lineage.trace({"payload": self.event(long)}, "worker")
        _, count = lineage.trace({"payload": self.event(None, long, "Root=9")}, "worker")
        self.assertEqual(count, 5)


class TablesKeepWhatTheirReplicaSays(unittest.TestCase):
    model = {
        "TableName": "rows",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "B"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS"},
        "WriteOnDemandThroughputSettings": {"MaxWriteRequestUnits": "100"},
        "Replicas": [
            {
                "Region": "us-east-1",
                "SSESpecification": {"KMSMasterKeyId": "arn:key"},
                "ReadOnDemandThroughputSettings": {"MaxReadRequestUnits": 200},
                "DeletionProtectionEnabled": True,
            }
        ],
    }

    def test_in_the_words_of_the_api(self):
        got = tables.create_parameters(self.model, "us-east-1")
        self.assertEqual(got["OnDemandThroughput"], {"MaxWriteRequestUnits": 100, "MaxReadRequestUnits": 200})
        self.assertEqual(got["SSESpecification"], {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "arn:key"})
        self.assertTrue(got["DeletionProtectionEnabled"])
        self.assertNotIn("Replicas", got)

    def test_another_region_is_refused(self):
        with self.assertRaises(ValueError):
            tables.create_parameters(self.model, "eu-west-1")

    def test_an_index_is_updated_in_its_ceilings_alone(self):
        old = {"IndexName": "listed", "KeySchema": [], "OnDemandThroughput": {"MaxReadRequestUnits": 1}}
        new = {**old, "OnDemandThroughput": {"MaxReadRequestUnits": 2}}
        want = [{"Update": {"IndexName": "listed", "OnDemandThroughput": {"MaxReadRequestUnits": 2}}}]
        self.assertEqual(tables.index_updates([old], [new]), want)
        with self.assertRaises(NotImplementedError):
            tables.index_updates([old], [])


class ProcessesAreWatchedToTheirEnd(unittest.TestCase):
    def run_script(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        bootstrap = Path(folder.name) / "bootstrap"
        bootstrap.write_text(f"#!/bin/sh\n{script}\n")
        bootstrap.chmod(0o755)
        return Process(folder.name, {"PATH": os.environ["PATH"]}, "test")

    def await_end(self, process):
        for _ in range(1000):
            if not process.alive():
                return
            time.sleep(0.01)
        self.fail("the process does not end")

    def test_output_and_exit(self):
        process = self.run_script("echo said; exit 3")
        self.await_end(process)
        self.assertEqual((process.take_log(), process.exit_text()), ("said\n", "exit status 3"))
        self.assertEqual(process.take_log(), "")

    def test_kill_ends_a_stopped_one(self):
        process = self.run_script("kill -STOP $$; echo never")
        process.kill()
        self.assertFalse(process.alive())
        self.assertEqual(process.exit_text(), "signal: killed")

    def test_no_program(self):
        with self.assertRaises(OSError), tempfile.TemporaryDirectory() as empty:
            Process(empty, {}, "test")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], testRunner=unittest.TextTestRunner(stream=io.TextIOWrapper(sys.stderr.buffer)))
