"""Boards of a fleet with planted differences, and what is found of them."""

import json
from dataclasses import replace
from io import StringIO
from math import exp, log
from random import Random
from statistics import stdev

import numpy as np
import pytest
from rich.console import Console
from synthetic_results import measurement, power_w, sweep, time_s

from joulelab.analysis.fleet import _Effects, _outliers, _spread, fleets_of
from joulelab.analysis.many_studies_plot import save_fleet_plot
from joulelab.cli.main import main
from joulelab.cli.many_studies import fleet_table
from joulelab.core.record import Record
from joulelab.errors import MeasurementError
from joulelab.tracking.store import ResultStore

CLOCKS_MHZ = tuple(range(800, 2001, 50))
NUM_BOARDS = 8


def fleet(**changes):
    plan = {"repeats": 3, "num_boards": NUM_BOARDS} | changes
    [found] = fleets_of(sweep(CLOCKS_MHZ, **plan))
    return found


def aspect(fleet, name):
    [found] = [each for each in fleet.aspects if each.name == name]
    return found


def gains(seed, board_spread=0.03):
    """Logarithms by which the boards of :func:`synthetic_results.visits` differ."""
    random = Random(seed)
    found = [random.gauss(0, board_spread) for _ in range(NUM_BOARDS)]
    return {f"SIM-invented-{i}": each - sum(found) / NUM_BOARDS for i, each in enumerate(found)}


def changed(measured, factor):
    """A measurement whose energies are ``factor`` times as high."""
    windows = [replace(each, energy_j=factor * each.energy_j) for each in measured.windows]
    return replace(measured, windows=tuple(windows))


def test_what_boards_differ_by_is_found_within_its_intervals():
    held = total = spread_held = 0
    for seed in range(20):
        found, planted = aspect(fleet(seed=seed), "energy"), gains(seed)
        for each in found.boards:
            held += each.ratio.low <= exp(planted[each.uuid]) <= each.ratio.high
            total += 1
        spread_held += found.spread.low <= 0.03 <= found.spread.high
        assert found.spread.value == pytest.approx(stdev(planted.values()), rel=0.2)

    assert total == 20 * NUM_BOARDS
    assert 0.88 <= held / total <= 0.99
    assert spread_held >= 17


def test_boards_that_are_alike_have_no_spread_and_no_outlier():
    found = [aspect(fleet(seed=seed, board_spread=0.0), "energy") for seed in range(20)]

    assert sum(each.spread.low == 0.0 for each in found) >= 17
    assert sum(any(board.is_outlier for board in each.boards) for each in found) <= 3
    assert max(each.spread.value for each in found) < 0.003


@pytest.mark.parametrize(("num_boards", "num_configurations"), [(2, 1), (2, 20), (4, 1), (8, 20)])
def test_equal_boards_differ_by_zero_in_nineteen_of_twenty_fleets(num_boards, num_configurations):
    """Of two equal boards 11 to 29 % were said to differ by more than their measurements scatter.

    A board lies closer to the mean that holds it than its own uncertainty says, and two repeats
    hardly tell how much they scatter.
    """
    random, shown = np.random.default_rng(0), 0
    for _ in range(300):
        y = random.normal(0, 0.002, (num_configurations, num_boards, 2))
        theta = y.mean((0, 2)) - y.mean()
        dof = y.size - num_configurations - num_boards + 1
        missed = y - y.mean((1, 2), keepdims=True) - theta[:, None]
        variance = np.sum(missed**2) / dof / num_configurations / 2 * (1 - 1 / num_boards)
        u = np.full(num_boards, variance**0.5)
        names = tuple(map(str, range(num_boards)))
        shown += _spread(_Effects(uuids=names, theta=theta, u=u, dof=dof)).low > 0.0

    assert shown / 300 < 0.05


