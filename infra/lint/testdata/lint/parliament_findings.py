"""Prints what parliament finds in the policies that standard input has as a JSON object, by name."""

import json
import sys

from parliament import analyze_policy_string

for name, policy in json.load(sys.stdin).items():
    for finding in analyze_policy_string(json.dumps(policy)).findings:
        print(name, finding.issue, finding.detail, finding.location)
