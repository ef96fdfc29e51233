from itertools import pairwise
from math import hypot, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_data import reference_csv

from joulelab.core.counter import EnergyCounter, samples_window
from joulelab.core.energy import total_u_j
from joulelab.core.ticks import CounterPolls
from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, TraceCoverageError

TICK_S = 0.1


def counter_of(energy_at, *, stop_s=6.0, spacing_s=0.0047, call_s=0.001, tick_s=TICK_S):
    """A counter that ticks every ``tick_s`` and is polled densely throughout."""
    poll_s = np.arange(0, stop_s, spacing_s)
    read_s = poll_s + call_s / 2
    tick = np.floor((read_s - 0.037) / tick_s) * tick_s + 0.037
    return EnergyCounter(
        CounterPolls(before_s=poll_s, after_s=poll_s + call_s, energy_j=energy_at(tick))
    )


def test_constant_power_gives_power_times_time():
    counter = counter_of(lambda t_s: 300.0 * t_s)

    window = counter.window(1.234, 2.345)

    assert window.energy_j == pytest.approx(300 * 1.111, rel=1e-4)
    assert window.source == "counter"


def test_a_ramp_is_met_within_its_uncertainty():
    counter = counter_of(lambda t_s: 25.0 * t_s**2)  # P = 50 t

    window = counter.window(1.03, 4.08)

    assert abs(window.energy_j - 25 * (4.08**2 - 1.03**2)) < 2 * window.energy_u_j


def test_a_step_inside_the_window_is_counted_whole():
    counter = counter_of(lambda t_s: 100.0 * t_s + 400.0 * np.maximum(0, t_s - 2.5))

    window = counter.window(1.0, 4.0)

    assert window.energy_j == pytest.approx(100 * 3 + 400 * 1.5, rel=2e-3)


@given(
    edges=st.lists(st.floats(0.3, 5.5), min_size=3, max_size=3, unique=True).map(sorted),
    power_w=st.floats(50, 1000),
)
def test_energy_adds_up_over_adjoining_windows(edges, power_w):
    counter = counter_of(lambda t_s: power_w * t_s + 5 * np.sin(7 * t_s))
    first_s, middle_s, last_s = edges

    whole = counter.window(first_s, last_s).energy_j

    parts = counter.window(first_s, middle_s).energy_j + counter.window(middle_s, last_s).energy_j
    assert parts == pytest.approx(whole, abs=1e-6)


def test_adjoining_windows_are_together_as_sure_as_one_window():
    counter = counter_of(lambda t_s: 300 * t_s + 5 * np.sin(7 * t_s))
    edges_s = [1.02, 1.33, 1.61, 1.94, 2.27]
    parts = [counter.window(*edges) for edges in pairwise(edges_s)]

    whole = counter.window(edges_s[0], edges_s[-1])

    assert total_u_j(parts) == pytest.approx(whole.energy_u_j, rel=0.25)
    assert np.hypot.reduce([part.energy_u_j for part in parts]) > 1.5 * whole.energy_u_j


def test_uncertainty_grows_with_power_that_wanders_between_ticks():
    calm = counter_of(lambda t_s: 300.0 * t_s)
    wild = counter_of(lambda t_s: 300.0 * t_s + 3 * np.sin(40 * t_s))

    assert wild.window(1.05, 3.05).energy_u_j > 3 * calm.window(1.05, 3.05).energy_u_j


@pytest.mark.parametrize("wanders_s", [(1.3, 1.9), (2.1, 2.7)], ids=["before", "after"])
def test_power_that_wandered_around_a_window_is_taken_to_wander_in_it(wanders_s):
    def energy_at(t_s):
        inside = (t_s > wanders_s[0]) & (t_s < wanders_s[1])
        return 300.0 * t_s + np.where(inside, np.sin(40 * t_s), 0.0)

    u_j = counter_of(energy_at).window(1.95, 2.05).energy_u_j

    assert u_j > 2 * counter_of(lambda t_s: 300.0 * t_s).window(1.95, 2.05).energy_u_j


