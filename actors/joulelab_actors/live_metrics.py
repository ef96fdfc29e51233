"""``joulelab export-metrics --ray``: the live view of every node's GPUs among its Ray's metrics.

They are handed to the agent that serves those of a node's Ray, as Ray's own processes do: by OTLP.
A gauge of ``ray.util.metrics`` waits for its process's next report, and these are a second apart at
best. It is grpclib that calls, since a channel of grpcio keeps up to sixteen threads awake: on 64
cores an exporter of four H200s took 0.23 % of one with the former, 0.52 % with the latter.
"""

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import ray
from grpclib import GRPCError
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import StreamTerminatedError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint
from prometheus_client.core import Metric
from ray._private import worker
from ray._private.authentication.http_token_authentication import get_auth_headers_if_auth_enabled
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from joulelab.analysis.quantities import counted
from joulelab.devices import DEVICES
from joulelab.devices.choice import check_backend, choose_backend
from joulelab.errors import ConfigError, DeviceError, DeviceNotFoundError
from joulelab.live.metrics import COUNTER_PERIOD_S, PERIOD_S, families_of
from joulelab.live.reading import LiveSession
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


_EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_PATIENCE_S = 1.0
_GIVE_UP_S = 60.0


class NodeMetrics:
    """What the agent of this worker's node is to serve, all of it as gauges.

    It serves a gauge, as ``ray_`` and its name, for two of Ray's report intervals after it was
    handed over last: what can be read no more is missing from then on. Counters and information,
    which it would serve for ever, go as gauges too. To be made within an event loop.
    """

    def __init__(self) -> None:
        node: Any = worker._global_node  # noqa: SLF001 - the port is known to Ray's own clients alone
        self._channel = Channel(node.node_ip_address, node.metrics_agent_port)
        self._export = UnaryUnaryMethod[ExportMetricsServiceRequest, ExportMetricsServiceResponse](
            self._channel, _EXPORT, ExportMetricsServiceRequest, ExportMetricsServiceResponse
        )
        self._answered_s = time.monotonic()
        self._request = ExportMetricsServiceRequest()
        self._labels: Sequence[object] = ()
        self._points: list[NumberDataPoint] = []

    async def serve(self, families: Iterable[Metric]) -> None:
        """Hand over every sample; an agent that does not answer for a moment goes without.

        Raises DeviceError if it refuses, or has not answered for long.
        """
        self._fill([family for family in families if family.samples])
        token = {name.lower(): each for name, each in get_auth_headers_if_auth_enabled({}).items()}
        try:
            await self._export(self._request, timeout=_PATIENCE_S, metadata=token)
            self._answered_s = time.monotonic()
        except (OSError, StreamTerminatedError) as error:
            if time.monotonic() - self._answered_s > _GIVE_UP_S:
                raise DeviceError(f"Ray's agent on this node does not answer: {error!r}") from error
        except GRPCError as error:
            raise DeviceError(
                f"Ray's agent on this node must take metrics, and says {error.status.name}: "
                f"{error.message}. Scrape an exporter of each machine instead: leave --ray out."
            ) from error

    def close(self) -> None:
        """Let go of the agent."""
        self._channel.close()

    def _fill(self, families: list[Metric]) -> None:
        samples = [sample for family in families for sample in family.samples]
        labels = [(sample.name, sample.labels) for sample in samples]
        if labels != self._labels:  # to make points takes eight times as long as to fill them
            self._labels, self._points = labels, list(self._made_points(families))
        for point, sample in zip(self._points, samples, strict=True):
            point.as_double = sample.value

    def _made_points(self, families: list[Metric]) -> Iterator[NumberDataPoint]:
        self._request = ExportMetricsServiceRequest()
        metrics = self._request.resource_metrics.add().scope_metrics.add().metrics
        for family in families:
            name, text = family.samples[0].name, family.documentation
            points = metrics.add(name=name, description=text).gauge.data_points
            for sample in family.samples:
                point = points.add()
                for label, value in sample.labels.items():
                    point.attributes.add(key=label).value.string_value = value
                yield point
