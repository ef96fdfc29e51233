"""Clocks and limits that somebody else set, before and while a GPU is measured."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fake_gpu import FakeGpu

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceAddress, EventReason, Look
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import Procedure
from joulelab.core.settings import setting_findings
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError, ForeignSettingError
from joulelab.guard import ObserveOnly
from joulelab.guard.control import owed_on
from joulelab.guard.journal import Journal
from joulelab.guard.settings import GuardSettings

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from foreign_settings import SCENARIOS, play

from joulelab.core.settings import same_limit

DEFAULT = OperatingPoint()
ADDRESS = DeviceAddress(backend="nvml", uuid="FAKE-0")


@pytest.mark.parametrize("guard", [True, False], ids=["guard", "no-guard"])
@pytest.mark.parametrize("tells", [True, False], ids=["tells-locks", "hides-locks"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_somebody_else_set_is_undone_or_makes_the_measurement_invalid(scenario, tells, guard):
    measurement, as_asked = play(scenario, 1, tells=tells, guard=guard)

    reasons = {finding.reason for finding in measurement.findings}
    assert as_asked if measurement.valid else reasons & {"foreign_setting", "clock_not_held"}


def looks(gpu, **state):
    return [Look(at_s=t_s / 5, state=replace(gpu.state, **state)) for t_s in range(50)]


def knowing(gpu, sm_clock_mhz=1980, mem_clock_mhz=3201):
    """What a driver that tells no locks says of a board that keeps its clocks while unlocked."""
    return replace(
        gpu.capabilities(),
        unlocked_sm_clock_mhz=sm_clock_mhz,
        unlocked_mem_clock_mhz=mem_clock_mhz,
    )


def found(capabilities, seen, point=DEFAULT):
    return setting_findings(seen, point, capabilities, 0.0, 10.0)


@pytest.mark.parametrize("knob", ["sm_clock_mhz", "mem_clock_mhz"])
def test_a_clock_that_is_low_without_a_reason_must_be_locked(knob):
    gpu = FakeGpu()

    (finding,) = found(knowing(gpu), looks(gpu, **{knob: 1200}))

    assert finding.reason == "foreign_setting"
    assert "at 1200 MHz" in finding.detail


@pytest.mark.parametrize(
    "reason", [EventReason.SW_POWER_CAP, EventReason.HW_THERMAL, EventReason.IDLE]
)
def test_a_clock_that_the_driver_holds_down_itself_is_no_lock(reason):
    gpu = FakeGpu()

    assert found(knowing(gpu), looks(gpu, sm_clock_mhz=1200, event_reasons=reason)) == ()


def test_an_applications_clock_explains_no_low_clock():
    gpu = FakeGpu()
    seen = looks(gpu, sm_clock_mhz=1200, event_reasons=EventReason.APPLICATION_CLOCKS)

    assert found(knowing(gpu), seen) != ()


def test_a_clock_in_the_middle_of_a_step_is_no_lock():
    gpu = FakeGpu()
    seen = looks(gpu)
    seen[7:9] = looks(gpu, sm_clock_mhz=1200)[7:9]

    assert found(knowing(gpu), seen) == ()


def test_a_board_whose_clocks_vary_by_themselves_is_not_judged_by_them():
    gpu = FakeGpu()

    assert found(gpu.capabilities(), looks(gpu, sm_clock_mhz=1200)) == ()


@pytest.mark.parametrize(("limit_w", "wrong"), [(700.4, False), (699.0, True), (None, False)])
def test_the_power_limit_of_every_look_must_be_the_default(limit_w, wrong):
    gpu = FakeGpu()
    seen = looks(gpu)
    seen[20] = looks(gpu, power_limit_w=limit_w)[20]

    assert bool(found(gpu.capabilities(), seen)) == wrong


def test_what_was_set_before_the_point_was_in_force_is_not_held_against_it():
    gpu = FakeGpu()
    seen = looks(gpu, power_limit_w=300.0)[:5] + looks(gpu)[5:]

    assert setting_findings(seen, DEFAULT, gpu.capabilities(), 1.0, 10.0) == ()


def test_what_was_set_while_the_idle_power_was_taken_is_held_against_the_measurement():
    gpu = FakeGpu()
    gpu.states = lambda t_s, state: replace(
        state, power_limit_w=300.0 if 1004 < t_s < 1005 else 700.0
    )

    assert [finding.reason for finding in measured(gpu).findings] == ["foreign_setting"]


def measured(gpu, point=DEFAULT, **options):
    with Bench(gpu, control=ObserveOnly(gpu, ADDRESS, **options)) as bench:
        asked = Configuration.of("gemm", point=point)
        (record,) = bench.measure(Trial(study="s", name="t", configuration=asked))
    return record.measurement


def test_the_limit_and_the_receipt_are_stored_with_the_result():
    measurement = measured(FakeGpu())

    assert measurement.valid
    assert measurement.observed.power_limit_w == 700.0
    assert measurement.receipt.set_by == "nobody"
    assert measurement.receipt.power_limit_w == 700.0
    assert not measurement.receipt.locks_known


def test_observing_under_a_limit_that_is_in_force_needs_no_setter_where_it_is_named():
    gpu = FakeGpu()
    gpu.state = replace(gpu.state, power_limit_w=500.0)

    assert measured(gpu, OperatingPoint(power_limit_w=500.0)).valid
    assert gpu.points == []


@pytest.mark.parametrize("point", [DEFAULT, OperatingPoint(sm_clock_mhz=1410)])
def test_a_site_that_runs_its_gpus_below_their_limit_measures_under_its_own(point):
    gpu = FakeGpu()
    gpu.state = replace(gpu.state, power_limit_w=500.0)
    procedure = Procedure(power_limit_w=500.0)
    with Bench(gpu, procedure=procedure) as bench:
        asked = Configuration.of("gemm", point=point)
        (record,) = bench.measure(Trial(study="s", name="t", configuration=asked))

    assert record.measurement.valid
    assert record.measurement.configuration.point == point
    assert record.measurement.receipt.requested.power_limit_w == 500.0


def test_observing_refuses_a_limit_that_is_not_in_force():
    with pytest.raises(ForeignSettingError, match="power limit is 700 W, but should be 500 W"):
        ObserveOnly(FakeGpu(), ADDRESS).apply(OperatingPoint(power_limit_w=500.0))


def test_observing_never_locks_a_clock():
    with pytest.raises(ConfigError, match="observe-only"):
        ObserveOnly(FakeGpu(), ADDRESS).apply(OperatingPoint(sm_clock_mhz=1410))


def owe(socket_path):
    """What a guard leaves that was killed with its watchdog while a clock was lent."""
    folder = GuardSettings(socket_path=socket_path).state_dir
    folder.mkdir()
    lent = OperatingPoint(sm_clock_mhz=600)
    Journal(folder).write(
        "set", ADDRESS, detail="lent", prior=DEFAULT, requested=lent, pid=4711, uid=0
    )
    return Journal(folder)


def test_observing_refuses_a_gpu_that_a_dead_guard_left_locked(tmp_path):
    """After a job step was killed, the next study measured its baseline at the stale lock."""
    owe(tmp_path / "guard.sock")

    measurement = measured(FakeGpu(), guard_socket=tmp_path / "guard.sock")

    (finding,) = measurement.findings
    assert finding.reason == "foreign_setting"
    assert "4711" in finding.detail
    assert "600MHz" in finding.detail
    assert "joulelab guard --restore" in finding.detail


def test_observing_goes_on_once_the_guard_has_restored(tmp_path):
    owe(tmp_path / "guard.sock").write("restored", ADDRESS, detail="restarted", prior=DEFAULT)

    assert measured(FakeGpu(), guard_socket=tmp_path / "guard.sock").valid


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another user's journal")
def test_a_journal_that_another_user_wrote_keeps_nobody_from_observing(tmp_path):
    owe(tmp_path / "guard.sock")
    assert owed_on(ADDRESS, tmp_path / "guard.sock") is not None

    os.chown(tmp_path / "guard.state", 54321, -1)

    assert owed_on(ADDRESS, tmp_path / "guard.sock") is None


def test_a_guard_that_lends_the_gpu_while_it_is_observed_is_noticed(tmp_path):
    gpu = FakeGpu()
    gpu.fail_run = lambda t_s: (
        owe(tmp_path / "guard.sock")
        if t_s > 1013 and not (tmp_path / "guard.state").exists()
        else None
    )

    measurement = measured(gpu, guard_socket=tmp_path / "guard.sock")

    assert [finding.reason for finding in measurement.findings] == ["foreign_setting"]


@pytest.mark.parametrize(
    ("one_w", "other_w", "same"),
    [(300.0, 300.5, True), (300.5, 300.0, True), (300.0, 300.6, False), (300.6, 300.0, False)],
)
def test_limits_are_one_within_what_drivers_round(one_w, other_w, same):
    assert same_limit(one_w, other_w) is same


def test_a_limit_that_is_not_known_contradicts_none():
    assert same_limit(None, 300.0)
    assert same_limit(300.0, None)
    assert same_limit(None, None)
