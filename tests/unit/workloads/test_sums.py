"""What ranks wait for each other in sums."""

import pytest

from joulelab.core.energy import EnergyWindow
from joulelab.workloads.sums import EVERY, Sums, WaitLog, waited_s


def window(start_s, stop_s):
    return EnergyWindow(
        start_s=start_s,
        duration_s=stop_s - start_s,
        energy_j=1.0,
        energy_u_j=0.1,
        source="counter",
        work=1.0,
    )


def test_whoever_comes_last_waits_for_nobody():
    assert waited_s([[3.0, 1.0], [1.0, 2.0]]) == (EVERY * 2.0, EVERY * 1.0)


def test_sums_that_were_not_timed_alike_tell_nothing():
    assert waited_s([[3.0], []]) == ()


def test_one_sum_in_some_is_timed_and_read_once():
    sums = Sums()
    for _ in range(2 * EVERY + 1):
        with sums.timed():
            pass

    assert len(sums.read_s()) == 2
    assert sums.read_s() == []


def test_waiting_is_that_of_the_windows_per_unit_of_work():
    log = WaitLog()
    log.add(0.0, 1.0, 1.0, (0.5, 0.0))
    log.add(1.0, 2.0, 4.0, (0.4, 0.0))
    log.add(2.0, 3.0, 4.0, (0.0, 0.8))

    figures = log.figures([window(1.0, 2.0), window(2.0, 3.0)])

    assert figures == {
        "gpu0.waiting_per_unit_s": pytest.approx(0.05),
        "gpu1.waiting_per_unit_s": pytest.approx(0.1),
    }
    assert log.figures([window(5.0, 6.0)]) == {}


def test_waiting_is_not_known_where_some_runs_of_the_windows_tell_none():
    log = WaitLog()
    log.add(0.0, 1.0, 1.0, (0.5, 0.0))
    log.add(1.0, 2.0, 1.0, ())

    assert log.figures([window(0.0, 2.0)]) == {}
