"""Energy between unannounced instants, from samples and a counter whose truth is known."""

from itertools import accumulate

import numpy as np
import pytest
from reference_data import reference_csv

from joulelab.core.counter import EnergyCounter
from joulelab.core.curve import EnergyCurve
from joulelab.core.ticks import CounterPolls, Ticks
from joulelab.core.trace import PowerTrace
from joulelab.errors import ConfigError, TraceCoverageError

LEVEL = 1.006
"""The samples of an H200 are so much above its counter."""


def ticks_at(at_s, energy_j, half_width_s=1e-3):
    at_s = np.asarray(at_s, float)
    return Ticks(
        earliest_s=at_s - half_width_s,
        latest_s=at_s + half_width_s,
        energy_j=np.asarray(energy_j, float),
        period_s=0.1,
    )


def samples(power_w, stop_s=20.0, level=LEVEL):
    t_s = np.arange(0.0, stop_s, 0.02)
    return PowerTrace(t_s, level * power_w(t_s))


def test_the_counter_tells_the_level():
    trace = samples(lambda t_s: np.full_like(t_s, 300.0))
    ticks = ticks_at([1.0, 9.0, 17.0], [300.0, 2700.0, 5100.0])

    window = EnergyCurve(trace, ticks).window(3.3, 4.4)

    assert window.energy_j == pytest.approx(300.0 * 1.1)
    assert window.source == "curve"


def test_the_samples_tell_the_course_between_ticks():
    trace = samples(lambda t_s: np.where(t_s < 5.0, 100.0, 500.0))
    true_j = lambda t_s: 100 * min(t_s, 5) + 500 * max(0, t_s - 5)  # noqa: E731
    ticks = ticks_at([1.0, 9.0], [true_j(1.0), true_j(9.0)])

    window = EnergyCurve(trace, ticks).window(2.0, 3.0)

    assert window.energy_j == pytest.approx(100.0, rel=2e-3)


def test_without_a_counter_the_level_is_uncertain():
    curve = EnergyCurve(samples(lambda t_s: np.full_like(t_s, 300.0)))

    window = curve.window(2.0, 6.0)

    assert window.source == "samples"
    assert window.energy_u_j == pytest.approx(0.01 * window.energy_j, rel=0.05)


def test_windows_that_adjoin_add_up():
    trace = samples(lambda t_s: 300 + 50 * np.sin(t_s))
    curve = EnergyCurve(trace, ticks_at([1.0, 5.0, 9.0], [0.0, 1250.0, 2400.0]))

    parts = [curve.window(a, b).energy_j for a, b in ((2.0, 4.7), (4.7, 8.0))]

    assert sum(parts) == pytest.approx(curve.window(2.0, 8.0).energy_j)


def test_a_window_across_a_step_of_power_knows_that_its_edge_is_uncertain():
    trace = samples(lambda t_s: np.where(t_s < 5.0, 100.0, 700.0))
    curve = EnergyCurve(trace, ticks_at([1.0, 9.0], [0.0, 400 + 4 * 700.0]))

    steady, stepping = curve.window(6.01, 7.01), curve.window(4.99, 5.99)

    assert stepping.energy_u_j > 2 * steady.energy_u_j


@pytest.mark.parametrize(
    ("correlation_s", "look_s"),
    [(0.03, 0.005), (0.03, 0.02), (0.005, 0.005)],
    ids=["short looks", "means", "short looks at what moves fast"],
)
def test_the_stated_uncertainty_is_honest(correlation_s, look_s):
    """Of windows anywhere 68 % are within it and 95 % within twice that, not many more or fewer."""
    random = np.random.default_rng(3)
    scores = []
    for _ in range(15):
        time_s, energy_j = moving_power(random, correlation_s, stop_s=60.0)
        true_j = lambda t_s, time_s=time_s, energy_j=energy_j: np.interp(t_s, time_s, energy_j)  # noqa: E731
        t_s = np.arange(0.05, 59.9, 0.02)
        trace = PowerTrace(t_s, LEVEL * (true_j(t_s) - true_j(t_s - look_s)) / look_s)
        at_s = np.arange(1.0, 59.0, 4.0) + 0.02 * random.random(15)
        late_s = random.uniform(-1e-3, 1e-3, at_s.size)
        curve = EnergyCurve(trace, ticks_at(at_s + late_s, true_j(at_s)))
        for start_s in random.uniform(2.0, 50.0, 20):
            for length_s in (0.5, 1.0, 5.0):
                window = curve.window(start_s, start_s + length_s)
                there_j = true_j(start_s + length_s) - true_j(start_s)
                scores.append(abs(window.energy_j - there_j) / window.energy_u_j)

    within = [np.mean(np.array(scores) < k) for k in (1, 2)]
    assert 0.6 < within[0] < 0.88
    assert 0.91 < within[1] <= 1


