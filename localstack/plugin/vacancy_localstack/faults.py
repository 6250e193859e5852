"""What is to go wrong: faults of AWS calls, and kills in mid-invocation.

Plans are matched in the order in which they were made, each at most its number
of times. Standard library only, so that the rules can be tested by themselves.
"""

import dataclasses
import threading

# Answers in the words of AWS, per service where they differ: code, status, text.
ANSWERS = {
    "throttled": {
        "dynamodb": (
            "ProvisionedThroughputExceededException",
            400,
            "The level of configured provisioned throughput for the table was exceeded.",
        ),
        "": ("ThrottlingException", 400, "Rate exceeded"),
    },
    "internal": {
        "dynamodb": ("InternalServerError", 500, "Internal server error"),
        "kms": ("KMSInternalException", 500, "The request was rejected, internal error."),
        "": ("InternalFailure", 500, "Internal failure"),
    },
    "denied": {
        "": ("AccessDeniedException", 400, "The role is not authorized to perform this operation."),
    },
    "expired": {
        "": ("ExpiredTokenException", 400, "The security token included in the request is expired"),
    },
}

# slow: answered after some seconds. lost: carried out, then the connection is
# cut. refused: the connection is cut and nothing carried out.
KINDS = (*ANSWERS, "slow", "lost", "refused")


@dataclasses.dataclass
class Call:
    """An AWS call as the plans see it."""

    function: str
    service: str
    operation: str
    table: str = ""


@dataclasses.dataclass
class Fault:
    kind: str
    function: str = ""  # empty: every
    service: str = ""
    operation: str = ""
    table: str = ""
    skip: int = 0  # matching calls to let pass first
    times: int = 1
    seconds: float = 0  # slow only

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind = {self.kind!r}, want one of {', '.join(KINDS)}")

    def answer(self, service: str) -> tuple[str, int, str] | None:
        """The error to answer with, or None where the kind is not an answer."""
        words = ANSWERS.get(self.kind)
        return words and (words.get(service) or words[""])


@dataclasses.dataclass
class Kill:
    """The end of a process at its n-th matching AWS call of one invocation."""

    function: str
    when: str  # before: the call is not carried out; after: it is, and never heard of
    call: int = 1
    service: str = ""
    operation: str = ""
    table: str = ""

    def __post_init__(self):
        if self.when not in ("before", "after"):
            raise ValueError(f"when = {self.when!r}, want before or after")


def matches(plan, call: Call) -> bool:
    return all(
        getattr(plan, field) in ("", getattr(call, field))
        for field in ("function", "service", "operation", "table")
    )


class Plans:
    def __init__(self):
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._kills: list[Kill] = []

    def add(self, plan) -> None:
        with self._lock:
            (self._kills if isinstance(plan, Kill) else self._faults).append(plan)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()
            self._kills.clear()

    def waiting(self) -> list[dict]:
        """What has not happened yet."""
        with self._lock:
            return [dataclasses.asdict(p) for p in (*self._faults, *self._kills)]

    def fault(self, call: Call) -> Fault | None:
        """The fault of this call, which is counted."""
        with self._lock:
            for plan in self._faults:
                if not matches(plan, call):
                    continue
                if plan.skip > 0:
                    plan.skip -= 1
                    continue
                plan.times -= 1
                if plan.times <= 0:
                    self._faults.remove(plan)
                return plan
        return None

    def kill(self, call: Call, made: dict) -> str | None:
        """'before' or 'after' if the process is to die at this call. made counts
        the calls of the invocation, one count for each plan."""
        with self._lock:
            for plan in self._kills:
                if not matches(plan, call):
                    continue
                made[id(plan)] = made.get(id(plan), 0) + 1
                if made[id(plan)] == plan.call:
                    self._kills.remove(plan)
                    return plan.when
        return None
