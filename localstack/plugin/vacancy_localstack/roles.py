"""Whose role LocalStack itself uses when it calls for a function: its logs, its
event source mapping. Those sessions have other keys than the environments."""

import threading

from localstack.services.lambda_.invocation.models import lambda_stores
from moto.sts.models import sts_backends


class Role:
    def __init__(self, arn: str, function: str):
        self.arn = arn
        self.function = function
        self._seen: set = set()

    def first(self, *what) -> bool:
        """Whether what was never asked before."""
        new = what not in self._seen
        self._seen.add(what)
        return new


_lock = threading.Lock()
_by_key: dict[str, Role | None] = {}
_by_arn: dict[str, Role] = {}


def of(key: str | None) -> Role | None:
    """The function role behind an access key, or None."""
    if not key or len(key) < 20:
        return None  # account ids and the names of test users
    with _lock:
        if key not in _by_key:
            arn, function = _look_up(key)
            _by_key[key] = _by_arn.setdefault(arn, Role(arn, function)) if function else None
        return _by_key[key]


def _look_up(key: str) -> tuple[str, str]:
    for account in list(sts_backends.values()):
        for session in list(account["aws"].assumed_roles) if "aws" in account else []:
            if session.access_key_id == key:
                return session.role_arn, _function(session.role_arn)
    return "", ""


def _function(role: str) -> str:
    for account in list(lambda_stores.values()):
        for store in list(account.values()):
            for name, function in list(store.functions.items()):
                if function.latest().config.role == role:
                    return name
    return ""
