"""What a node's agent is handed, by an agent of the test's own."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from ray._private import worker

from joulelab.errors import DeviceError
from joulelab.serving.deployment import free_port
from joulelab_actors import live_metrics
from joulelab_actors.live_metrics import NodeMetrics


class Agent(MetricsServiceServicer):
    """Keeps what it is handed, or refuses it."""

    def __init__(self):
        self.taken, self.refusal = [], None

    def Export(self, request, context):  # noqa: N802 - OTLP's name
        if self.refusal is not None:
            context.abort(self.refusal, "no metrics here")
        ((scope,),) = [each.scope_metrics for each in request.resource_metrics]
        self.taken.append(
            {
                (metric.name, *(each.value.string_value for each in point.attributes)): (
                    point.as_double
                )
                for metric in scope.metrics
                for point in metric.gauge.data_points
            }
        )
        return ExportMetricsServiceResponse()


@pytest.fixture
def port(monkeypatch):
    port = free_port()
    node = SimpleNamespace(node_ip_address="127.0.0.1", metrics_agent_port=port)
    monkeypatch.setattr(worker, "_global_node", node)
    return port


@pytest.fixture
def agent(port):
    server = grpc.server(ThreadPoolExecutor(1))
    add_MetricsServiceServicer_to_server(agent := Agent(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    yield agent
    server.stop(None).wait()


def power(**power_w):
    family = GaugeMetricFamily("power", "Board power.", labels=("uuid",), unit="watts")
    for uuid, value in power_w.items():
        family.add_metric((uuid,), value)
    return family


def serve(*looks):
    async def all_of_them():
        with closing(NodeMetrics()) as metrics:
            for families in looks:
                await metrics.serve(families)

    asyncio.run(all_of_them())


def test_every_look_is_handed_over_with_its_own_numbers(agent):
    energy = CounterMetricFamily("energy", "The counter.", unit="joules")
    energy.add_metric((), 7.0)

    serve([power(a=100.0, b=200.0), energy], [power(a=300.0, b=200.0), energy])

    counter = {("energy_joules_total",): 7.0}
    assert agent.taken == [
        {("power_watts", "a"): 100.0, ("power_watts", "b"): 200.0} | counter,
        {("power_watts", "a"): 300.0, ("power_watts", "b"): 200.0} | counter,
    ]


def test_what_is_read_no_more_is_handed_over_no_more_and_comes_back(agent):
    serve([power(a=1.0, b=2.0)], [power(b=3.0)], [power()], [power(a=4.0, b=5.0)])

    assert agent.taken == [
        {("power_watts", "a"): 1.0, ("power_watts", "b"): 2.0},
        {("power_watts", "b"): 3.0},
        {},
        {("power_watts", "a"): 4.0, ("power_watts", "b"): 5.0},
    ]


def test_an_agent_that_refuses_is_told_of(agent):
    agent.refusal = grpc.StatusCode.UNAUTHENTICATED

    with pytest.raises(DeviceError, match="UNAUTHENTICATED: no metrics here"):
        serve([power(a=1.0)])


def test_an_agent_that_is_away_is_waited_for_but_not_for_ever(port, monkeypatch):
    serve([power(a=1.0)], [power(a=1.0)])

    monkeypatch.setattr(live_metrics, "_GIVE_UP_S", -1.0)
    with pytest.raises(DeviceError, match="does not answer"):
        serve([power(a=1.0)])