@pytest.mark.parametrize("look_s", [0.005, 0.02], ids=["short looks", "means"])
@pytest.mark.parametrize("every_s", [2.0, 4.0])
def test_the_stated_uncertainty_is_honest_where_the_load_comes_and_goes(look_s, every_s):
    """Of windows of 2 s 16 and 60 % were within u and 2u: means tell of a step 10 ms late."""
    random = np.random.default_rng(5)
    scores = []
    for _ in range(15):
        time_s, energy_j = square_wave(random, on_s=3.0, off_s=2.0, stop_s=60.0)
        true_j = lambda t_s, time_s=time_s, energy_j=energy_j: np.interp(t_s, time_s, energy_j)  # noqa: E731
        t_s = np.arange(0.05, 59.9, 0.02)
        trace = PowerTrace(t_s, LEVEL * (true_j(t_s) - true_j(t_s - look_s)) / look_s)
        at_s = np.arange(1.037, 59.0, every_s)
        late_s = random.uniform(-1e-3, 1e-3, at_s.size)
        curve = EnergyCurve(trace, ticks_at(at_s + late_s, true_j(at_s)))
        for start_s in random.uniform(2.0, 54.0, 40):
            window = curve.window(start_s, start_s + 2.0)
            there_j = true_j(start_s + 2.0) - true_j(start_s)
            scores.append(abs(window.energy_j - there_j) / window.energy_u_j)

    assert np.mean(np.array(scores) < 1) > 0.6
    assert np.mean(np.array(scores) < 2) > 0.95
    assert np.mean(np.square(scores)) > 0.1, "wider than three times the error knows too little"


def square_wave(random, on_s, off_s, stop_s):
    """Energy of power that steps up and down, from a random instant on."""
    ends_s = np.cumsum([-random.uniform(0, on_s + off_s)] + [on_s, off_s] * int(stop_s))
    steps_j = np.diff(ends_s) * np.resize([600.0, 120.0], ends_s.size - 1)
    return ends_s, np.concatenate(([0.0], np.cumsum(steps_j)))


def moving_power(random, correlation_s, stop_s, mean_w=690.0, share=0.05):
    """Energy of power that strays about its mean (an Ornstein-Uhlenbeck process)."""
    step_s = 1e-3
    num = round(stop_s / step_s)
    keeps = np.exp(-step_s / correlation_s)
    pushes = random.standard_normal(num) * np.sqrt(1 - keeps**2)
    strays = np.array(list(accumulate(pushes, lambda before, push: keeps * before + push)))
    energy_j = np.concatenate(([0.0], np.cumsum(mean_w * (1 + share * strays) * step_s)))
    return np.arange(num + 1) * step_s, energy_j


def test_steady_power_is_known_better_than_power_that_moves():
    """Ticks that are known to a millisecond, and samples that differ by 0.2 or by 5 %."""
    random = np.random.default_rng(1)
    u_j = []
    for share in (0.002, 0.05):
        strays = 1 + share * random.standard_normal(1000)
        trace = PowerTrace(np.arange(0.0, 20.0, 0.02), 400 * strays)
        curve = EnergyCurve(trace, ticks_at([1.0, 9.0, 17.0], [400.0, 3600.0, 6800.0]))
        u_j.append(curve.window(3.0, 3.5).energy_u_j)

    assert u_j[0] < 0.001 * 200 < 0.003 * 200 < u_j[1]


def test_a_tick_that_was_timed_badly_is_left_out():
    trace = samples(lambda t_s: np.full_like(t_s, 300.0))
    at_s = np.array([1.0, 5.0, 9.0, 13.0])
    wide = np.array([1e-3, 1e-3, 0.5, 1e-3])
    ticks = Ticks(
        earliest_s=at_s - wide,
        latest_s=at_s + wide,
        energy_j=300 * at_s + np.array([0, 0, 90, 0]),
        period_s=0.1,
    )

    assert EnergyCurve(trace, ticks).window(6.0, 8.0).energy_j == pytest.approx(600.0)


def test_a_counter_that_tells_of_another_energy_is_found():
    curve = EnergyCurve(
        samples(lambda t_s: np.full_like(t_s, 300.0)),
        ticks_at([1.0, 5.0, 9.0], [0.0, 1200.0, 1500.0]),
    )

    (finding,) = curve.findings(4.0, 7.0)

    assert finding.reason == "sources_disagree"
    assert curve.findings(2.0, 4.0) == ()


def test_samples_in_step_with_a_periodic_load_are_trusted_less():
    steady = samples(lambda t_s: np.full_like(t_s, 300.0))
    off = samples(lambda t_s: np.full_like(t_s, 300.0), level=1.06)
    ticks = ticks_at([1.0, 9.0], [0.0, 2400.0])

    u_j = [EnergyCurve(trace, ticks).window(3.0, 4.0).energy_u_j for trace in (steady, off)]

    assert u_j[1] > 5 * u_j[0]


