"""The routes by which a test asks for faults and kills and sees the processes.
They stand on the same loopback port as the AWS services, under /_vacancy."""

from localstack.http import Request, Response
from localstack.services.edge import ROUTER

from vacancy_localstack import RUN, instances
from vacancy_localstack.faults import Fault, Kill
from vacancy_localstack.gateway import plans


def serve() -> None:
    ROUTER.add("/_vacancy/run", _run, methods=["GET"])
    ROUTER.add("/_vacancy/faults", _faults, methods=["POST", "GET", "DELETE"])
    ROUTER.add("/_vacancy/kills", _kills, methods=["POST"])
    ROUTER.add("/_vacancy/instances", _instances, methods=["GET"])


def _json(value, status: int = 200) -> Response:
    response = Response(status=status)
    response.set_json(value)
    return response


def _run(request: Request) -> Response:
    # Two servers that were given one port by bad luck are told apart by this.
    return _json({"dir": str(RUN)})


def _faults(request: Request) -> Response:
    if request.method == "GET":
        return _json(plans.waiting())
    if request.method == "DELETE":
        plans.clear()
        return _json({})
    return _plan(Fault, request)


def _kills(request: Request) -> Response:
    wanted = request.get_json(force=True)
    if wanted.get("when") == "now":
        return _json({"pids": instances.kill_all(wanted["function"])})
    return _plan(Kill, request)


def _plan(kind, request: Request) -> Response:
    try:
        plans.add(kind(**request.get_json(force=True)))
    except (TypeError, ValueError) as e:
        return _json({"detail": str(e)}, 400)
    return _json({})


def _instances(request: Request) -> Response:
    return _json([e.state() for e in instances.everyone()])
