"""Programs that say themselves what their outputs are worth."""

import re

import numpy as np
import pytest
import torch
from simulated_lab import Toy

from joulelab.errors import ConfigError, DeviceError, UnknownNameError
from joulelab.quality import SUBJECTS
from joulelab.quality.own import OwnLossSubject, OwnSubject, own_scores
from joulelab.quality.subject import ScoreCache
from joulelab.searching.scores import score_space, scored_axes
from joulelab.searching.space import SearchSpace
from joulelab.workloads import WORKLOADS
from joulelab.workloads.program import workload_type

NUM = 64
LOSSES = {"fp32": 1.0, "bf16": 1.25, "fp8": 2.0}


class Net:
    """Gets fewer examples right in narrower formats."""

    made, closed = 0, 0

    def __init__(self, precision: str = "fp32", batch: int = 1):
        type(self).made += 1
        self.right = {"fp32": 64, "bf16": 48, "fp8": 32}[precision]

    def __call__(self):
        raise AssertionError("scoring runs no program")

    def quality(self):
        return np.arange(NUM) < self.right

    def close(self):
        type(self).closed += 1


@pytest.fixture
def scores():
    """Return what scores a program over its precisions."""
    named = []

    def scored(target, axes=None, cache=None, **told):
        named.append(f"tested.program{len(named)}")
        WORKLOADS.programs.hold(named[-1], workload_type(target, **told))
        return score_space(
            SearchSpace(named[-1], axes or {"precision": tuple(LOSSES)}), cache=cache
        )

    return scored


def by_precision(found):
    return {dict(cell)["precision"]: kept for cell, kept in found.kept.items()}


def test_a_score_for_each_example_gives_a_retention_with_an_interval(scores):
    kept = by_precision(scores(Net))

    assert {name: each.retention for name, each in kept.items()} == {
        "fp32": 1.0,
        "bf16": 0.75,
        "fp8": 0.5,
    }
    assert kept["fp32"].u is None  # the baseline is what it is
    binomial_u = (0.75 * 0.25 / NUM) ** 0.5
    assert kept["bf16"].u == pytest.approx(binomial_u, rel=0.25)


def test_the_object_is_made_for_each_configuration_and_closed(scores):
    Net.made = Net.closed = 0

    scores(Net)

    assert (Net.made, Net.closed) == (3, 3)


def test_every_combination_of_knobs_is_scored_apart_unless_some_change_no_output(scores):
    axes = {"precision": ("fp32", "bf16"), "batch": (1, 8, 64)}
    Net.made = 0
    apart = scores(Net, axes)
    num_apart, Net.made = Net.made, 0

    together = scores(type("Known", (Net,), {"quality_knobs": ("precision",)}), axes)

    assert num_apart == 6
    assert len({kept.outputs for kept in apart.kept.values()}) == 6
    assert len({kept.outputs for kept in together.kept.values()}) == 2
    assert {c: k.retention for c, k in together.kept.items()} == {
        c: k.retention for c, k in apart.kept.items()
    }


def test_one_number_has_a_retention_without_an_interval_which_is_said(scores):
    def program(precision: str = "fp32"):
        pass

    program.quality = lambda precision: 2.0 / LOSSES[precision]

    found = scores(program)

    kept = by_precision(found)
    assert (kept["bf16"].retention, kept["bf16"].u) == (pytest.approx(0.8), None)
    assert "a score for each example would give one" in next(iter(found.notes.values()))


def test_less_is_better_where_the_program_says_so(scores):
    def program(precision: str = "fp32"):
        pass

    def losses(precision):
        return [LOSSES[precision] * (1 + number / NUM) for number in range(NUM)]

    program.quality, program.quality_direction = losses, "lower"
    own = scores(program)
    given = scores(lambda precision="fp32": None, quality=losses, quality_direction="lower")

    assert own.metric == given.metric == "own_loss"
    assert by_precision(own) == by_precision(given)
    assert by_precision(own)["fp8"].retention == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ([1.0, float("nan"), 1.0], "must be finite, got nan for example 2 of 3"),
        (float("inf"), r"must be finite, got inf\."),
        ([], "must be a number for each example, got none"),
        (None, "must be one number, or a number for each example, got None"),
        ([[1.0, 2.0]], r"a number for each example, got \[\[1.0, 2.0\]\]"),
        ({"accuracy": 0.9}, "a number for each example, got {'accuracy'"),
        ("good", "a number for each example, got good"),
        ([1.0] * 5, "returned 5 scores here, and 64 scores for the reference"),
        (0.9, "returned one number here, and 64 scores for the reference"),
        (-np.ones(NUM), "A score must be at least 0 to be a share"),
    ],
)
def test_what_is_no_score_leaves_its_configuration_out_and_says_why(scores, wrong, complaint):
    class Wrong(Net):
        def quality(self):
            return super().quality() if self.right == NUM else wrong

    axes = {"precision": ("fp32", "bf16"), "batch": (1, 2)}
    found = scores(Wrong, axes)

    assert {dict(cell)["precision"] for cell in found.kept} == {"fp32"}
    [reason] = set(found.reasons.values())
    assert re.search(complaint, reason)


