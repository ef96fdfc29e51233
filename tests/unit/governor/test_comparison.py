"""Savings from blocks that are governed and blocks that are not."""

import random

import pytest
from governed import play

from joulelab.errors import MeasurementError
from joulelab.governor import report as reporting
from joulelab.governor.comparison import BRIEF_U, COUNTERS_U, Block, Schedule, Sums, compare
from joulelab.governor.report import report
from joulelab.objectives import EDP, ENERGY

IDLE, BUSY = 1, 2


def block(*, is_on, idle_s, work, energy_factor=1.0, slowdown=0.0, scatter=0.0):
    """A block of 100 W idle time, and work that takes 1 s and 300 J a unit by default."""
    busy_s = work * (1 + slowdown)
    busy_j = 300 * work * energy_factor * (1 + scatter)
    made = Block(is_on=is_on, start_s=0.0)
    made.by_phase[IDLE] = Sums(duration_s=idle_s, work=idle_s, energy_j=100 * idle_s)
    made.by_phase[BUSY] = Sums(duration_s=busy_s, work=work, energy_j=busy_j)
    made.duration_s, made.energy_j = idle_s + busy_s, 100 * idle_s + busy_j
    return made


def test_blocks_of_different_work_are_compared_by_what_their_own_work_takes():
    off = [block(is_on=False, idle_s=10 - work, work=work) for work in (2, 5, 8)]
    on = [
        block(is_on=True, idle_s=10 - work, work=work, energy_factor=0.8, slowdown=0.04)
        for work in (3, 6, 9, 5)
    ]

    found = compare([*on, *off], EDP)

    expected = [
        (1 - 0.2 * 300 * work / (300 * work + 100 * (10 - work)), 1 + 0.04 * work / 10)
        for work in (3, 6, 9, 5)
    ]
    energy = energy_time = 1.0
    for e, t in expected:
        energy, energy_time = energy * e, energy_time * e * t
    assert found.energy.value == pytest.approx(energy ** (1 / 4) - 1)
    assert found.cost.value == pytest.approx(energy_time ** (1 / 4) - 1)
    assert (found.num_on, found.num_off, found.unknown_share) == (4, 3, 0.0)


def test_intervals_hold_the_truth_as_often_as_they_say():
    draw, held = random.Random(0), 0
    for _ in range(300):
        blocks = [
            block(
                is_on=number % 4 > 0,
                idle_s=5.0,
                work=5.0,
                energy_factor=0.8 if number % 4 else 1.0,
                scatter=draw.gauss(0.0, 0.03),
            )
            for number in range(24)
        ]
        found = compare(blocks, ENERGY).energy
        held += found.lower <= 1700 / 2000 - 1 <= found.upper

    assert 0.92 <= held / 300 <= 0.99


def test_what_brief_looks_leave_open_is_in_the_interval():
    """Of a chat that was looked at briefly 30.5 % [30.0, 30.9] were told to be saved, of 29.8."""
    blocks = [block(is_on=number % 2 > 0, idle_s=0.0, work=10.0) for number in range(8)]

    found = compare(blocks, ENERGY, BRIEF_U).energy

    assert found.upper == pytest.approx(1.96 * BRIEF_U, rel=0.01)
    assert found.lower == pytest.approx(-1.96 * BRIEF_U, rel=0.01)


def test_a_report_knows_whether_looks_were_brief(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(reporting, "compare", lambda *asked: given.append(asked[2]))
    governor = play(tmp_path, "decode", "model", duration_s=5.0, off_share=0.25).governor
    governor.num_changes = 1
    for governor.looking.were_brief in (False, True):
        report(governor)

    assert given == [COUNTERS_U, BRIEF_U]


def test_reported_progress_is_what_counts_where_there_is_any():
    blocks = []
    for number in range(8):
        one = block(is_on=number % 2 > 0, idle_s=0.0, work=10.0, energy_factor=0.9)
        one.progress = 100.0 if one.is_on else 110.0  # counters show nothing of it
        one.num_reports = 50
        blocks.append(one)

    found = compare(blocks, ENERGY)

    assert found.by_progress
    assert found.time.value == pytest.approx(0.1)


def test_progress_that_comes_more_rarely_than_blocks_gives_no_number():
    """Work of 15 s a unit that took 20 % longer was reported as slower by 0.0 % [0.0, 0.0].

    A block of 10 s held one unit or none, and those with none were left out.
    """
    blocks, work_s = [], 0.0
    for number in range(60):
        one = block(is_on=number % 4 > 0, idle_s=0.0, work=9.7)
        before_s, work_s = work_s, work_s + 10 / (1.2 if one.is_on else 1.0)
        one.progress = one.num_reports = work_s // 15 - before_s // 15
        blocks.append(one)

    with pytest.raises(MeasurementError, match="smaller units of work, or take longer blocks"):
        compare(blocks, ENERGY)


def test_too_few_blocks_give_no_number():
    blocks = [block(is_on=number > 1, idle_s=5.0, work=5.0) for number in range(9)]

    with pytest.raises(MeasurementError, match="got 7 and 2; run longer"):
        compare(blocks, EDP)


def test_spoilt_blocks_do_not_count():
    blocks = [block(is_on=number > 2, idle_s=5.0, work=5.0) for number in range(9)]
    blocks[0].spoilt = "another process came"

    with pytest.raises(MeasurementError, match="got 6 and 2"):
        compare(blocks, EDP)


def test_in_each_round_one_block_is_left_to_the_driver():
    schedule = Schedule(0.0, block_s=10.0, off_share=0.25, seed=3)
    schedule.block(399.0)

    rounds = [schedule.blocks[k : k + 4] for k in range(0, 40, 4)]
    places = {[each.is_on for each in one].index(False) for one in rounds}
    assert all(sum(not each.is_on for each in one) == 1 for one in rounds)
    assert places == {0, 1, 2, 3}


@pytest.mark.parametrize(("gpu", "load"), [("h200_sxm", "serving"), ("a100_sxm", "training")])
def test_the_slowdown_that_is_inferred_is_that_of_the_simulator(tmp_path, gpu, load):
    alone = play(tmp_path, load, gpu=gpu, duration_s=600.0)
    governed = play(tmp_path, load, "model", gpu=gpu, duration_s=600.0, off_share=0.25)

    found = report(governed.governor).comparison

    blocks = governed.governor.schedule.blocks
    true = governed.slowdown(alone) / (sum(each.is_on for each in blocks) / len(blocks))
    assert found.time.lower - 0.002 <= true <= found.time.upper + 0.002


def test_a_run_without_blocks_to_compare_with_reports_no_saving(tmp_path):
    governed = play(tmp_path, "decode", "model", duration_s=30.0, off_share=0.0)

    found = report(governed.governor)

    assert found.comparison is None
    assert "nothing to compare with" in found.reason
    assert [phase.name for phase in found.phases] == ["decode 1"]
