"""Recursion detection, as Lambda has it: the trace header of an invocation
counts the invocations of each function in its chain of messages, and the 17th of
a function is stopped unless the function allows it. Standard library only."""

import json
import zlib
from urllib.parse import unquote

MOST = 16  # invocations of a function in one chain


def trace(payload: dict, function: str) -> tuple[str, int]:
    """The trace header for an invocation of a function, and the count of the
    function's invocations in the longest chain of the event, this one included.
    payload is what LocalStack gives an executor."""
    mine = f"{zlib.crc32(function.encode()):08x}"
    chains = [_parse(header) for header in _headers(payload["payload"])] or [_parse(payload.get("trace-id") or "")]
    rest, counts = max(chains, key=lambda chain: chain[1].get(mine, 0))
    counts = {**counts, mine: counts.get(mine, 0) + 1}
    lineage = "Lineage=" + "|".join(f"{name}:{n}" for name, n in counts.items())
    return ";".join([*rest, lineage]), counts[mine]


def _headers(event) -> list[str]:
    """The trace headers with which the messages of an event were sent."""
    try:
        records = json.loads(event)["Records"]
        headers = [record["attributes"].get("AWSTraceHeader") for record in records]
    except (ValueError, KeyError, TypeError):
        return []  # an event of no queue
    return [header for header in headers if header]


def _parse(header: str) -> tuple[list[str], dict[str, int]]:
    """The members of a trace header without its lineage, and the lineage. AWS's
    SDKs percent-encode the header that they pass on."""
    members = [member for member in unquote(header).split(";") if member]
    counts = {}
    for member in members:
        name, _, value = member.partition("=")
        if name == "Lineage":
            for entry in value.split("|"):
                function, _, count = entry.partition(":")
                counts[function] = int(count)
    return [m for m in members if not m.startswith("Lineage=")], counts
