"""A child process and what it prints. Standard library only."""

import os
import select
import signal
import subprocess
import threading

MOST = 256 * 1024  # bytes of output kept


class Process:
    """`bootstrap` in the folder root, as the leader of a session of its own, so
    that a kill reaches what it started too. Raises OSError if there is none, or
    none that can be executed."""

    def __init__(self, root: str, env: dict[str, str], name: str):
        self._lock = threading.Lock()
        self._fresh, self._all = bytearray(), bytearray()
        self._fd, write = os.pipe()
        os.set_blocking(self._fd, False)
        try:
            self._child = subprocess.Popen(
                [os.path.join(root, "bootstrap")],
                cwd=root,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                start_new_session=True,
            )
        except OSError:
            os.close(self._fd)
            raise
        finally:
            os.close(write)
        self.pid = self._child.pid
        threading.Thread(target=self._pump, daemon=True, name=f"function-log-{name}").start()

    def alive(self) -> bool:
        return self._child.poll() is None

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._child.wait(timeout=10)

    def exit_text(self) -> str:
        """How it ended, in Lambda's words."""
        code = self._child.poll()
        if code is None or code >= 0:
            return f"exit status {code}"
        return {9: "signal: killed", 6: "signal: aborted"}.get(-code, f"signal: {signal.Signals(-code).name}")

    def memory_mb(self, field: str) -> int:
        """VmRSS or VmHWM where the system tells them, else 0."""
        try:
            with open(f"/proc/{self.pid}/status") as status:
                for line in status:
                    if line.startswith(field):
                        return int(line.split()[1]) // 1024
        except OSError:
            pass
        return 0

    def take_log(self) -> str:
        """What it printed since the last call."""
        with self._lock:
            self._read()
            text = self._fresh.decode("utf-8", "replace")
            self._fresh.clear()
        return text

    def all_log(self) -> str:
        """The end of all that it printed."""
        with self._lock:
            return self._all.decode("utf-8", "replace")

    def _read(self) -> bool:
        """Takes what is in the pipe; False at its end. The lock is held."""
        while self._fd >= 0:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                return True
            if not data:
                os.close(self._fd)
                self._fd = -1
                break
            for kept in (self._fresh, self._all):
                kept += data
                del kept[:-MOST]
        return False

    def _pump(self) -> None:
        fd = self._fd
        while True:
            try:
                select.select([fd], [], [], 1)
            except (OSError, ValueError):
                return  # closed by take_log, which met the end
            with self._lock:
                if not self._read():
                    return
