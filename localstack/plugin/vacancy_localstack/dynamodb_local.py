"""DynamoDB Local from the project's own install: nothing is fetched here.

The launcher takes a free port of 127.0.0.1, tells it in one line, and ends when
its standard input does, so a killed LocalStack leaves no Java behind.
"""

import subprocess

from localstack.aws.forwarder import AwsRequestProxy
from localstack.services.dynamodb.server import DynamodbServer
from localstack.utils.threads import FuncThread

from vacancy_localstack import DYNAMODB, JAVA, RUN


def _command() -> list[str]:
    library = f"{DYNAMODB}/lib"
    return [
        JAVA,
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Djava.library.path={library}",
        f"-Dsqlite4java.library.path={library}",
        f"-Dvacancy.run={RUN}",  # by which a stray one is known
        "-cp",
        f"{DYNAMODB}/classes:{library}/*",
        "LoopbackDynamo",
    ]


class _Engine(FuncThread):
    """The thread that LocalStack's server abstraction holds for its process."""

    auto_restart = False

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process
        super().__init__(self._drain, name="dynamodb-local")

    def _drain(self, _) -> None:
        for _ in self.process.stdout:  # else the engine blocks on a full pipe
            pass
        self.process.wait()

    def stop(self, quiet: bool = False) -> None:
        self.process.stdin.close()


def _start(self: DynamodbServer) -> FuncThread:
    process = subprocess.Popen(
        _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = []
    for line in process.stdout:
        word, _, port = line.decode(errors="replace").strip().partition(" ")
        if word == "listening":
            break
        said.append(line.decode(errors="replace"))
    else:
        raise RuntimeError(f"DynamoDB Local ended before it listened: {''.join(said)[-2000:]}")
    self._host, self._port = "127.0.0.1", int(port)
    self.proxy = AwsRequestProxy(self.url)
    engine = _Engine(process)
    engine.start()
    return engine


def install() -> None:
    DynamodbServer.do_start_thread = _start
