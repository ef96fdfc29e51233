"""What the user of a search sees while it runs."""

from io import StringIO

import pytest
from rich.console import Console
from search_surfaces import problem_on, small_space

from joulelab.searching.base import Figures, Outcome
from joulelab.searching.constraints import Constraint
from joulelab.study.budget import Budget
from joulelab.study.events import StudyStarted
from joulelab.study.search_progress import SearchProgress

SPACE = small_space()


def outcome(place, energy_j, time_s=1.0):
    figures = Figures(
        energy_j=energy_j,
        energy_u_j=0.0,
        time_s=time_s,
        time_u_s=0.0,
        power_w=energy_j / time_s,
        board="GPU-1",
    )
    return Outcome(candidate=SPACE[place], figures=figures)


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def show():
    """Follow a search whose trials take 30 s and 100 J each; returns progress and its text."""

    def run(outcomes, *, budget=None, recalled=0, constraints=()):
        clock, console = Clock(), Console(file=StringIO(), width=60)
        budget = budget or Budget()
        problem = problem_on(SPACE, "energy", constraints)
        progress = SearchProgress(problem, budget, console, clock=clock)
        told = [progress.follow(each, 100.0 * n) for n, each in enumerate(outcomes[:recalled], 1)]
        progress(StudyStarted(num_trials=None, num_skipped=recalled, uuids=("a", "b")))
        for number, each in enumerate(outcomes[recalled:], recalled + 1):
            clock.now_s += 30.0
            told.append(progress.follow(each, 100.0 * number))
        return progress, console.file.getvalue(), told

    return run


TEN = [outcome(0, 2.0), outcome(1, 1.5), *(outcome(2, 1.8) for _ in range(8))]


def test_the_line_says_trials_best_energy_and_time_left(show):
    progress, _, _ = show(TEN, budget=Budget(num_trials=30))

    assert progress.line == (
        "10 of 30 trials, best 1410 MHz, batch 1: -25.0 % energy, 1 kJ, about 10 min left"
    )


def test_a_log_gets_a_line_at_every_tenth_of_the_budget_and_none_is_folded(show):
    _, text, _ = show(TEN, budget=Budget(num_trials=30))

    lines = text.splitlines()
    assert lines[0] == (
        f"Searching {len(SPACE)} configurations of vit for the lowest energy on 2 GPUs, within 30 "
        "trials"
    )
    assert [line.partition(",")[0] for line in lines[1:]] == [
        "3 of 30 trials",
        "6 of 30 trials",
        "9 of 30 trials",
    ]


def test_without_a_budget_a_log_gets_a_line_every_ten_trials_and_no_time_left(show):
    progress, text, _ = show(TEN)

    assert len(text.splitlines()) == 2
    assert "left" not in progress.line


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        (Budget(energy_j=1500.0), "about 2 min left"),
        (Budget(wall_s=380.0), "about 80 s left"),
        (Budget(num_trials=30, wall_s=360.0), "about 60 s left"),
    ],
)
def test_the_time_left_is_that_to_the_nearest_bound(show, budget, left):
    progress, _, _ = show(TEN, budget=budget)

    assert progress.line.endswith(left)


def test_a_search_that_goes_on_counts_what_was_done_and_repeats_none_of_it(show):
    progress, text, told = show(TEN, budget=Budget(num_trials=30), recalled=9)

    assert "going on after 9 trials" in text.splitlines()[0]
    assert len(text.splitlines()) == 1
    assert progress.line.startswith("10 of 30 trials, best 1410 MHz")
    assert [point.step for point in told] == list(range(1, 11))


def test_as_long_as_nothing_keeps_to_the_constraints_the_line_says_so(show):
    limit = Constraint(quantity="power_w", bound=1.0)

    progress, _, _ = show(TEN, constraints=[limit])

    assert "nothing yet that keeps to the constraints" in progress.line


def test_a_tenth_of_the_baseline_or_less_is_told_as_what_is_left(show):
    progress, _, _ = show([outcome(0, 2.0), outcome(1, 0.01)])

    assert "best 1410 MHz, batch 1: 0.5 % of the baseline's energy" in progress.line


def test_a_capped_trial_is_followed_without_a_figure(show):
    held = Outcome(candidate=SPACE[1], reason="power_capped: held", capped=True)

    _, _, told = show([outcome(0, 2.0), held])

    values = dict(told[-1].values)
    assert values["num_capped"] == 1
    assert "trial_cost_ratio" not in values
