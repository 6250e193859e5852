"""Ends the server with the process that started it."""

import logging
import os
import signal
import sys
import threading

from vacancy_localstack import instances

LOG = logging.getLogger(__name__)


def watch() -> None:
    threading.Thread(target=_wait, daemon=True, name="owner").start()


def _wait() -> None:
    try:
        while os.read(sys.stdin.fileno(), 4096):
            pass
    except OSError:
        pass  # a broken pipe: the same as its end
    LOG.warning("the owner is gone: ending, with every function process")
    # No clean shutdown: it takes seconds, and a stopped process would outlive it.
    instances.kill_all()
    os.kill(os.getpid(), signal.SIGKILL)
