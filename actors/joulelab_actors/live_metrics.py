"""``joulelab export-metrics --ray``: the live view of every node's GPUs among its Ray's metrics."""

import asyncio
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from joulelab.analysis.quantities import counted
from joulelab.devices import DEVICES
from joulelab.devices.choice import check_backend, choose_backend
from joulelab.errors import ConfigError, DeviceError, DeviceNotFoundError
from joulelab.live.metrics import COUNTER_PERIOD_S, PERIOD_S, families_of
from joulelab.live.reading import LiveSession
from joulelab_actors.node_metrics import NodeMetrics
from joulelab_actors.placement import alive_nodes
from joulelab_actors.session import NAMESPACE, connected, failure_in_words, require_cluster

_ROUND_S = 5.0
_WITHOUT_REPORTS = {"env_vars": {"RAY_enable_metrics_collection": "0"}}
"""A process that reports nothing of itself: a tenth of a percent of a processor less."""


class GpuMetrics:
    """Has Ray serve what the GPUs of its node do, until it is killed."""

    def __init__(self, device: str, store: str | None, guard_socket: Path | None) -> None:
        self._where = device, store
        self._guard_socket = guard_socket

    def count_gpus(self) -> int:
        """Return how many there are; DeviceError if there is none, or one cannot be opened."""
        with self._session() as session:
            return len(session.look().gpus)

    def export(self) -> NoReturn:
        """Look and hand over, again and again.

        Raises DeviceError as :meth:`count_gpus` does, or if Ray's agent takes nothing.
        """
        with self._session() as session:
            asyncio.run(_export(session))

    def _session(self) -> LiveSession:
        device, store = self._where
        backend = choose_backend().name if device == "auto" else device
        found = DEVICES[backend].discover(store)
        if not found:
            raise DeviceNotFoundError(f"{backend} finds no device.")
        return LiveSession(
            dict(enumerate(found)),
            guard_socket=self._guard_socket,
            counter_period_s=COUNTER_PERIOD_S,
        )


async def _export(session: LiveSession) -> NoReturn:
    with closing(NodeMetrics()) as metrics:
        while True:
            began_s = time.monotonic()
            await metrics.serve(families_of(session.look()))
            await asyncio.sleep(max(0.0, began_s + PERIOD_S - time.monotonic()))


def export_metrics(device: str, store: str | None, guard_socket: Path | None) -> NoReturn:
    """Keep an exporter on every node that has GPUs, also on those that join, until interrupted.

    ``device`` is the registry name of the device class, or ``"auto"`` for the best of each node;
    ``store`` the folder of state or recordings, for devices that are not hardware; ``guard_socket``
    that of the clock guard of every node, by default the one that studies take. Raises ConfigError
    if no cluster is named, its Ray collects no metrics, or somebody exports already; DeviceError if
    the cluster does not answer, or no node has a GPU that can be read.
    """
    require_cluster("--ray")
    check_backend(device)
    with connected():
        exporters = _Exporters(device, store, guard_socket)
        while True:
            exporters.follow_nodes()
            exporters.wait(_ROUND_S)


class _Exporters:
    """The exporters of a cluster, one on each node."""

    def __init__(self, *settings: object) -> None:
        self._settings = settings
        self._nodes: set[str] = set()
        self._running: dict[Any, tuple[str, Any]] = {}  # hostname and actor, by what it returns

    def follow_nodes(self) -> None:
        """Start an exporter on each node that is new since the last time."""
        nodes = alive_nodes()
        new = [node for node in nodes if node["NodeID"] not in self._nodes]
        self._nodes = {node["NodeID"] for node in nodes}
        actors = [self._placed(node) for node in new]
        counts = [actor.count_gpus.remote() for actor in actors]  # all nodes at once
        for node, actor, count in zip(new, actors, counts, strict=True):
            self._start(node, actor, count)
        if not self._running:
            raise DeviceError("No node of the cluster has a GPU that can be read; see above.")

    def _placed(self, node: dict[str, Any]) -> Any:
        if node["MetricsExportPort"] <= 0:
            raise ConfigError(
                f"Ray must collect metrics on every node, and does not on "
                f"{node['NodeManagerHostname']}: start the cluster with METRICS=1 "
                "(cluster/env.sh), or else with RAY_enable_metrics_collection=1."
            )
        actor = ray.remote(GpuMetrics).options(
            name=f"metrics of {node['NodeID']}",
            namespace=NAMESPACE,
            num_cpus=0,
            runtime_env=_WITHOUT_REPORTS,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            max_restarts=-1,
            max_task_retries=-1,
        )
        try:
            return actor.remote(*self._settings)
        except ValueError as error:  # the name is taken
            raise ConfigError(
                "GPUs must be exported by one process of the cluster, and another "
                "`joulelab export-metrics --ray` does so; end that first, or leave this one out."
            ) from error

    def _start(self, node: dict[str, Any], actor: Any, count: Any) -> None:
        host = node["NodeManagerHostname"]
        try:
            num_gpus = ray.get(count)
        except ray.exceptions.RayError as error:
            _print(f"{host} exports nothing: {failure_in_words(error)}")
            return
        self._running[actor.export.remote()] = host, actor
        page = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        _print(f"{host}: {counted(num_gpus, 'GPU')}, every {PERIOD_S:g} s, at {page}")

    def wait(self, timeout_s: float) -> None:
        """Wait so long, and say of exporters that end why."""
        ended, _ = ray.wait(list(self._running), num_returns=1, timeout=timeout_s)
        for ref in ended:
            host, _ = self._running.pop(ref)
            try:
                ray.get(ref)
            except ray.exceptions.RayError as error:
                _print(f"{host} exports no more: {failure_in_words(error)}")


def _print(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
