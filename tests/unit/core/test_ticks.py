import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.ticks import CounterPolls, _numbered, find_ticks
from joulelab.errors import ConfigError


def polled(poll_s, *, tick_s=0.1, phase_s=0.037, power_w=300.0, call_s=0.003, jitter_s=None):
    """Polls of a counter under constant power, read in the middle of each call."""
    poll_s = np.asarray(poll_s, dtype=float)
    ticks_s = phase_s + tick_s * np.arange(-2, int((poll_s[-1] + 1) / tick_s))
    if jitter_s is not None:
        ticks_s = ticks_s + np.random.default_rng(1).normal(0, jitter_s, ticks_s.size)
    energy_j = 1e3 + power_w * tick_s * np.arange(ticks_s.size)
    seen = np.searchsorted(ticks_s, poll_s + call_s / 2, side="right") - 1
    return CounterPolls(before_s=poll_s, after_s=poll_s + call_s, energy_j=energy_j[seen])


def distance_to_tick_s(time_s, *, tick_s=0.1, phase_s=0.037):
    return np.abs((time_s - phase_s + tick_s / 2) % tick_s - tick_s / 2)


def test_every_tick_lies_within_its_bracket():
    ticks = find_ticks(polled(np.arange(0, 2, 0.007)))

    true_s = 0.037 + 0.1 * np.arange(len(ticks))
    assert (ticks.earliest_s <= true_s).all()
    assert (true_s <= ticks.latest_s).all()


def test_the_period_is_found():
    ticks = find_ticks(polled(np.arange(0, 5, 0.007), tick_s=0.0925))

    assert ticks.period_s == pytest.approx(0.0925, rel=1e-3)


def test_periodic_ticks_are_timed_better_than_one_bracket_allows():
    polls = polled(np.arange(0, 5, 0.0213), call_s=0.001)

    ticks = find_ticks(polls)

    assert np.median(ticks.latest_s - ticks.earliest_s) < 0.006
    assert np.median(distance_to_tick_s(ticks.time_s)) < 0.003


@given(
    tick_s=st.floats(0.02, 0.4),
    phase_s=st.floats(0, 0.02),
    spacing=st.floats(0.04, 0.2),
    call_s=st.floats(0.0001, 0.003),
)
def test_brackets_hold_the_true_ticks_whatever_period_and_phase(tick_s, phase_s, spacing, call_s):
    polls = polled(
        np.arange(0, 30 * tick_s, spacing * tick_s), tick_s=tick_s, phase_s=phase_s, call_s=call_s
    )

    ticks = find_ticks(polls)

    number = np.round((ticks.time_s - phase_s) / tick_s)
    true_s = phase_s + number * tick_s
    assert (ticks.earliest_s <= true_s + 1e-9).all()
    assert (true_s <= ticks.latest_s + 1e-9).all()


def test_jittering_ticks_are_not_forced_onto_a_strict_period():
    polls = polled(np.arange(0, 5, 0.004), call_s=0.001, jitter_s=0.004)
    jittered_s = 0.037 + 0.1 * np.arange(-2, 60) + np.random.default_rng(1).normal(0, 0.004, 62)

    ticks = find_ticks(polls)

    nearest_s = np.abs(ticks.time_s[:, None] - jittered_s[None]).min(axis=1)
    assert np.sqrt(np.mean(nearest_s**2)) < 2 * ticks.time_u_s.mean()


def test_one_delayed_tick_does_not_disturb_the_others():
    polls = polled(np.arange(0, 5, 0.005), call_s=0.001)
    late = (polls.before_s > 2.036) & (polls.before_s < 2.062)
    energy_j = np.where(late, polls.energy_j - 30.0, polls.energy_j)

    ticks = find_ticks(
        CounterPolls(before_s=polls.before_s, after_s=polls.after_s, energy_j=energy_j)
    )

    late = (ticks.energy_j == polls.energy_j[polls.before_s > 2.07][0]).argmax()
    off_s = distance_to_tick_s(ticks.time_s)
    assert off_s[late] == pytest.approx(0.025, abs=0.004)
    assert np.delete(off_s, late).max() < 0.004


def test_sparse_polls_between_dense_ones_keep_the_phase():
    dense = np.arange(0, 0.6, 0.0047)
    polls = polled(np.concatenate((dense, np.arange(1.013, 9, 1.0), 9 + dense)))

    ticks = find_ticks(polls)

    sharp = ticks.latest_s - ticks.earliest_s < 0.01
    assert sharp.sum() >= 12
    assert distance_to_tick_s(ticks.time_s[sharp]).max() < 0.005


def test_a_value_seen_rarely_is_younger_than_one_tick():
    dense = np.arange(0, 0.6, 0.0047)
    polls = polled(np.concatenate((dense, [1.62, 2.68], 3 + dense)))

    ticks = find_ticks(polls)

    assert (ticks.latest_s - ticks.earliest_s).max() < 0.11


def test_a_counter_that_updates_at_every_read_has_no_period():
    poll_s = np.arange(0, 1, 0.005)
    polls = CounterPolls(before_s=poll_s, after_s=poll_s + 0.001, energy_j=200 * (poll_s + 0.0005))

    ticks = find_ticks(polls)

    assert ticks.period_s is None
    assert len(ticks) == poll_s.size - 1
    assert (ticks.latest_s - ticks.earliest_s).max() < 0.0075


