"""Opportunities against estimates whose savings are known."""

from dataclasses import replace

import pytest
from estimates_by_hand import MEMORY, estimate, phase, processor
from hand_made_programs import ProgramBuilder

from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import EnergySplit
from joulelab.estimator.pricing.predict import estimate as predict
from joulelab.estimator.savings import opportunities
from joulelab.tracing.program import Program, ProgramPhase, TracedModel


def scaled(energy, time, *, work=8.0, fits=True, **changes):
    """The invented estimate at ``energy`` and ``time`` times as much as before."""
    memory = MEMORY if fits else replace(MEMORY, activation_b=100e9)
    split = EnergySplit(compute_j=1.0 * energy, memory_j=0.5 * energy, static_j=0.5 * energy)
    only = phase(work=work, latency_s=10e-3 * time, energy=split, memory=memory)
    return estimate(phases=(only,), **changes)


def refuse(**changes):
    raise ConfigError(f"no such setting: {changes}.")


def only_for(**wanted):
    """Answer one change, refuse all others."""
    change, answer = wanted["change"], wanted["answer"]
    return lambda **changes: answer if changes == change else refuse(**changes)


def test_a_saving_is_what_the_two_estimates_differ_by_per_unit_of_work():
    again = only_for(change={"batch": 32}, answer=scaled(2.0, 3.0, work=32.0, batch=32))

    (found,) = opportunities(estimate(), again)

    assert found.change == {"batch": 32}
    assert found.energy_saved == pytest.approx(1 - 2.0 / 4)
    assert found.time_saved == pytest.approx(1 - 3.0 / 4)
    assert "one execution takes 3 times as long" in found.reason


def test_the_largest_saving_comes_first():
    answers = {"graph": scaled(0.8, 0.7, mode="graph"), "compiled": scaled(0.6, 0.9)}
    again = lambda **changes: answers[changes["mode"]] if "mode" in changes else refuse()  # noqa: E731

    found = opportunities(estimate(), again)

    assert [one.change["mode"] for one in found] == ["compiled", "graph"]
    assert [one.energy_saved for one in found] == pytest.approx([0.4, 0.2])


def test_of_batches_the_best_one_is_given():
    energies = {16: 1.6, 32: 2.4, 64: 6.0}  # per sample 0.8, 0.6, 0.75

    def again(**changes):
        batch = changes["batch"] if changes.get("batch") in energies else refuse()
        return scaled(energies[batch], 1.0, work=float(batch), batch=batch)

    (found,) = opportunities(estimate(), again)

    assert (found.title, found.energy_saved) == (
        "Work on 32 samples at a time",
        pytest.approx(0.4),
    )


@pytest.mark.parametrize(
    ("of_second", "expected"),
    [(1.65, [128, 64, 32, 16]), (1.8, [128, 64])],  # 2 % more may be chance of one size
)
def test_no_smaller_batches_are_tried_once_a_sample_takes_clearly_more(of_second, expected):
    energies = {128: 1.62, 64: of_second, 32: 1.6, 16: 1.7}  # of a sample
    tried = []

    def again(**changes):
        batch = changes.get("batch") or refuse()
        tried.append(batch)
        return scaled(energies[batch] * batch / 16, 1.0, work=float(batch), batch=batch)

    opportunities(estimate(), again)

    assert tried == expected


def test_precisions_are_compared_by_their_width():
    energies = {"int8": 0.7, "fp8": 0.6, "int4": 0.5}

    def again(**changes):
        precision = changes.get("precision") or refuse()
        return scaled(energies[precision], 1.0, precision=precision)

    found = opportunities(estimate(precision="fp16"), again)

    assert [one.title for one in found] == ["Compute in int4", "Compute in fp8"]
    assert "cut by 50% the energy of operations, 50% of all" in found[0].reason


def test_wider_and_equally_wide_precisions_are_not_tried():
    tried = []

    def again(**changes):
        tried.append(changes.get("precision"))
        refuse()

    opportunities(estimate(precision="fp16"), again)

    assert set(tried) == {None, "fp8", "int8", "int4"}


def test_what_costs_energy_or_saves_next_to_nothing_is_left_out():
    def again(**changes):
        return refuse() if "batch" in changes else scaled(1.2 if "mode" in changes else 0.995, 0.5)

    assert opportunities(estimate(), again) == ()


def test_what_does_not_fit_the_memory_is_left_out():
    again = only_for(change={"batch": 16}, answer=scaled(0.5, 0.5, fits=False))

    assert opportunities(estimate(), again) == ()


def test_a_change_that_is_refused_is_left_out():
    assert opportunities(estimate(), refuse) == ()


def test_a_lower_clock_saves_energy_and_costs_time():
    slow = scaled(0.7, 1.1, point=OperatingPoint(sm_clock_mhz=600))
    again = only_for(change={"sm_clock_mhz": 600}, answer=slow)

    (found,) = opportunities(estimate(), again, clocks_mhz=(600, 800))

    assert found.title == "Run at 600 MHz"
    assert (found.energy_saved, found.time_saved) == pytest.approx((0.3, -0.1))


def test_launch_bound_work_is_told_how_long_the_device_waits():
    again = only_for(change={"mode": "graph"}, answer=scaled(0.8, 0.6, mode="graph"))

    (found,) = opportunities(estimate(), again)

    assert "waits for launches in 40% of the time" in found.reason
    assert "25% of the energy" in found.reason


def model(batch=1):
    """Twenty small products with what follows them, which weigh more than their samples."""
    builder = ProgramBuilder(x0=1e3 * batch)
    for layer in range(20):
        builder.call("mm", f"x{layer}", f"y{layer}", weight_b=1e6)
        builder.call("mul", f"y{layer}", f"z{layer}")
        builder.call("relu", f"z{layer}", f"x{layer + 1}")
    program: Program = builder.program()
    once = ProgramPhase(phase="forward", work=float(batch), program=program)
    return TracedModel(name="tower", unit="image", batch=batch, precision="fp32", phases=(once,))


def test_predicted_opportunities_of_a_launch_bound_network_are_batch_fusion_and_graphs():
    def again(batch=1, mode="eager", sm_clock_mhz=None, **others):
        if others:
            refuse(**others)
        point = OperatingPoint(sm_clock_mhz=sm_clock_mhz)
        return predict(model(batch), processor(), mode=mode, point=point)

    start = again()
    found = opportunities(start, again, clocks_mhz=(400, 600, 800))

    assert {next(iter(one.change)) for one in found} == {"batch", "mode", "sm_clock_mhz"}
    for one in found:
        work = one.change.get("batch", 1)
        after = again(**one.change)
        assert one.energy_saved == pytest.approx(1 - after.energy_j / work / start.energy_j)
        assert one.time_saved == pytest.approx(1 - after.latency_s / work / start.latency_s)
    compiled = next(one for one in found if one.change.get("mode") == "compiled")
    assert "60 kernels become 40" in compiled.reason