def test_errors_are_as_large_as_stated():
    """Power that wanders as flicker noise does: errors over stated uncertainties scatter by 1."""
    random = np.random.default_rng(2)
    grid_s = np.arange(0, 60, 0.005)
    spectrum = np.fft.rfft(random.normal(size=grid_s.size))
    spectrum[1:] /= np.sqrt(np.arange(1, spectrum.size))
    noise = np.fft.irfft(np.r_[0, spectrum[1:]], grid_s.size)
    power_w = 300 + 30 * noise / noise.std()
    energy_j = np.cumsum(power_w) * 0.005
    counter = counter_of(lambda t_s: np.interp(t_s, grid_s, energy_j), stop_s=58)
    starts_s = random.uniform(1, 55, 1000)

    windows = [counter.window(start_s, start_s + 1.03) for start_s in starts_s]

    true_j = np.interp(starts_s + 1.03, grid_s, energy_j) - np.interp(starts_s, grid_s, energy_j)
    errors = [(w.energy_j - e) / w.energy_u_j for w, e in zip(windows, true_j, strict=True)]
    assert 0.5 < np.std(errors) < 1.3


def test_a_counter_without_ticks_works_as_well():
    poll_s = np.arange(0, 3, 0.005)
    polls = CounterPolls(before_s=poll_s, after_s=poll_s + 1e-3, energy_j=200 * (poll_s + 5e-4))

    window = EnergyCounter(polls).window(0.5034, 2.0071)

    assert window.energy_j == pytest.approx(200 * 1.5037, abs=3 * window.energy_u_j)
    assert window.energy_u_j < 0.005 * window.energy_j


def test_energy_beyond_the_last_tick_is_refused_rather_than_extrapolated():
    counter = counter_of(lambda t_s: 300.0 * t_s, stop_s=2.0)

    with pytest.raises(TraceCoverageError, match="does not span"):
        counter.window(1.0, 1.97)


def test_a_window_without_length_is_refused():
    with pytest.raises(ConfigError, match="after start_s"):
        counter_of(lambda t_s: 300.0 * t_s).window(1.0, 1.0)


def test_a_counter_that_falls_is_a_finding_and_energy_across_it_is_refused():
    counter = counter_of(lambda t_s: np.where(t_s < 3, 300.0 * t_s, 300.0 * (t_s - 3)))

    (finding,) = counter.findings(1.0, 5.0)

    assert finding.reason == "counter_reset"
    assert "fell from 881.100 to 11.100 J" in finding.detail
    with pytest.raises(TraceCoverageError):
        counter.window(1.0, 5.0)


@pytest.mark.parametrize("edges_s", [(3.0, 4.5), (1.5, 3.0)], ids=["start", "stop"])
def test_a_reset_between_the_reads_on_both_sides_of_an_edge_is_a_finding(edges_s):
    """Neither of the two reads is within the window; whether it was reset there, nobody knows."""
    read_s = np.array([*np.arange(0, 2.9, 0.005), *np.arange(3.1, 6, 0.005)])
    polls = CounterPolls(
        before_s=read_s,
        after_s=read_s + 0.001,
        energy_j=300.0 * np.where(read_s < 3, read_s, read_s - 3),
    )

    (finding,) = EnergyCounter(polls).findings(*edges_s)

    assert finding.reason == "counter_reset"
    with pytest.raises(TraceCoverageError):
        EnergyCounter(polls).window(*edges_s)


@pytest.mark.parametrize("edges_s", [(3.2, 4.5), (1.5, 2.8)], ids=["before", "after"])
def test_a_reset_outside_a_window_is_none_of_its_findings(edges_s):
    counter = counter_of(lambda t_s: np.where(t_s < 3, 300.0 * t_s, 300.0 * (t_s - 3)))

    assert counter.findings(*edges_s) == ()


def test_of_several_resets_only_what_follows_the_last_is_used():
    def fall_at_two_and_four(t_s):
        return 300.0 * (t_s - np.where(t_s < 2, 0, np.where(t_s < 4, 2, 4)))

    counter = counter_of(fall_at_two_and_four)

    assert counter.window(4.5, 5.5).energy_j == pytest.approx(300, rel=1e-3)
    with pytest.raises(TraceCoverageError):
        counter.window(3.0, 5.5)


