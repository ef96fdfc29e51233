"""Boards that differ at one configuration and not at another."""

import numpy as np
import pytest

from joulelab.core.additive import fit_additive
from joulelab.core.interaction import fit_on_boards
from joulelab.core.lines import scatter_of, with_scatter

NUM_BOARDS = 4


def fit(rows, *, of=fit_on_boards, u=1e-5, **options):
    configurations, boards, logarithms = zip(*rows, strict=True)
    return of(configurations, boards, logarithms, [u] * len(rows), **options)


def sweep_rows(seed, *, repeats=1, num_twice=0, num_clocks=20):
    """Boards that a cap holds differ by some 3 % at the default, and at no clock that holds."""
    rng = np.random.default_rng(seed)
    capped = rng.normal(0, 0.03, NUM_BOARDS)
    on = [("default", board) for board in [*range(NUM_BOARDS), *rng.integers(NUM_BOARDS, size=6)]]
    clocks = [str(i) for i in range(num_clocks)]
    on += [(clock, rng.integers(NUM_BOARDS)) for clock in clocks * repeats + clocks[:num_twice]]
    noise = rng.normal(0, 1e-4, len(on))
    rows = [
        (name, f"b{board}", capped[board] * (name == "default") + error)
        for (name, board), error in zip(on, noise, strict=True)
    ]
    return rows, float(np.exp(-capped.mean()))


def coverage(num_twice=0, num_clocks=20):
    held = []
    for seed in range(60):
        rows, truth = sweep_rows(seed, num_twice=num_twice, num_clocks=num_clocks)
        found = fit(rows)
        if found.is_open:
            line = [(str(i), float(i)) for i in range(num_clocks)]
            found = with_scatter(found, scatter_of(found, [line]))
        held += [not found.ratio(str(i), "default").excludes(truth) for i in range(num_clocks)]
    return np.mean(held)


def test_repeats_of_the_default_alone_do_not_say_how_boards_differ_at_a_clock():
    """Every interval of a sweep with one repeat missed: it held the scatter of one board alone."""
    rows, truth = sweep_rows(0)

    found = fit(rows)

    assert fit(rows, of=fit_additive).ratio("3", "default").excludes(truth)
    assert (found.is_open, found.dof, found.residual_sd) == (True, 0, None)
    assert found.ratio("3", "default").high == np.inf


@pytest.mark.parametrize("num_twice", [0, 2, 5], ids=["once", "a few twice", "a quarter twice"])
def test_intervals_of_sweeps_with_few_repeats_hold_the_truth(num_twice):
    assert coverage(num_twice) >= 0.93


def test_on_one_board_nothing_changes():
    rows = [("a", "x", 0.0), ("a", "x", 0.1), ("b", "x", 0.2)]

    found, plain = fit(rows), fit(rows, of=fit_additive)

    assert (found.dof, found.residual_sd) == (plain.dof, plain.residual_sd)
    assert found.ratio("b", "a") == plain.ratio("b", "a")


def test_repeats_on_one_board_do_not_hide_how_boards_differ_where_there_is_no_line():
    """Of five clocks by two repeats on four boards 85 % of the intervals held the truth."""
    held = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        apart = rng.normal(0, 0.01, (5, NUM_BOARDS))
        on = [(0, board) for board in [*range(NUM_BOARDS), *rng.integers(NUM_BOARDS, size=12)]]
        on += [(i, rng.integers(NUM_BOARDS)) for i in range(1, 5) for _ in range(4)]
        rows = [(str(i), f"b{b}", apart[i, b] + rng.normal(0, 1e-4)) for i, b in on]
        found = fit(rows)
        truth = np.exp(apart.mean(1) - apart[0].mean())
        held += [not found.ratio(str(i), "0").excludes(truth[i]) for i in range(1, 5)]

    assert np.mean(held) >= 0.93


