import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.sampling.tick_tracker import CONTINUOUS_STEP_S, TickTracker

CALL_S = 0.0035


class Counter:
    """Ticks at a strict period; a read samples it somewhere within the call."""

    def __init__(self, tick_s=0.1, phase_s=0.037, call_s=CALL_S, moment=0.6, delay_s=0.0):
        self.tick_s, self.phase_s, self.call_s, self.moment = tick_s, phase_s, call_s, moment
        self.num_reads, self.delay_s = 0, delay_s
        self.frozen_from_s = math.inf

    def read_into(self, tracker, at_s):
        self.num_reads += 1
        at_s = max(at_s, 0.0) + self.delay_s
        seen_s = min(at_s + self.moment * self.call_s, self.frozen_from_s)
        value = math.floor((seen_s - self.phase_s) / self.tick_s)
        tracker.add(at_s, at_s + self.call_s, float(value), delay_s=self.delay_s)
        return at_s + self.call_s


def followed(tracker, counter, start_s, stop_s, *, from_s=-math.inf):
    """Read whenever the tracker asks to; return how many reads that took."""
    before, now_s = counter.num_reads, start_s
    while (at_s := max(now_s, tracker.next_read_s(now_s, from_s))) < stop_s:
        now_s = counter.read_into(tracker, at_s)
    return counter.num_reads - before


def settled(counter):
    tracker, now_s = TickTracker(), 0.0
    while not tracker.is_settled:
        now_s = counter.read_into(tracker, max(now_s, tracker.next_read_s(now_s, -math.inf)))
    return tracker, now_s


@given(
    tick_s=st.floats(0.05, 1.0),
    phase=st.floats(0.0, 1.0),
    call_s=st.floats(0.0, 0.004),
    moment=st.floats(0.0, 1.0),
)
def test_the_period_is_learnt_from_the_first_few_ticks(tick_s, phase, call_s, moment):
    tracker, _ = settled(Counter(tick_s, phase * tick_s, call_s, moment))

    assert tracker.period_s == pytest.approx(tick_s, rel=0.15)


def test_the_ticks_of_an_h200_are_found_with_few_reads():
    counter = Counter()

    settled(counter)

    assert counter.num_reads <= 24


@pytest.mark.parametrize("delay_s", [0.0, 0.002])
def test_a_read_before_a_tick_is_over_before_the_tick_may_come(delay_s):
    """However late it begins, as reads of a busy machine do."""
    counter = Counter(delay_s=delay_s)
    tracker, now_s = settled(counter)
    num_before = 0
    for _ in range(50):
        at_s = max(now_s, tracker.next_read_s(now_s, -math.inf))
        lattice = tracker._foreseen(at_s)
        earliest_s = lattice.window(lattice.first_after(at_s)).earliest_s if lattice else math.inf
        if 0 < earliest_s - at_s < 2 * CALL_S:
            num_before += 1
            assert at_s + delay_s + CALL_S <= earliest_s
        now_s = counter.read_into(tracker, at_s)

    assert num_before > 5


@given(phase_s=st.floats(0.0, 0.0999), moment=st.floats(0.0, 1.0))
def test_once_settled_every_tick_is_caught_by_two_or_three_reads(phase_s, moment):
    counter = Counter(phase_s=phase_s, moment=moment)
    tracker, now_s = settled(counter)
    followed(tracker, counter, now_s, now_s + 1.0)

    num_reads = followed(tracker, counter, now_s + 1.0, now_s + 3.0)

    assert num_reads <= 3 * 20
    assert tracker.num_since(now_s + 2.5) >= 3


def test_no_read_is_wanted_before_its_time():
    counter = Counter()
    tracker, now_s = settled(counter)

    assert tracker.next_read_s(now_s, now_s + 0.73) >= now_s + 0.73


def test_ticks_are_still_foreseen_after_a_pause():
    counter = Counter()
    tracker, now_s = settled(counter)
    followed(tracker, counter, now_s, now_s + 2.0)

    num_reads = followed(tracker, counter, now_s + 8.0, now_s + 9.0)

    assert num_reads <= 30
    assert tracker.num_since(now_s + 8.5) >= 4


def test_ticks_are_found_again_when_they_come_at_another_time():
    counter = Counter()
    tracker, now_s = settled(counter)
    counter.phase_s += 0.05

    followed(tracker, counter, now_s, now_s + 2.0)
    num_reads = followed(tracker, counter, now_s + 2.0, now_s + 3.0)

    assert num_reads <= 30
    assert tracker.num_since(now_s + 2.5) >= 3


def test_a_counter_that_stands_still_is_read_less_and_less():
    counter = Counter()
    tracker, now_s = settled(counter)
    counter.frozen_from_s = now_s

    first = followed(tracker, counter, now_s, now_s + 5.0)
    later = followed(tracker, counter, now_s + 5.0, now_s + 10.0)

    assert later < first / 2 < 50


def test_a_counter_whose_ticks_were_known_well_is_soon_seen_to_stand_still():
    """The better its ticks are known, the longer it could go on reading for each of them."""
    counter = Counter()
    tracker, now_s = settled(counter)
    followed(tracker, counter, now_s, now_s + 5.0)
    counter.frozen_from_s = now_s + 5.0

    assert followed(tracker, counter, now_s + 5.0, now_s + 10.0) < 50


def test_a_counter_that_changes_at_every_read_has_no_period():
    tracker, _ = settled(Counter(tick_s=1e-4))

    assert tracker.is_continuous
    assert tracker.period_s is None


def test_a_counter_that_changes_at_every_read_is_read_at_an_even_pace():
    counter = Counter(tick_s=1e-4)
    tracker, now_s = settled(counter)

    num_reads = followed(tracker, counter, now_s, now_s + 1.0)

    assert num_reads == pytest.approx(1.0 / CONTINUOUS_STEP_S, abs=2)
