"""Events of whole networks on every processor: a partition per group and in all."""

from functools import cache
from math import fsum

import pytest

from joulelab.estimator.architecture import kappa
from joulelab.estimator.estimate import EnergySplit
from joulelab.estimator.models import trace_model
from joulelab.estimator.pricing.predict import estimate
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.precision import supports

NETWORKS = {
    "mobilenet_v2": {"batch": 1},
    "hf:bert": {"batch": 4},
}
COMPONENTS = ("compute", "memory", "static")


@cache
def traced(network, precision):
    return trace_model(network, precision=precision, **NETWORKS[network])


def best_precision(processor):
    return next(name for name in ("bf16", "fp16", "int8", "fp32") if supports(name, processor))


def split(events):
    return EnergySplit(
        **{
            f"{component}_j": fsum(e.energy_j for e in events if e.path.startswith(f"{component}/"))
            for component in COMPONENTS
        }
    )


def assert_divides(events, energy):
    found = split(events)
    for name in EnergySplit.__slots__:
        assert getattr(found, name) == pytest.approx(getattr(energy, name), rel=1e-9, abs=0), name


@pytest.mark.parametrize("key", list(PROCESSORS))
@pytest.mark.parametrize("network", list(NETWORKS))
def test_events_divide_the_energy_of_each_group_and_of_the_network(network, key):
    processor = PROCESSORS[key]
    model = traced(network, best_precision(processor))

    made = estimate(model, processor, mode="compiled", events=True)

    for phase in made.phases:
        assert_divides(phase.events, phase.energy)
        assert len(phase.events) >= 15
        assert not [event.path for event in phase.events if "unattributed" in event.path]
        for group in phase.groups:
            assert min(event.energy_j for event in group.events) >= 0
            assert_divides(group.events, group.energy)


@pytest.mark.parametrize("key", list(PROCESSORS))
def test_static_events_are_those_of_the_predictor_itself(key):
    processor = PROCESSORS[key]
    model = traced("mobilenet_v2", best_precision(processor))

    made = estimate(model, processor, mode="compiled", events=True)

    assert kappa(made.phases[0].events)["static"] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("key", ["h200_sxm", "a100_sxm", "h100_sxm"])
def test_memory_events_of_a_gpu_are_those_of_the_predictor_itself(key):
    made = estimate(traced("mobilenet_v2", "bf16"), PROCESSORS[key], mode="compiled", events=True)

    assert kappa(made.phases[0].events)["memory"] == pytest.approx(1.0, rel=1e-6)
