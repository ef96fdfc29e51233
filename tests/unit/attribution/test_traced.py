"""Traces of programs, kept for the next attribution."""

import json

import pytest

from joulelab.attribution import traced
from joulelab.attribution.traced import traced_program
from joulelab.errors import ConfigError
from joulelab.workloads import WORKLOADS
from joulelab.workloads.digits import DigitsVit
from joulelab.workloads.disk_cache import cached_cost

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


def test_a_folder_whose_geometry_has_changed_is_traced_anew(tmp_path):
    geometry = {
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "vocab_size": 64,
    }
    found = []
    for layers in (1, 2):
        text = json.dumps({**geometry, "num_hidden_layers": layers})
        (tmp_path / "config.json").write_text(text)
        workload = WORKLOADS["llama"].from_knobs({"model": str(tmp_path), "batch": 1})
        found.append((traced_program(workload), cached_cost(workload)))

    (one, one_cost), (two, two_cost) = found
    assert len(two[0].program.operators) > 1.5 * len(one[0].program.operators)
    assert two_cost.resident_b > one_cost.resident_b
