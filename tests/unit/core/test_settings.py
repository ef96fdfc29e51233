"""Whether what is in force is what was asked for."""

import pytest

from joulelab.core.settings import same_limit


@pytest.mark.parametrize(
    ("one_w", "other_w", "same"),
    [(300.0, 300.5, True), (300.5, 300.0, True), (300.0, 300.6, False), (300.6, 300.0, False)],
)
def test_limits_are_one_within_what_drivers_round(one_w, other_w, same):
    assert same_limit(one_w, other_w) is same


def test_a_limit_that_is_not_known_contradicts_none():
    assert same_limit(None, 300.0)
    assert same_limit(300.0, None)
    assert same_limit(None, None)
