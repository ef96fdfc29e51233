"""Attributions on simulated GPUs, where the truth of every kernel is planted."""

import pickle

import numpy as np
import pytest
from planted_attributions import attribute

from joulelab.attribution import session
from joulelab.attribution.attribution import GAPS, UNEXPLAINED
from joulelab.attribution.components import component_of, layer_of
from joulelab.attribution.session import Session
from joulelab.core.configuration import Configuration
from joulelab.core.procedure import Procedure
from joulelab.devices.simulated import fleet
from joulelab.devices.simulated.device import SimulatedDevice
from joulelab.errors import ConfigError
from joulelab.workloads import WORKLOADS


def sums(phase, joules, key):
    found = {}
    for call, each_j in zip(phase.profile.calls, joules.tolist(), strict=True):
        found[key(call.operator)] = found.get(key(call.operator), 0.0) + each_j
    return found


@pytest.mark.parametrize("key", [component_of, layer_of])
@pytest.mark.parametrize(("which", "most"), [("replayed", 0.03), ("by_classes", 0.2)])
def test_parts_are_those_that_were_planted(request, source, which, most, key):
    found, board = request.getfixturevalue(which)
    held = []

    for phase in found.phases:
        truth = source.planted_j(phase.profile, found.measured[phase.phase], board)
        true_j = sums(phase, truth, key)
        shares = {one.name: one for one in phase.shares(lambda call: key(call.operator))}
        assert shares.keys() == true_j.keys()
        off_j = {name: shares[name].energy_j - true_j[name] for name in true_j}
        assert sum(map(abs, off_j.values())) < most * sum(true_j.values())
        large = [name for name in true_j if true_j[name] > 0.01 * phase.energy_j]
        held += [abs(off_j[name]) < 2.6 * shares[name].energy_u_j for name in large]
    assert np.mean(held) >= 0.8  # of a phase alone there are six components


def test_the_parts_close_before_the_meter_is_used(replayed):
    for phase in replayed[0].phases:
        assert abs(phase.closure) < 0.03
        assert phase.is_reconciled


@pytest.mark.parametrize("level", ["by_component", "by_layer", "by_operator"])
def test_parts_gaps_and_the_rest_sum_to_the_meter(replayed, level):
    for phase in replayed[0].phases:
        shares = getattr(phase, level)
        assert sum(share.energy_j for share in shares) == pytest.approx(phase.energy_j)
        assert [share.name for share in shares[-2:]] == [GAPS, UNEXPLAINED]
        times_s = [share.time_s for share in shares if share.time_s is not None]
        assert sum(times_s) == pytest.approx(phase.time_s)


def test_kernels_sum_to_the_components(replayed):
    for phase in replayed[0].phases:
        kernels_j = sum(share.energy_j for share in phase.by_kernel)
        components_j = sum(share.energy_j for share in phase.by_component[:-2])
        assert kernels_j == pytest.approx(components_j)


def test_equal_layers_take_equal_energy(replayed):
    layers = [share for share in replayed[0].phase("prefill").by_layer if ".h." in share.name]

    assert len(layers) == 24
    joules = [share.energy_j for share in layers]
    assert max(joules) == pytest.approx(min(joules), rel=1e-6)


def test_a_launch_bound_phase_is_mostly_gaps_at_static_power(replayed):
    found = replayed[0]
    gaps = found.phase("decode").gaps

    assert gaps.energy_j > 0.4 * found.phase("decode").energy_j
    assert gaps.power_w == pytest.approx(found.static_w, rel=0.05)


def test_a_replay_measures_the_kernels_that_matter_and_supposes_the_rest(replayed):
    found = replayed[0]
    supposed = [one for one in found.phase("decode").by_kernel if one.is_supposed]

    assert 10 < len(found.replays) < 60
    assert supposed
    assert sum(one.energy_j for one in supposed) < 0.02 * found.phase("decode").energy_j


def test_classes_need_no_replay_and_are_less_sure(replayed, by_classes):
    sure, unsure = replayed[0].phase("prefill"), by_classes[0].phase("prefill")

    assert by_classes[0].replays == {}
    # What a replay takes longer is its kernels, a second of each.
    spared_s = replayed[0].seconds - by_classes[0].seconds
    assert spared_s > 1.0 * len(replayed[0].replays)
    assert unsure.by_component[0].energy_u_j > sure.by_component[0].energy_u_j


def test_the_cheap_method_tells_what_metering_costs(replayed, by_classes):
    """Simulated GPUs are looked at for nothing; most gaps are between a decode's kernels."""
    (cost,) = by_classes[0].metering.values()

    assert not replayed[0].metering
    assert by_classes[0].metering.keys() == {"decode"}
    assert cost.is_known
    assert abs(cost.slowdown.value) < 0.005


def test_the_estimate_stands_beside_the_measurement(replayed):
    for share in replayed[0].phase("prefill").by_component[:-2]:
        assert share.estimated_j is not None
        assert 0.2 < share.estimated_j / share.energy_j < 5


def test_an_attribution_travels_between_processes(replayed):
    found = pickle.loads(pickle.dumps(replayed[0]))

    assert found.phase("prefill").by_component == replayed[0].phase("prefill").by_component


def test_a_procedure_without_idle_power_is_refused_before_anything_is_measured(tmp_path):
    """--procedure.idle-s 0 was refused only when the whole program had been metered."""
    device = SimulatedDevice.open(fleet("a100_sxm", 1, str(tmp_path))[0])

    with pytest.raises(ConfigError, match="idle_s must be above 0"):
        Session(device, procedure=Procedure(idle_s=0))


@pytest.mark.parametrize("method", ["replay", "classes"])
def test_what_cannot_be_attributed_is_refused_before_it_is_measured(tmp_path, method):
    """A function of one's own on an H200 was measured for a minute and a half first.

    So it was by classes; by replay on a simulated GPU it still was.
    """
    told = []
    device = SimulatedDevice.open(fleet("a100_sxm", 1, str(tmp_path))[0])
    gemm = Configuration.of("gemm", WORKLOADS["gemm"].from_knobs({}).settings)

    with pytest.raises(ConfigError, match="must be a network, got Gemm"):
        Session(device, report=told.append).attribute(gemm, method)

    assert not told


def test_a_network_of_ones_own_is_traced_once(tmp_path, monkeypatch):
    """By classes it was traced once to see whether it can be priced, and again for its prices."""
    traced = []
    trace = session.traced_program
    monkeypatch.setattr(session, "traced_program", lambda one: traced.append(one) or trace(one))

    attribute(tmp_path, method="classes", knobs={"model": "tiny", "new_tokens": 4})

    assert len(traced) == 1


def test_what_is_done_is_told_kernel_by_kernel(tmp_path):
    told = []
    attribute(tmp_path, knobs={"model": "tiny", "new_tokens": 4}, report=told.append)

    assert told[0] == "Preparing bloom"
    assert "Profiling" in told
    assert any(step.startswith("Replaying kernel 3 of at most ") for step in told)
    assert not any("windows of 0.4" in step for step in told)