def test_energy_after_a_reset_is_still_good():
    counter = counter_of(lambda t_s: np.where(t_s < 3, 300.0 * t_s, 300.0 * (t_s - 3)))

    assert counter.findings(3.6, 5.0) == ()
    assert counter.window(3.6, 5.0).energy_j == pytest.approx(300 * 1.4, rel=1e-3)


def test_a_counter_that_stands_still_is_a_finding():
    counter = counter_of(lambda t_s: 300.0 * np.minimum(t_s, 2.0), stop_s=5)

    (finding,) = counter.findings(1.0, 4.0)

    assert finding.reason == "counter_frozen"


def test_a_counter_that_never_moved_is_a_finding():
    counter = counter_of(lambda t_s: 0 * t_s + 7.0)

    (finding,) = counter.findings(1.0, 4.0)

    assert finding.reason == "counter_frozen"
    assert not counter.spans(1.0, 4.0)


@pytest.mark.parametrize(("stood_s", "frozen"), [(1.9, False), (2.2, True)])
def test_a_counter_may_stand_for_ten_of_its_ticks(stood_s, frozen):
    """It ticks every 0.2 s, so ten ticks are 2 s."""
    still = lambda t_s: 300.0 * (np.minimum(t_s, 3.0) + np.maximum(t_s - 3.0 - stood_s, 0))  # noqa: E731
    counter = counter_of(still, stop_s=9.0, tick_s=0.2)

    assert bool(counter.findings(1.0, 8.0)) is frozen


def test_ticks_read_once_each_are_timed_by_the_period_known_from_earlier():
    # One read just after each tick, and now and then one just before: too few to show the period.
    tick_s = np.arange(0.06, 5, 0.1)
    first, second = tick_s[3:20], tick_s[30:48:4]
    poll_s = np.sort(np.concatenate([first + 0.004, second - 0.004, second + 0.004]))
    energy_j = 300.0 * tick_s[np.searchsorted(tick_s, poll_s + 5e-4) - 1]
    polls = CounterPolls(before_s=poll_s, after_s=poll_s + 1e-3, energy_j=energy_j)

    window = EnergyCounter(polls, tick_s=(0.1, 0.1)).window(3.2, 4.4)

    assert window.energy_j == pytest.approx(300 * 1.2, rel=2e-3)
    assert window.energy_u_j < 0.003 * window.energy_j
    assert EnergyCounter(polls).window(3.2, 4.4).energy_u_j > 3 * window.energy_u_j


def test_energy_of_a_ramp_from_samples_matches_the_closed_form():
    t_s = np.arange(0, 5, 0.02)

    window = samples_window(PowerTrace(t_s=t_s, power_w=10 * t_s), 1.003, 3.017, work=4.0)

    assert window.energy_j == pytest.approx(5 * (3.017**2 - 1.003**2))
    assert (window.source, window.work) == ("samples", 4.0)


def test_the_stated_uncertainty_is_the_scatter_over_repeats():
    """White sensor noise of 10 W in 100 updates leaves 1 % of 10 W per second of window."""
    random = np.random.default_rng(3)
    t_s = np.arange(0, 4, 0.02)
    windows = [
        samples_window(PowerTrace(t_s=t_s, power_w=300 + random.normal(0, 10, t_s.size)), 1, 3)
        for _ in range(300)
    ]

    errors_j = [window.energy_j - 600 for window in windows]
    stated_j = np.mean([window.energy_u_j for window in windows])

    assert stated_j == pytest.approx(np.std(errors_j), rel=0.2)


def test_a_ramp_is_as_uncertain_as_the_age_of_the_samples_at_its_edges():
    """It rises by 20 W from edge to edge, of which the spacing of 20 ms leaves open a part.

    The age of a sample is anything up to its spacing (a rectangular distribution, GUM 4.3.7).
    Neighbours differ by 0.2 W throughout, which is all that the ramp adds to the scatter.
    """
    t_s = np.arange(0, 5, 0.02)

    window = samples_window(PowerTrace(t_s=t_s, power_w=10 * t_s), 1.01, 3.01)

    edges_j = 20 * 0.02 / sqrt(12)
    scatter_j = 0.2 / sqrt(2) * 2 / sqrt(100)
    assert window.energy_u_j == pytest.approx(hypot(edges_j, scatter_j), rel=1e-3)


