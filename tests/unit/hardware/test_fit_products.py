"""Coefficients of products from sweeps: the law by hand, and that held-out sweeps are not seen."""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from reference_data import reference_csv

from joulelab.hardware import GPUS
from joulelab.power_models.decision import Sweep

pytest.importorskip("scipy")  # the core does without
sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from fit_products import fitted, nested, score
from product_sweeps import NAMES, SOURCES, Program, Source, coefficients_of, read

A100 = GPUS["a100_sxm"]
CLOCKS_MHZ = np.arange(510.0, 1411.0, 90.0)


def a_program(name="app", board=None, counters=(0.9, 0.3, 0.0, 0.4), level=1.0):
    """Return a sweep whose power is that of ``board``, and above waiting ``level`` times it."""
    ones = np.ones_like(CLOCKS_MHZ)
    sweep = Sweep(sm_clock_mhz=CLOCKS_MHZ, power_w=ones, time_s=ones)
    rows = np.tile(counters, (len(CLOCKS_MHZ), 1))
    program = Program(name=name, family=name, sweep=sweep, smooth=sweep, counters=rows)
    board = coefficients_of(A100) if board is None else board
    working_w = program.power_w(board, A100.memory_bandwidth_b_per_s)
    waiting_w = replace(program, counters=0.0 * rows).power_w(board, A100.memory_bandwidth_b_per_s)
    sweep = replace(sweep, power_w=waiting_w + level * (working_w - waiting_w))
    return replace(program, sweep=sweep, smooth=sweep)


def test_power_below_the_ridge_is_the_constant_and_what_is_clocked_and_moved():
    board = np.array([1000.0, 0.5, 1.0, 60.0, 10.0, 40.0, 90.0, 100.0, 1e-11, 4e-11])

    power_w = a_program(counters=(0.5, 0.1, 0.2, 0.25)).power_w(board, 2e12)

    clocked = 10.0 + 40.0 * 0.5 + 90.0 * 0.1 + 100.0 * 0.2
    moved_b_per_s = 0.25 * 2e12
    expected_w = 60.0 + 0.6 * clocked + (1e-11 + 4e-11) * moved_b_per_s
    assert power_w[1] == pytest.approx(expected_w)


def test_power_that_counters_do_not_show_is_that_of_the_highest_clock_at_all():
    program = a_program(level=1.6)
    known_w = program.power_w(coefficients_of(A100), A100.memory_bandwidth_b_per_s, is_known=True)

    assert known_w == pytest.approx(program.sweep.power_w)
    assert score(program, coefficients_of(A100), A100).shape == pytest.approx(0.0, abs=1e-9)
    assert score(program, coefficients_of(A100), A100).power > 0.1


def test_a_fit_finds_the_board_that_programs_ran_on():
    planted = coefficients_of(A100) * np.array([1.02, 0.8, 1.3, 1.2, 1.4, 0.9, 1.3, 0.8, 1.2, 1.3])
    mixes = [(0.0, 0, 0, 0), (1, 0, 0, 0), (1, 0.5, 0, 0), (1, 0, 1, 0), (1, 0, 0, 0.9)]
    programs = [a_program(str(n), planted, mix) for n, mix in enumerate(mixes)]

    found = fitted(programs, A100, pull=1e-4)

    curve_and_core = [NAMES.index(name) for name in NAMES if not name.endswith("_j_per_b")]
    assert found[curve_and_core] == pytest.approx(planted[curve_and_core], rel=0.02)


def test_the_fit_for_a_family_does_not_see_its_sweeps():
    programs = [a_program(name) for name in "abc"]
    changed = [*programs[:2], a_program("c", board=1.2 * coefficients_of(A100))]

    before, _ = nested(programs, A100)
    after, _ = nested(changed, A100)

    assert after["c"].board == pytest.approx(before["c"].board)
    assert after["a"].board != pytest.approx(before["a"].board)


def test_cold_runs_and_clocks_that_were_not_held_are_left_out(tmp_path):
    rows = ["gpu,app,run_seq,sm_clock_mhz,power_w,time_s", "A40,x,1,600,99,9"]
    rows += [f"A40,x,{n},{mhz},{mhz / 10 + n},2" for n in (4, 5, 6) for mhz in (900, 600, 1500)]
    (tmp_path / "runs.csv").write_text("\n".join(rows))

    (program,) = read(tmp_path, Source(table="runs.csv", gpu="A40", held_mhz=1000.0))

    assert program.sweep.sm_clock_mhz.tolist() == [600.0, 900.0]
    assert program.sweep.power_w.tolist() == [65.0, 95.0]


def test_the_a100_of_the_catalogue_has_the_shape_and_the_optimum_of_public_sweeps():
    """The goals, which fits met on applications that they had not seen, hold of the shipped one."""
    folder = reference_csv("a100_hpc_dvfs.csv").parent
    programs = [one for source in SOURCES["a100_sxm"] for one in read(folder, source)]

    scores = [score(one, coefficients_of(A100), A100) for one in programs]

    assert len(scores) == 29
    assert fmean(one.shape for one in scores) < 0.04
    assert fmean(one.is_near for one in scores) >= 0.8
