"""Which cells of a matrix are still to be measured."""

import pytest
from synthetic_results import measurement

from joulelab.core.measurement import Finding
from joulelab.core.trial import Trial
from joulelab.study.schedule import MACHINERY
from joulelab_actors.driver_clocks import rest_of_matrix


def left(*reasons, again=False):
    """Return how many of one trial are left once it has ended for ``reasons``."""
    known = measurement(1000, findings=[Finding(reason=each, detail="") for each in reasons])
    trial = Trial(study="s", name=known.trial, configuration=known.configuration)
    return len(rest_of_matrix([trial], [known], again=again))


def test_what_was_measured_is_over():
    assert left() == left(again=True) == 0


@pytest.mark.parametrize("reason", sorted(MACHINERY))
def test_what_only_the_machinery_failed_at_was_not_tried(reason):
    assert left(reason) == left(reason, "throttled") == 1


@pytest.mark.parametrize(("reason", "expected"), [("throttled", 1), ("unsupported", 0)])
def test_what_failed_is_tried_again_if_asked_unless_it_cannot_run(reason, expected):
    assert left(reason) == 0
    assert left(reason, again=True) == expected