def test_readings_that_repeat_are_not_counted_as_new_updates():
    random = np.random.default_rng(4)
    power_w = 300 + random.normal(0, 10, 60)
    often = PowerTrace(t_s=np.arange(0, 6, 0.01), power_w=np.repeat(power_w, 10))
    seldom = PowerTrace(t_s=np.arange(0, 6, 0.1), power_w=power_w)

    assert samples_window(often, 1, 5).energy_u_j == pytest.approx(
        samples_window(seldom, 1, 5).energy_u_j, rel=0.05
    )


def test_an_interval_beyond_the_samples_is_refused():
    trace = PowerTrace(t_s=np.arange(0, 2, 0.02), power_w=np.full(100, 300.0))

    with pytest.raises(TraceCoverageError):
        samples_window(trace, 1.0, 3.0)


def test_two_samples_span_what_lies_between_them_and_no_more():
    trace = PowerTrace(t_s=np.array([1.0, 2.0]), power_w=np.array([300.0, 100.0]))

    assert trace.spans(1.0, 2.0)
    assert not trace.spans(0.9, 2.0)
    assert not trace.spans(1.0, 2.1)
    assert trace.energy_j(1.0, 2.0) == pytest.approx(200.0)


@pytest.fixture(params=["bf16_1024", "bf16_8192"])
def recording(request):
    """The counter, and times and joules of the integrated samples, scaled to the counter."""
    polls = reference_csv(f"h200_steady_{request.param}_polls.csv")
    start_s, energy_mj, _, stop_s = np.loadtxt(polls, delimiter=",", skiprows=1, unpack=True)
    counter = EnergyCounter(
        CounterPolls(before_s=start_s, after_s=stop_s, energy_j=energy_mj / 1e3)
    )
    samples = reference_csv(f"h200_steady_{request.param}_samples.csv")
    time_s, power_mw = np.loadtxt(samples, delimiter=",", skiprows=1, unpack=True)
    new = np.r_[True, np.diff(time_s) > 1e-3]
    time_s, power_w = time_s[new], power_mw[new] / 1e3
    energy_j = np.r_[0, np.cumsum(np.diff(time_s) * (power_w[1:] + power_w[:-1]) / 2)]
    first_s, last_s = counter.ticks.time_s[[5, -5]]
    scale = counter.window(first_s, last_s).energy_j / np.diff(
        np.interp([first_s, last_s], time_s, energy_j)
    )
    return counter, time_s, scale * energy_j


def errors(recording, length_s, num_windows=4000):
    counter, time_s, energy_j = recording
    random = np.random.default_rng(0)
    first_s, last_s = counter.ticks.time_s[[5, -5]]
    starts_s = random.uniform(first_s, last_s - length_s - 0.1, num_windows)
    stops_s = starts_s + length_s + random.uniform(-0.05, 0.05, num_windows)
    windows = [counter.window(*edges) for edges in zip(starts_s, stops_s, strict=True)]
    reference_j = np.interp(stops_s, time_s, energy_j) - np.interp(starts_s, time_s, energy_j)
    error_j = np.array([window.energy_j for window in windows]) - reference_j
    return error_j / reference_j, error_j / np.array([window.energy_u_j for window in windows])


def test_energy_of_a_second_is_known_to_half_a_percent(recording):
    relative, _ = errors(recording, 1.0)

    assert relative.std() < 0.005


@pytest.mark.parametrize("length_s", [0.5, 1.0, 2.0])
def test_the_stated_uncertainty_is_the_scatter_of_the_errors(recording, length_s):
    _, normalised = errors(recording, length_s, num_windows=1000)

    assert 0.6 < normalised.std() < 1.35


def test_a_tick_every_100_ms_is_found_in_the_recording(recording):
    counter, _, _ = recording

    assert counter.ticks.period_s == pytest.approx(0.1, abs=1e-4)
