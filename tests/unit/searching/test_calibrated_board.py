"""What a search expects of a board that was calibrated."""

from dataclasses import replace
from math import exp

import pytest
from calibrated_by_law import board_like, facts_by_law
from search_surfaces import clock_outcome, problem_on

from joulelab.hardware import GPUS
from joulelab.power_models.board_fit import calibrated_spec
from joulelab.searching.model.parameters import POWER_PER_K, board_prior
from joulelab.searching.space import SearchSpace
from joulelab.searching.strategies.model_guided import ModelGuided

SPEC = GPUS["a100_sxm"]
TOP_MHZ = SPEC.default_clock_mhz
OTHER = board_like("a100_sxm", constant=1.25, ridge=1.08)
FACTS = facts_by_law(OTHER, facts=[("leakage_w_per_k", 0.5)])
SPACE = SearchSpace("gemm", {"sm_clock_mhz": SPEC.study_clocks_mhz})


def problem(facts):
    spec = SPEC if facts is None else calibrated_spec(SPEC, facts)
    return replace(problem_on(SPACE), gpu=spec, calibration=facts)


def test_constants_that_were_measured_are_expected_and_less_open():
    usual = board_prior(SPEC, TOP_MHZ)

    prior = board_prior(calibrated_spec(SPEC, FACTS), TOP_MHZ, FACTS)

    moved = [exp(here - there) for here, there in zip(prior.mean, usual.mean, strict=True)]
    assert moved[0] == pytest.approx(1.25, rel=0.02)
    assert moved[2] == pytest.approx(1.08, rel=0.02)
    assert all(here < there for here, there in zip(prior.sd[:5], usual.sd[:5], strict=True))
    assert prior.sd[5] == usual.sd[5]  # how limits act was not measured


def test_power_grows_by_as_many_watts_a_kelvin_as_were_measured():
    prior = board_prior(SPEC, TOP_MHZ, FACTS)

    assert prior.per_kelvin(250.0)[0] == pytest.approx(0.5 / 250.0)
    assert board_prior(SPEC, TOP_MHZ).per_kelvin(250.0)[0] == POWER_PER_K


def test_an_observers_calibration_leaves_open_what_it_could_not_see():
    seen = facts_by_law(OTHER, num_clocks=0)

    assert board_prior(SPEC, TOP_MHZ, seen) == board_prior(SPEC, TOP_MHZ)
    assert not problem(seen).knows_board


@pytest.mark.parametrize(("facts", "num_probes"), [(None, 2), (FACTS, 1)])
def test_a_calibrated_board_is_probed_at_one_clock_less(facts, num_probes):
    strategy = ModelGuided(problem(facts))
    strategy.tell(clock_outcome(strategy.ask()))
    probed = []
    while (place := strategy._probe(strategy._free())) is not None:
        probed.append(place)
        strategy.tell(clock_outcome(strategy.ask()))

    assert len(probed) == num_probes