def test_two_stretches_tell_already_that_samples_stray():
    """Their levels differ by 0.8 %, ticks tell them to 1e-6: less than is strange, and seen."""
    trace = samples(lambda t_s: np.full_like(t_s, 300.0))
    alike, apart = (
        EnergyCurve(trace, ticks_at([1.0, 9.0, 17.0], [0.0, 2400.0, stop_j], half_width_s=1e-5))
        for stop_j in (4800.0, 4820.0)
    )

    assert apart.window(3.0, 4.0).energy_u_j > 5 * alike.window(3.0, 4.0).energy_u_j


def test_ticks_that_are_timed_badly_do_not_tell_how_far_samples_stray():
    """Power that moves by 400 W from sample to sample strays by their steps, a bridge of 4 s."""
    moves = lambda t_s: (t_s > 8.5) & (t_s < 13.5) & (np.arange(t_s.size) % 2 == 1)  # noqa: E731
    trace = samples(lambda t_s: 300.0 + np.where(moves(t_s), 400.0, 0.0), stop_s=60.0, level=1.0)
    at_s = np.arange(1.0, 59.0, 4.0)
    known_j = [trace.energy_j(0.0, each_s) for each_s in at_s]

    window = EnergyCurve(trace, ticks_at(at_s, known_j, half_width_s=0.02)).window(10.0, 11.0)

    steps_j2 = (400 * 0.02) ** 2 / 12
    course_j2 = (50 * (1 - 2 / 4) + 200 / 4**2) * steps_j2
    assert window.energy_u_j == pytest.approx(np.sqrt(course_j2 + 2 * steps_j2), rel=0.05)


def test_nothing_is_extrapolated():
    curve = EnergyCurve(samples(lambda t_s: np.full_like(t_s, 300.0), stop_s=3.0))

    with pytest.raises(TraceCoverageError, match="do not span"):
        curve.window(1.0, 4.0)
    with pytest.raises(ConfigError, match="after start_s"):
        curve.window(2.0, 2.0)


@pytest.mark.parametrize("load", ["bf16_8192", "bf16_1024"])
@pytest.mark.parametrize(("length_s", "promised"), [(0.5, 0.006), (1.0, 0.004), (5.0, 0.0015)])
def test_windows_of_a_real_h200_agree_with_its_counter_polled_all_the_time(
    load, length_s, promised
):
    """Ticks timed every four seconds, against a counter that was polled every 5 to 8 ms."""
    polls, samples_mw = (
        np.genfromtxt(reference_csv(f"h200_steady_{load}_{kind}.csv"), delimiter=",", names=True)
        for kind in ("polls", "samples")
    )
    counter = EnergyCounter(
        CounterPolls(
            before_s=polls["read_start_s"],
            after_s=polls["read_end_s"],
            energy_j=1e-3 * polls["energy_counter_mj"],
        )
    )
    t_s, first = np.unique(samples_mw["time_s"], return_index=True)
    trace = PowerTrace(t_s, 1e-3 * samples_mw["power_sample_mw"][first])
    every = np.arange(5, len(counter.ticks) - 3, 40)
    timed = Ticks(
        earliest_s=counter.ticks.earliest_s[every],
        latest_s=counter.ticks.latest_s[every],
        energy_j=counter.ticks.energy_j[every],
        period_s=counter.ticks.period_s,
    )
    curve = EnergyCurve(trace, timed)
    starts_s = np.random.default_rng(0).uniform(timed.time_s[0], timed.time_s[-1] - length_s, 200)

    pairs = [
        (curve.window(start_s, start_s + length_s), counter.window(start_s, start_s + length_s))
        for start_s in starts_s
    ]

    ratios = [window.energy_j / reference.energy_j for window, reference in pairs]
    u = np.array([window.energy_u_j / reference.energy_j for window, reference in pairs])
    assert np.std(ratios) < promised
    assert np.mean(ratios) == pytest.approx(1, abs=0.002)
    assert np.mean(np.abs(np.array(ratios) - 1) < u) > 0.68
    assert np.mean(np.abs(np.array(ratios) - 1) < 2 * u) > 0.95
    assert np.mean(u) < 3 * promised


def test_an_edge_between_the_first_two_samples_is_as_uncertain_as_power_moved_there():
    """Power rises by 400 W within 20 ms, at an unknown instant (rectangular), and stays."""
    curve = EnergyCurve(samples(lambda t_s: np.where(t_s < 0.01, 100.0, 500.0), stop_s=2.0))

    in_step, after = curve.window(0.01, 0.5), curve.window(0.03, 0.5)

    moved_j2 = (LEVEL * 400 * 0.02) ** 2 / 12
    assert in_step.energy_u_j**2 - after.energy_u_j**2 > moved_j2