def test_boards_that_nothing_ties_to_the_others_are_in_no_aspect():
    """The table of a fleet failed at the best clock of boards that had a program of their own."""
    measured = sweep(CLOCKS_MHZ, repeats=3, num_boards=NUM_BOARDS)
    apart = [
        replace(
            m,
            device=replace(m.device, uuid=f"apart-{m.device.uuid}"),
            configuration=replace(m.configuration, workload="bert"),
        )
        for m in sweep(CLOCKS_MHZ, repeats=2, num_boards=2)
    ]

    [found] = fleets_of([*measured, *apart])

    known = {each.uuid for each in found.boards}
    assert len(known) == NUM_BOARDS
    assert all(board.uuid in known for each in found.aspects for board in each.boards)


def test_real_boards_are_not_compared_with_simulated_ones_of_their_name():
    """In a folder that held a first try on simulated boards they were one fleet."""
    simulated = sweep(CLOCKS_MHZ, num_boards=2)
    real = [
        replace(
            changed(each, 1.2),
            device=replace(each.device, backend="nvml", uuid=f"GPU-{each.device.uuid}"),
        )
        for each in simulated
    ]

    found = fleets_of([*simulated, *real])

    assert [{board.backend for board in each.boards} for each in found] == [{"simulated"}, {"nvml"}]
    spreads = [aspect(each, "energy").spread.value for each in found]
    assert spreads[0] == pytest.approx(spreads[1], rel=1e-6)


def test_a_board_that_is_unlike_the_others_is_named_and_no_other():
    measured = sweep(CLOCKS_MHZ, repeats=3, num_boards=NUM_BOARDS, seed=4, board_spread=0.01)
    planted = [changed(m, 1.15) if m.device.uuid.endswith("-5") else m for m in measured]

    [found] = fleets_of(planted)

    energy = aspect(found, "energy")
    assert [each.uuid for each in energy.boards if each.is_outlier] == ["SIM-invented-5"]
    assert not any(each.is_outlier for each in aspect(found, "time").boards)


def test_no_board_is_unlike_others_that_lie_closer_together_than_they_are_known():
    """One was at +1.3 % with an interval of 1.5, where the others lay at -0.4, -0.4 and -0.5."""
    theta, u = np.array([0.013, -0.004, -0.004, -0.005]), np.full(4, 0.007)

    assert not any(_outliers(_Effects(uuids=tuple("abcd"), theta=theta, u=u, dof=40)))
    sure = _Effects(uuids=tuple("abcd"), theta=theta, u=u / 20, dof=40)
    assert _outliers(sure) == [True, False, False, False]


def test_a_board_whose_energy_rises_faster_with_the_clock_has_a_lower_best_clock():
    measured = sweep(CLOCKS_MHZ, repeats=8, num_boards=4, seed=1, noise=0.002)
    steep = [
        changed(m, ((m.configuration.point.sm_clock_mhz or 2000) / 1500) ** 0.2)
        if m.device.uuid.endswith("-2")
        else m
        for m in measured
    ]
    fine = range(800, 2001)
    usual = min(fine, key=lambda f: power_w(f) * time_s(f) ** 2)
    lower = min(fine, key=lambda f: power_w(f) * time_s(f) ** 2 * f**0.2)

    [found] = fleets_of(steep)

    best = aspect(found, "best clock")
    ratios = {each.uuid: each.ratio for each in best.boards}
    others = [ratio.value for uuid, ratio in ratios.items() if not uuid.endswith("-2")]
    apart = log(ratios["SIM-invented-2"].value) - sum(map(log, others)) / len(others)
    assert apart == pytest.approx(log(lower / usual), rel=0.15)
    assert lower < best.mean < 1.02 * usual


def test_boards_that_a_cap_holds_are_compared_apart_from_where_they_are_free():
    """A board that its cap slowed by 4 % was 1.1 % slower, with an interval that held neither."""
    late = [1.0, 1.04, 1.0, 1.0]
    rows = [
        measurement(clock, index=i, repeat=r, minute=r, time_factor=1.0 if clock else late[i])
        for clock in (None, 900, 1200)
        for i in range(4)
        for r in range(2)
    ]
    capped = [
        m if m.configuration.point.sm_clock_mhz
        else replace(m, observed=replace(m.observed, power_cap_share=1.0))
        for m in rows
    ]  # fmt: skip

    [found] = fleets_of(capped)

    for name, ratio in (("time", 1.0), ("time at the power cap", 1.04 / 1.04**0.25)):
        [board] = [b for b in aspect(found, name).boards if b.uuid.endswith("-1")]
        assert board.ratio.value == pytest.approx(ratio, abs=1e-9)


