"""Which execution environment an AWS request comes from.

LocalStack gives each environment credentials of its own (an assumed role), so
the access key of a request names the environment, and with it the process.
"""

import threading

_lock = threading.Lock()
_by_key: dict[str, object] = {}


def add(access_key: str, executor) -> None:
    with _lock:
        _by_key[access_key] = executor


def remove(executor) -> None:
    with _lock:
        for key in [k for k, e in _by_key.items() if e is executor]:
            del _by_key[key]


def of(access_key: str | None):
    """The executor that was given the key, or None."""
    with _lock:
        return _by_key.get(access_key)


def everyone(function: str = "") -> list:
    """The executors of a function, or all."""
    with _lock:
        return [e for e in _by_key.values() if function in ("", e.function)]


def kill_all(function: str = "") -> list[int]:
    """Kills the processes of a function, or all, as kill -9 does; their pids."""
    return [pid for e in everyone(function) if (pid := e.kill())]