def test_a_value_of_a_counter_without_a_period_is_as_young_as_its_reads_are_close():
    """After a second without a read, the next value is not a second old."""
    poll_s = np.array([*np.arange(0, 1, 0.005), *np.arange(2, 3, 0.005)])
    polls = CounterPolls(before_s=poll_s, after_s=poll_s + 0.001, energy_j=200 * (poll_s + 0.0005))

    ticks = find_ticks(polls)

    assert ticks.period_s is None
    assert (ticks.latest_s - ticks.earliest_s).max() < 0.0075


def test_polls_out_of_order_are_refused():
    with pytest.raises(ConfigError, match="follow each other"):
        CounterPolls.of([(1.0, 1.1, 5.0), (0.5, 0.6, 6.0)])


@pytest.mark.parametrize("gap_s", [0.3, 1.0, 2.0])
def test_pairs_of_reads_far_apart_are_tightened_by_the_ticks_between_them(gap_s):
    """Three reads around each of a few ticks leave some as wide as a whole period."""
    reads = [at_s for start in range(6) for at_s in around(start * 0.1)]
    reads += [at_s for group in range(1, 8) for at_s in around(0.6 + group * gap_s)]

    ticks = find_ticks(polls_of(reads, phase_s=0.05))

    assert (ticks.latest_s - ticks.earliest_s < 0.014).all()
    assert_covers(ticks, phase_s=0.05)


def test_a_period_too_uncertain_to_count_across_a_gap_tightens_nothing():
    """Counting wrong once gave brackets a hundredth as wide, and off by a third of a tick."""
    reads = [*around(0.0, 0.02), *around(0.02, 0.02), *around(9.0, 0.02), *around(9.02, 0.02)]

    ticks = find_ticks(polls_of(reads, tick_s=0.02, phase_s=0.01))

    assert_covers(ticks, tick_s=0.02, phase_s=0.01)


def test_slow_reads_of_ticks_in_a_row_leave_no_doubt_of_their_number():
    """As on a busy H100: brackets that might have held two ticks left all later ones loose."""
    loose_s = [(0.005, 0.022), (0.026, 0.022), (0.023, 0.012), (0.012, 0.022), (0.01, 0.012)] * 2
    reads = [
        0.05 + tick * 0.1 + off_s
        for tick, (before_s, after_s) in enumerate(loose_s)
        for off_s in (-before_s, after_s)
    ]
    reads += [at_s for after in range(1, 8) for at_s in around(0.9 + 0.6 * after)]

    ticks = find_ticks(polls_of(reads, phase_s=0.05))

    assert (ticks.latest_s - ticks.earliest_s < 0.02).all()
    assert_covers(ticks, phase_s=0.05)


@given(
    loose_s=st.lists(
        st.tuples(st.floats(0.002, 0.04), st.floats(0.002, 0.04)), min_size=3, max_size=5
    ),
    late_s=st.floats(1.0, 5.0),
)
def test_a_read_long_after_a_few_loose_ones_may_have_seen_any_tick_that_fits(loose_s, late_s):
    """A few ticks that were loosely read tell the period too badly to count by it for seconds."""
    reads = [
        0.05 + tick * 0.1 + off_s
        for tick, (before_s, after_s) in enumerate(loose_s)
        for off_s in (-before_s, after_s)
    ]

    ticks = find_ticks(polls_of([*reads, late_s], phase_s=0.05, call_s=0.001))

    assert_covers(ticks, phase_s=0.05)


@pytest.mark.parametrize("half_width", [0.0, 0.02])
def test_periods_across_a_gap_are_counted_by_those_of_neighbours(half_width):
    number = np.array([0, 1, 2, 5, 6, 7, 11, 12], dtype=float)

    found = _numbered(number - half_width, number + half_width, 1.0)

    assert found is not None
    assert found.tolist() == number.tolist()


def test_a_gap_that_holds_three_periods_or_four_is_not_counted():
    earliest_s = np.array([0.0, 0.9, 5.0, 5.9])

    assert _numbered(earliest_s, earliest_s + np.array([0.1, 0.3, 0.45, 0.45]), 1.0) is None


def around(start_s, tick_s=0.1):
    """Reads before and after the tick in the middle of a stretch."""
    middle_s = start_s + tick_s / 2
    return [middle_s - 0.006, middle_s + 0.003]


def polls_of(reads_s, *, tick_s=0.1, phase_s=0.0, call_s=0.0035):
    return CounterPolls.of(
        [
            (at_s, at_s + call_s, 30.0 * np.floor((at_s + call_s / 2 - phase_s) / tick_s))
            for at_s in reads_s
        ]
    )


def assert_covers(ticks, *, tick_s=0.1, phase_s):
    true_s = phase_s + tick_s * np.round(ticks.energy_j / 30.0)
    assert (ticks.earliest_s <= true_s + 1e-9).all()
    assert (ticks.latest_s >= true_s - 1e-9).all()


def test_a_period_known_well_from_earlier_is_not_taken_anew_from_a_few_wide_brackets():
    """It was: of a reference right after another trial, edges were then off by up to 40 ms."""
    before_s = [-3.541, -0.127, -0.117, -0.017, 0.073, 0.083]
    reads_s = [*before_s, 1.572, 1.584, 1.772, 1.784, 3.272, 3.278, 3.284, 3.377, 3.384]
    polls = polls_of([4.0 + at_s for at_s in reads_s], phase_s=0.078, call_s=0.0001)

    alone, known = (find_ticks(polls, known_s=bounds_s) for bounds_s in (None, (0.0999, 0.1001)))

    assert_covers(known, phase_s=0.078)
    assert (known.latest_s - known.earliest_s)[1:].max() < 0.013
    assert (alone.latest_s - alone.earliest_s)[1:].max() > 0.1