def test_only_what_several_boards_measured_is_called_equal_work():
    """A sweep of single repeats was compared by "85 measurements of equal work", 72 on one board.

    Boards that agree to the last digit crashed, too.
    """
    rows = [measurement(None, index=i, repeat=r, minute=r) for i in range(2) for r in range(2)]
    rows += [measurement(clock, index=clock % 4 // 2) for clock in (900, 902, 904)]

    [found] = fleets_of(rows)

    assert (found.num_measurements, found.num_apart) == (4, 0)
    assert [board.num for board in aspect(found, "energy").boards] == [2, 2]


def test_phases_of_a_trial_show_its_rest_once():
    """Idle power of a program of two phases had intervals of 0.000 %: each window counted twice."""
    rows = [
        replace(measurement(None, index=i, repeat=r, phase=phase), trial=f"trial-{i}-{r}")
        for i in range(3)
        for r in range(2)
        for phase in ("prefill", "decode")
    ]
    [found] = fleets_of(rows)
    [once] = fleets_of(
        [m for m in rows if m.repeat == 0] + [m for m in rows if m.phase == "prefill"]
    )

    assert [b.num for b in aspect(found, "idle power").boards] == [2, 2, 2]
    assert "idle power" in {each.name for each in once.aspects}
    single = [replace(m, measurement_id=f"{m.measurement_id}-{i}") for i, m in enumerate(rows)]
    [alone] = fleets_of([m if m.repeat else replace(m, idle=None) for m in single])
    assert "idle power" not in {each.name for each in alone.aspects}


def test_boards_that_share_no_configuration_are_not_compared():
    tied = [measurement(clock, index=i, repeat=r, minute=i + 4 * r) for clock in (900, 1200)
            for i in range(3) for r in range(2)]  # fmt: skip
    alone = [measurement(1500, index=7, minute=99.0)]

    [found] = fleets_of([*tied, *alone])

    assert {board.uuid for board in found.boards} == {f"SIM-invented-{i}" for i in range(3)}
    assert (found.num_measurements, found.num_apart) == (12, 0)


@pytest.mark.parametrize("num_boards", [1, 2])
def test_what_cannot_be_compared_is_refused_with_what_to_do(num_boards):
    once = [measurement(900, index=i, minute=i) for i in range(num_boards)]

    with pytest.raises(MeasurementError, match="joulelab study dvfs --num-gpus 8"):
        fleets_of(once)


def test_a_folder_of_results_is_compared_drawn_and_told_as_json(tmp_path, capsys):
    store = ResultStore(tmp_path / "study")
    for each in sweep(CLOCKS_MHZ[::3], num_boards=4):
        store.append(Record(measurement=each, trace=None))

    assert main(["fleet", str(tmp_path), "--plot", str(tmp_path / "fleet.png")]) == 0
    shown = capsys.readouterr().out
    assert main(["fleet", str(tmp_path), "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)

    assert "Invented GPU, 4 boards" in shown
    assert "boards differ by" in shown
    assert {each["name"] for each in told["aspects"]} >= {"energy", "time", "idle power"}
    assert (tmp_path / "fleet.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_has_a_panel_for_each_aspect(tmp_path):
    found = fleet(num_boards=3)

    text = save_fleet_plot(found, tmp_path / "fleet.svg").read_text()

    for each in found.aspects:
        assert each.name in text


def test_no_figure_of_a_fleet_is_cut_off_where_the_terminal_is_narrow():
    """UUIDs and uncertainties ended in three dots once two programs had been swept."""
    found = fleet()
    wide = replace(found, aspects=found.aspects[:1] * 6)
    console = Console(width=100, file=StringIO())

    console.print(fleet_table(wide))

    said = console.file.getvalue()
    assert "\u2026" not in said
    assert said.count("\u00b1") == 6 * NUM_BOARDS
