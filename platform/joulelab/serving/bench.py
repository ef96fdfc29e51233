"""Drive a server and measure what its GPUs use meanwhile."""

from collections.abc import Sequence

from joulelab.monitor.monitor import Monitor
from joulelab.provenance import collect_provenance
from joulelab.running.measure import Settings, counted
from joulelab.serving.client import Answer
from joulelab.serving.deployment import Deployment
from joulelab.serving.result import Served, ServerUse
from joulelab.serving.settings import ServerSettings

REQUESTS = 100
"""How many count where nobody says."""


async def bench(
    deployment: Deployment,
    settings: ServerSettings,
    monitor: Monitor,
    *,
    in_force: Settings,
    named: Sequence[str] = (),
    missing: str = "",
) -> ServerUse:
    """Warm a server up that answers, drive it, and return what that cost.

    ``monitor`` is open and knows whose the server's processes are; ``in_force`` was put on the
    GPUs. Those in ``named`` count whatever is seen, else those that the server is seen on;
    ``missing`` says why there is none. Raises MeasurementError if the server does not answer in the
    warm-up.
    """
    provenance = collect_provenance()
    requests = await deployment.requests(settings)
    load = settings.load(settings.requests or REQUESTS)

    async def ask(_number: int, due_s: float) -> Answer:
        return await deployment.ask(requests, due_s)

    window = monitor.begin("load")
    answers = await load.run(ask)
    monitor.end(window)
    gpus, others = counted(window.gpus.values(), named)
    return ServerUse(
        url=deployment.url,
        command=deployment.command,
        model=requests.model,
        load=load,
        limits=settings.limits,
        served=Served.of(answers, settings.limits),
        gpus=gpus,
        others=others,
        cpu=window.cpu,
        requested=in_force.point,
        receipts=in_force.receipts,
        notes=tuple(in_force.lost),
        missing=missing,
        provenance=provenance,
    )
