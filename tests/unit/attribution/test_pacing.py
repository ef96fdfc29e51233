"""Kernels that the power limit slows when they are alone, on a simulated GPU."""

from dataclasses import replace

import pytest
from planted_attributions import attribute

from joulelab.attribution import replayer
from joulelab.attribution.clock_law import ClockLaw
from joulelab.attribution.pacing import Pause, pauses
from joulelab.attribution.replayed import Replayed
from joulelab.attribution.replayer import Replays
from joulelab.hardware import GPUS

KNOBS = {"model": "bloom-560m", "batch": 32, "new_tokens": 2, "precision": "fp16"}
GPU = "h100_sxm"
LAW = ClockLaw(GPUS[GPU])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """An attribution, and its kernels alone before any pause."""
    alone = {}

    def seen(measured, *others):
        alone.update(measured)
        return pauses(measured, *others)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replayer, "pauses", seen)
        attribution, _ = attribute(tmp_path_factory.mktemp("paced"), knobs=KNOBS, gpu=GPU)
    return attribution, alone


def slowed(found):
    attribution, alone = found
    program = attribution.measured["prefill"].observed.sm_clock_mhz
    calls = {call.kernel for call in attribution.phase("prefill").profile.calls}
    return {
        name: (read.observed.sm_clock_mhz, attribution.paced[name].observed.sm_clock_mhz, program)
        for name, read in alone.items()
        if name in calls and read.observed.sm_clock_mhz < 0.98 * program
    }


def test_pauses_bring_kernels_to_the_clock_of_the_program(found):
    clocks = slowed(found)

    assert len(clocks) >= 3  # products of matrices
    for alone, paused, program in clocks.values():
        assert abs(paused / program - 1) < 0.4 * abs(alone / program - 1)


def test_a_paused_kernel_has_the_power_of_the_program_or_no_limit_near(found):
    attribution, alone = found
    run_w = attribution.measured["prefill"].power_w

    for name in slowed(found):
        paused_w = attribution.paced[name].power_w
        assert paused_w < 0.98 * alone[name].power_w
        assert paused_w == pytest.approx(max(run_w, 0.75 * alone[name].power_w), rel=0.1)


def test_kernels_at_the_clock_of_the_program_are_not_measured_again(found):
    attribution, alone = found

    assert attribution.replays == alone
    assert attribution.paced.keys() == slowed(found).keys()


def test_parts_close_where_the_limit_slows_kernels_alone(found):
    assert abs(found[0].phase("prefill").closure) < 0.02


def pauses_of(found, **observed):
    """The pauses that a product gets, with what was observed of it alone replaced."""
    attribution, alone = found
    name = next(iter(slowed(found)))
    read = replace(alone[name], observed=replace(alone[name].observed, **observed))
    profiles = [phase.profile for phase in attribution.phases]
    return pauses({name: read}, attribution.measured, profiles, LAW.factor)


def test_what_is_slower_the_more_rests_the_longer(found):
    (much,) = pauses_of(found, sm_clock_mhz=1200.0).values()
    (little,) = pauses_of(found, sm_clock_mhz=1700.0).values()

    assert much.duration_s > little.duration_s > 0
    assert much.sm_clock_mhz == found[0].measured["prefill"].observed.sm_clock_mhz


def test_what_hardly_matters_in_its_phase_is_left_to_the_law_of_voltage(found):
    attribution, alone = found
    name = next(iter(slowed(found)))
    brief = tuple(replace(each, work=1e4 * each.work) for each in alone[name].windows)
    profiles = [phase.profile for phase in attribution.phases]

    others = pauses(
        {**alone, name: replace(alone[name], windows=brief)},
        attribution.measured,
        profiles,
        LAW.factor,
    )

    assert others.keys() == slowed(found).keys() - {name}


@pytest.mark.parametrize("clock_mhz", [None, 1980.0])
def test_without_a_lower_clock_there_is_no_pause(found, clock_mhz):
    assert pauses_of(found, sm_clock_mhz=clock_mhz) == {}


def at_clock(read, clock_mhz):
    """A reading as if it had been made at another clock."""
    return replace(read, observed=replace(read.observed, sm_clock_mhz=clock_mhz))


@pytest.mark.parametrize(("paced_mhz", "share"), [(2080.0, 0.8), (1980.0, 1.0), (1900.0, None)])
def test_a_kernel_is_priced_between_the_clocks_at_which_it_was_read(found, paced_mhz, share):
    """The program has 1980 MHz; from below it, the nearer reading is brought there by voltage."""
    attribution, alone = found
    name = next(iter(slowed(found)))
    slow, paced = at_clock(alone[name], 1580.0), at_clock(attribution.paced[name], paced_mhz)
    replays = Replays(
        measured={name: slow}, paced={name: paced}, pauses={name: Pause(1e-4, 1980.0)}
    )
    profiles = [phase.profile for phase in attribution.phases]

    assert attribution.measured["prefill"].observed.sm_clock_mhz == 1980.0
    prices = Replayed(replays, LAW).prices(profiles, attribution.measured)

    low_j, high_j = (one.dynamic_energy_per_unit_j for one in (slow, paced))
    expected_j = (
        LAW.factor(1980.0, paced_mhz) * high_j
        if share is None
        else low_j + share * (high_j - low_j)
    )
    tolerance = 0.02 if share is None else 1e-6  # bytes of the memory do not follow the clock
    price_j = prices.prior.prices[prices.names.index(name)]
    assert price_j == pytest.approx(expected_j, rel=tolerance)
