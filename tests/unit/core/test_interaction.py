"""Boards that differ at one configuration and not at another."""

import numpy as np
import pytest

from joulelab.core.additive import fit_additive
from joulelab.core.comparison import scatter_of, with_scatter
from joulelab.core.interaction import fit_on_boards

NUM_BOARDS = 4


def fit(rows, *, of=fit_on_boards, u=1e-5):
    configurations, boards, logarithms = zip(*rows, strict=True)
    return of(configurations, boards, logarithms, [u] * len(rows))


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


def test_where_clocks_were_repeated_and_on_one_board_nothing_changes():
    rows, _ = sweep_rows(0, repeats=3)
    alone = [("a", "x", 0.0), ("a", "x", 0.1), ("b", "x", 0.2)]

    for each in (rows, alone):
        found, plain = fit(each), fit(each, of=fit_additive)
        assert (found.dof, found.residual_sd) == (plain.dof, plain.residual_sd)
        assert found.ratio(each[-1][0], each[0][0]) == plain.ratio(each[-1][0], each[0][0])


def test_repeats_on_one_board_are_averaged_where_few_clocks_tell():
    rows = [("d", "x", 0.0), ("d", "x", 0.2), ("d", "y", 0.3), ("a", "x", 1.0), ("a", "y", 1.4)]
    rows += [(name, "x", 2.0) for name in "efghi"]

    found = fit(rows, u=0.1)

    # Means of cells: d 0.1 and 0.3, a 1.0 and 1.4; boards differ by 0.2 and by 0.4.
    assert found.dof == 1
    assert found.residual_sd == pytest.approx(0.1)
    assert np.diff(found.estimate[:2]) == pytest.approx([1.0])
