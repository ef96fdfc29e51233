"""Traces of programs, kept for the next attribution."""

import pytest

from joulelab.attribution import traced
from joulelab.attribution.traced import traced_program
from joulelab.errors import ConfigError
from joulelab.workloads import WORKLOADS
from joulelab.workloads.digits import DigitsVit

SET = {"batch": 3}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def traces(monkeypatch):
    """Count what is traced."""
    found, trace = [], traced._traced
    monkeypatch.setattr(traced, "_traced", lambda each: found.append(each) or trace(each))
    return found


def test_a_program_is_traced_once_for_what_it_is_set_to(traces):
    first = traced_program(WORKLOADS["digits-vit"].from_knobs(SET))
    again = traced_program(WORKLOADS["digits-vit"].from_knobs(SET))
    larger = traced_program(WORKLOADS["digits-vit"].from_knobs({"batch": 6}))

    assert len(traces) == 2
    assert again == first == traced._traced(WORKLOADS["digits-vit"].from_knobs(SET))
    assert larger != first


def test_code_of_others_is_traced_anew(traces):
    class Theirs(DigitsVit):
        """A plug-in; what it imports may change unseen."""

    for _ in range(2):
        traced_program(Theirs.from_knobs(SET))

    assert len(traces) == 2


def test_what_is_no_network_is_refused_each_time(traces):
    for _ in range(2):
        with pytest.raises(ConfigError, match="got Idle"):
            traced_program(WORKLOADS["idle"].from_knobs({}))

    assert len(traces) == 2
