"""The quick pace: points after another one of the same program."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from joulelab.bench import Bench
from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.procedure import LONGEST_FOLLOWING_S, Procedure
from joulelab.core.trial import Trial
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice, fleet
from joulelab.sampling.readiness import COOLING_RATIO, COOLING_S, FOLLOWS_WITHIN_S, WarmUp
from joulelab.sampling.window_loop import TimeSpan
from joulelab.workloads import WORKLOADS

QUICK = Procedure(pace="quick")


@pytest.fixture
def address(tmp_path):
    (address,) = fleet("h200_sxm", 1, str(tmp_path))
    return address


@pytest.fixture
def device(address):
    device = SimulatedDevice.open(address)
    yield device
    device.close()


@pytest.fixture
def bench(device):
    with Bench(device, procedure=QUICK) as bench:
        yield bench


def asked(mhz=None, n=8192, workload="gemm", **knobs):
    knobs |= {} if n is None else {"n": n}
    settings = WORKLOADS[workload].from_knobs(knobs).settings
    configuration = Configuration.of(workload, settings, OperatingPoint(sm_clock_mhz=mhz))
    return Trial(study="s", name="t", configuration=configuration)


def measure(bench, mhz=None, **knobs):
    (record,) = bench.measure(asked(mhz, **knobs))
    return record.measurement


def test_the_first_point_of_a_program_is_measured_from_rest(bench):
    first = measure(bench)

    assert first.pace == "reference"
    assert first.idle is not None


def test_the_next_clock_takes_a_tenth_of_the_time_and_agrees_with_the_whole_procedure(
    bench, device
):
    measure(bench)
    start_s = device.clock.now_s()
    quick = measure(bench, 1095)
    took_s = device.clock.now_s() - start_s
    start_s = device.clock.now_s()
    (whole,) = bench.measure(
        Trial(study="s", name="t", configuration=quick.configuration), procedure=Procedure()
    )

    assert quick.pace == "quick"
    assert quick.valid
    assert took_s < 3
    assert device.clock.now_s() - start_s > 8 * took_s
    assert quick.energy_per_unit_j == pytest.approx(whole.measurement.energy_per_unit_j, rel=0.01)


def test_a_quick_point_claims_no_idle_power(bench):
    measure(bench)
    quick = measure(bench, 1095)

    assert quick.idle is None
    assert quick.dynamic_energy_per_unit_j is None


def test_another_program_is_measured_from_rest(bench):
    measure(bench)

    assert measure(bench, workload="stream", n=None).pace == "reference"


def test_other_settings_of_the_program_follow_and_agree_with_the_whole_procedure(bench):
    """A search changes batch or format at nearly every trial, and each began from rest."""
    measure(bench, n=4096)
    quick = measure(bench, 1095, precision="fp32")
    (whole,) = bench.measure(
        Trial(study="s", name="t", configuration=quick.configuration), procedure=Procedure()
    )

    assert quick.pace == "quick"
    assert quick.energy_per_unit_j == pytest.approx(whole.measurement.energy_per_unit_j, rel=0.01)


def test_a_board_is_warmed_for_as_long_as_it_rested(bench, device):
    measure(bench)
    device.clock.sleep_s(1.0)
    after_a_pause = measure(bench, 1095)
    device.clock.sleep_s(20.0)
    after_loading = measure(bench, 1110)

    assert after_a_pause.pace == after_loading.pace == "quick"
    assert 1.0 <= after_a_pause.observed.warmup_s < LONGEST_FOLLOWING_S
    assert LONGEST_FOLLOWING_S <= after_loading.observed.warmup_s < LONGEST_FOLLOWING_S + 1


def test_a_board_that_has_gone_cold_is_measured_from_rest(bench, device):
    measure(bench)
    device.clock.sleep_s(FOLLOWS_WITHIN_S + 0.1)

    assert measure(bench, 1095).pace == "reference"


def test_a_quick_point_that_is_invalid_is_measured_again_from_rest(bench, address):
    measure(bench)
    DriverStore(address.store).state(address.uuid).inject(Fault(kind="foreign_process"))
    again = measure(bench, 1095)

    assert [finding.reason for finding in again.findings] == ["foreign_process"]
    assert again.pace == "reference"


def test_a_point_that_the_power_cap_holds_is_not_measured_again(bench):
    """It lies in what was asked for: the whole procedure would find the same."""
    measure(bench, precision="bf16")
    capped = measure(bench, 1980, precision="bf16")

    assert [finding.reason for finding in capped.findings] == ["power_capped"]
    assert capped.pace == "quick"


def test_a_program_that_does_not_steady_is_not_tried_quickly_first(bench, device, address):
    """Each of its points took both procedures, and the second is as unsteady as the first."""
    state = DriverStore(address.store).state(address.uuid)
    for at_s in np.arange(0, 12, 0.4):  # its clock goes down and up again
        at_s = float(device.clock.now_s() + at_s)
        state.inject(Fault(kind="throttle", clock_mhz=900, at_s=at_s, until_s=at_s + 0.2))
    short = Procedure(idle_s=0, warmup_min_s=3, warmup_max_s=4)
    (unsteady,) = bench.measure(asked(), procedure=short)
    device.clock.sleep_s(5.0)

    assert unsteady.measurement.observed.warmup_steady is False
    assert measure(bench, 1110).pace == "reference"
    assert measure(bench, n=4096).pace == "quick"  # other settings may run evenly


def test_a_point_follows_one_whose_temperature_alone_still_moved(bench):
    """Such a program never had a quick point, however even it ran."""
    short = Procedure(warmup_min_s=3, warmup_max_s=4)
    (warming,) = bench.measure(asked(), procedure=short)

    assert warming.measurement.observed.warmup_steady is False
    assert measure(bench, 1110).pace == "quick"


def test_units_longer_than_a_window_are_run_once_before_they_are_measured(bench):
    """Three times of a second each cost more than the windows, which show the same."""
    measure(bench, n=65536)
    quick = measure(bench, 1095, n=65536)

    unit_s = quick.windows[0].duration_s
    assert quick.pace == "quick"
    assert quick.observed.warmup_steady
    assert quick.observed.warmup_s == pytest.approx(unit_s, rel=0.05)
    assert len(quick.windows) == 3
    assert unit_s > 1.0


def test_a_phase_that_follows_a_hungrier_one_waits_for_the_die_to_cool(bench):
    """Decodes took 0.3 % more energy right after their prefill, in every block alike."""
    knobs = {"n": None, "workload": "llama", "model": "tinyllama", "batch": 8, "new_tokens": 16}
    bench.measure(asked(**knobs))
    prefill, decode = (record.measurement for record in bench.measure(asked(1110, **knobs)))

    assert prefill.pace == decode.pace == "quick"
    assert prefill.power_w > COOLING_RATIO * decode.power_w
    assert prefill.observed.warmup_s < 1.0
    assert COOLING_S <= decode.observed.warmup_s < COOLING_S + 1.0


def test_long_units_whose_times_vary_in_their_windows_are_measured_again_from_rest(bench, device):
    measure(bench, n=65536)
    device.machine.board = replace(device.machine.board, run_noise=0.3)  # 6 % of a run of 1.3 s

    assert measure(bench, 1095, n=65536).pace == "reference"


@pytest.mark.parametrize(("last_s", "is_even"), [(1.01, True), (1.2, False)])
def test_windows_decide_on_units_that_were_too_few_to_show_whether_they_vary(last_s, is_even):
    warmup = WarmUp(duration_s=1.0, steady=True, even=True, timed=False)
    edges_s = [0.0, 1.0, 2.0, 2.0 + last_s]
    units = [TimeSpan(start_s=a, stop_s=b, work=1.0) for a, b in pairwise(edges_s)]

    assert warmup.confirmed(units).steady is is_even
    assert warmup.confirmed(units).even is is_even
    assert replace(warmup, timed=True).confirmed(units).even


def test_a_search_is_quick_from_its_first_trial_on(device):
    """That trial took as many joules as the ten that followed it."""
    with Bench(device, procedure=Procedure().in_search()) as bench:
        first = measure(bench)
        (whole,) = bench.measure(asked(), procedure=Procedure())

    assert first.pace == "quick"
    assert first.idle is None
    assert first.observed.warmup_s >= LONGEST_FOLLOWING_S
    assert first.energy_per_unit_j == pytest.approx(whole.measurement.energy_per_unit_j, rel=0.02)


@pytest.mark.parametrize("asked", [{"pace": "reference"}, {"window_s": 5.0}, {"start_below_c": 40}])
def test_a_search_keeps_to_what_was_asked_for(asked):
    assert Procedure(**asked).in_search() == Procedure(**asked)