@pytest.mark.parametrize("wrong", [float("nan"), [], None, -1.0, 0.0])
def test_without_a_score_of_the_baseline_there_is_nothing_to_search(scores, wrong):
    with pytest.raises(ConfigError, match="The reference has no score"):
        scores(type("Wrong", (Net,), {"quality": lambda self: wrong}))


def test_nothing_else_is_scored_once_the_baseline_has_failed(scores):
    failing = type("Failing", (Net,), {"made": 0, "quality": lambda self: [][0]})

    with pytest.raises(ConfigError, match="IndexError"):
        scores(failing)

    assert failing.made == 1


def test_a_failure_of_the_program_is_told_with_its_place_and_its_words(scores):
    class Failing(Net):
        def quality(self):
            if self.right < NUM:
                raise ZeroDivisionError("no examples")
            return super().quality()

    found = scores(Failing)

    assert all(
        "The quality of Failing failed (test_own_quality.py, line " in reason
        and "ZeroDivisionError: no examples" in reason
        for reason in found.reasons.values()
    )
    assert len(found.reasons) == 2


def test_what_a_device_refuses_is_told_in_its_own_words(scores):
    class Refused(Net):
        def quality(self):
            if self.right < NUM:
                raise DeviceError("It lacks fp8.")
            return super().quality()

    assert set(scores(Refused).reasons.values()) == {"It lacks fp8."}


def test_formats_that_fail_are_left_out_of_the_search():
    WORKLOADS.programs.hold("tested.narrow", workload_type(Net))
    made = SearchSpace("tested.narrow", {"precision": ("fp32", "fp4"), "sm_clock_mhz": (990,)})

    found = score_space(made)

    assert scored_axes(made, found) == {"precision": ("fp32",), "sm_clock_mhz": (990,)}
    assert "KeyError: 'fp4'" in next(iter(found.reasons.values()))


def test_scores_are_kept_only_where_it_is_said_and_never_for_other_studies(tmp_path):
    said = iter([64.0, 32.0, 48.0, 24.0, 10.0, 10.0])

    class Changing(Net):
        """Reads weights that change from study to study."""

        def quality(self):
            return next(said)

    axes = {"precision": ("fp32", "bf16")}
    WORKLOADS.programs.hold("tested.changing", workload_type(Changing))
    space = SearchSpace("tested.changing", axes)

    score_space(space)
    first = score_space(space, cache=ScoreCache(tmp_path))
    again = score_space(space, cache=ScoreCache(tmp_path))

    assert first == again
    assert list(said) == [10.0, 10.0]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (torch.tensor([0.5, 1.0], requires_grad=True), (0.5, 1.0)),
        (torch.tensor(0.5), 0.5),
        ([torch.tensor(0.5), np.float32(1)], (0.5, 1.0)),
        (np.float64(0.5), 0.5),
        ((each / 2 for each in (1, 2)), (0.5, 1.0)),
        ([True, False], (1.0, 0.0)),
        (1, 1.0),
    ],
)
def test_arrays_tensors_and_generators_are_taken_for_what_they_hold(said, found):
    kind = workload_type(lambda: None, quality=lambda: said)

    assert own_scores(kind.from_knobs({})) == found


def test_a_workload_of_several_phases_says_its_quality_by_a_method(scores):
    class Scored(Toy):
        quality_direction = "lower"

        def quality(self):
            return [self.settings.size / 4096] * NUM

    found = scores(Scored, {"size": (4096, 8192)})

    assert found.metric == "own_loss"
    assert sorted(each.retention for each in found.kept.values()) == [0.5, 1.0]


def test_subjects_know_programs_and_say_what_one_without_a_quality_lacks():
    WORKLOADS.programs.hold("tested.scored", workload_type(Net))
    WORKLOADS.programs.hold("tested.bare", workload_type(lambda: None))
    losing = type("Losing", (Net,), {"quality_direction": "lower"})
    WORKLOADS.programs.hold("tested.losing", workload_type(losing))

    assert SUBJECTS["tested.scored"] is OwnSubject
    assert SUBJECTS["tested.losing"] is OwnLossSubject
    assert "tested.scored" in SUBJECTS
    assert "tested.bare" not in SUBJECTS
    with pytest.raises(ConfigError, match=r"a method quality\(self\), or the function"):
        SUBJECTS["tested.bare"]
    with pytest.raises(ConfigError, match="knows its own examples alone"):
        SUBJECTS["tested.scored"].read_data("folder")


@pytest.mark.parametrize(
    ("wrong", "error", "complaint"),
    [
        ({"quality_direction": "up"}, ConfigError, "'higher' or 'lower', the better one, got 'up'"),
        ({"quality_knobs": ("precison",)}, UnknownNameError, "Did you mean 'precision'"),
    ],
)
def test_what_is_told_of_a_quality_is_checked(scores, wrong, error, complaint):
    with pytest.raises(error, match=complaint):
        scores(type("Told", (Net,), wrong))