def test_repeats_on_one_board_are_averaged_where_few_clocks_tell():
    rows = [("d", "x", 0.0), ("d", "x", 0.2), ("d", "y", 0.3), ("a", "x", 1.0), ("a", "y", 1.4)]
    rows += [(name, "x", 2.0) for name in "efghi"]

    found = fit(rows, u=0.1)

    # Means of cells: d 0.1 and 0.3, a 1.0 and 1.4; boards differ by 0.2 and by 0.4.
    assert found.dof == 1
    assert found.residual_sd == pytest.approx(0.1)
    assert np.diff(found.estimate[:2]) == pytest.approx([1.0])


def fleet_rows(seed, *, repeats, num_boards=NUM_BOARDS, num_clocks=48, noise=1e-3):
    """Boards that a cap holds at the default, and that differ by 3 % more at one end of a line."""
    rng = np.random.default_rng(seed)
    capped, factor, change = rng.normal(0, 0.03, (3, num_boards))
    places = np.log(np.linspace(400, 1400, num_clocks))
    on = [(None, board) for board in [*range(num_boards), *rng.integers(num_boards, size=6)]]
    on += [(i, rng.integers(num_boards)) for i in range(num_clocks) for _ in range(repeats)]

    def value(i, board):
        if i is None:
            return capped[board]
        return (places[i] - 6.5) ** 2 + factor[board] + change[board] * (places[i] - 6.5)

    truth = [
        np.mean([value(i, b) - value(None, b) for b in range(num_boards)])
        for i in range(num_clocks)
    ]
    rows = [
        ("default" if i is None else str(i), f"b{b}", value(i, b) + rng.normal(0, noise))
        for i, b in on
    ]
    return rows, truth, [[(str(i), place) for i, place in enumerate(places)]]


@pytest.mark.parametrize("num_boards", [2, 4, 8])
@pytest.mark.parametrize("repeats", [1, 3])
def test_boards_differ_along_a_line_as_they_do_there_and_not_as_at_the_default(repeats, num_boards):
    """Boards had the default's factor at every clock: times of capped fleets were 7 % off."""
    held, widths = [], []
    for seed in range(25):
        rows, truth, lines = fleet_rows(seed, repeats=repeats, num_boards=num_boards)
        found = fit(rows, lines=lines)
        ratios = [found.ratio(str(i), "default") for i in range(len(truth))]
        held += [not r.excludes(np.exp(t)) for r, t in zip(ratios, truth, strict=True)]
        widths += [r.half_width / r.value for r in ratios]

    assert np.mean(held) >= 0.93
    assert np.median(widths) < 0.004


def test_estimates_along_a_line_are_exact_without_noise_and_keep_their_order():
    rows, truth, lines = fleet_rows(3, repeats=3, noise=0.0)

    found = fit(rows, lines=lines, u=0.0)

    assert found.configurations == tuple(dict.fromkeys(name for name, *_ in rows))
    estimate = dict(zip(found.configurations, found.estimate - found.estimate[0], strict=True))
    assert [estimate[str(i)] for i in range(len(truth))] == pytest.approx(truth, abs=1e-9)
    assert not found.is_smoothed


def test_a_default_that_scatters_more_than_the_clocks_counts_by_its_own_scatter():
    """The dithering of a cap was averaged away over clocks that a lock holds: 92 % for 95."""
    rows, _, lines = fleet_rows(0, repeats=3, noise=1e-6)
    wild = [(c, b, y + (c == "default") * 0.01 * (-1) ** i) for i, (c, b, y) in enumerate(rows)]

    found = fit(wild, lines=lines)

    assert found.relative_u("default") > 0.002
    assert found.relative_u("7") < 1e-4


def test_too_few_clocks_for_factors_of_their_own_are_fitted_as_without_a_line():
    rows, _, lines = fleet_rows(0, repeats=1, num_clocks=5)

    assert fit(rows, lines=lines).is_open
