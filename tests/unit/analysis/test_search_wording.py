"""The answer of a search in words, and what it says of the quality before it measures."""

from dataclasses import replace
from math import log

import pytest

from joulelab.analysis.search_wording import score_words, sentence
from joulelab.analysis.wording import constraint_words
from joulelab.hardware.catalogue import GPUS
from joulelab.objectives import OBJECTIVES
from joulelab.searching.answer import answer
from joulelab.searching.base import Figures, Outcome
from joulelab.searching.constraints import Constraint, Miss
from joulelab.searching.evidence import Evidence, Kept, Problem
from joulelab.searching.scores import Scores
from joulelab.searching.space import SearchSpace

SPACE = SearchSpace("vit", {"sm_clock_mhz": (1200, 1100), "precision": ("bf16",)})
QUALITIES = SearchSpace("vit", {"precision": ("fp32", "bf16", "fp8"), "batch": (1, 8)})
H100 = GPUS["h100_sxm"]
SLOWDOWN = Constraint(quantity="slowdown", bound=0.05)
SCATTER = (0.999, 1.001, 1.0)


def evidence(energies_j, lost=(), retention=None, times_s=(1.0, 1.0, 1.0), space=SPACE, **limits):
    """Three repeats of every configuration, all of which take a second unless said otherwise."""
    found = Evidence(Problem(space=space, objective=OBJECTIVES["edp"], **limits))
    for candidate, energy_j, time_s in zip(space, energies_j, times_s, strict=False):
        for scatter in SCATTER:
            figures = Figures(
                energy_j=energy_j * scatter,
                energy_u_j=1e-4,
                time_s=time_s,
                time_u_s=1e-4,
                power_w=energy_j,
                board="a",
                retention=retention,
                retention_u=None if retention is None else 0.001,
            )
            found.add(Outcome(candidate=candidate, figures=figures))
    for outcome in lost:
        found.add(outcome)
    return found


def said(found, *, spent_j=2000.0):
    return sentence(answer(found, spent_j=spent_j), found.problem)


def test_a_saving_is_told_with_its_interval_and_when_it_has_paid():
    words = said(evidence([10.0, 8.0, 9.0]))

    assert words.startswith("Choose 1200 MHz, bf16: -20.0 % ± 0.")
    assert "every other configuration that was measured is worse." in words
    assert words.endswith("2 kJ and pays for itself after 1,000 images.")


def test_what_costs_less_and_may_break_a_constraint_is_not_called_indistinguishable():
    """A format of half the energy, whose slowdown lay at its bound, was one of "2 configurations
    statistically indistinguishable" from the best.
    """
    found = evidence([10.0, 4.0, 9.0], times_s=(1.0, 1.05, 1.0), constraints=(SLOWDOWN,))

    words = said(found)

    assert words.startswith("Choose 1100 MHz, bf16: -10.0 % ± 0.")
    assert "1 configuration that may cost less is not sure to keep to the constraints." in words
    assert "indistinguishable" not in words


def test_what_breaks_a_constraint_is_not_called_worse():
    """It cost 60 % less, and "every other configuration that was measured is worse" was said."""
    found = evidence([10.0, 4.0, 9.0], times_s=(1.0, 1.2, 1.0), constraints=(SLOWDOWN,))

    assert "other configuration that was measured and keeps to the constraints is worse." in said(
        found
    )


def test_a_search_that_has_measured_the_baseline_alone_compares_it_with_nothing():
    """It said that every other configuration that was measured was worse."""
    words = said(evidence([10.0]))

    assert "no other configuration has been measured" in words
    assert "worse" not in words


def test_a_search_that_a_budget_ended_says_that_it_is_not_settled():
    found = evidence([10.0, 8.0, 9.0])

    words = sentence(
        answer(found, spent_j=1.0), found.problem, stopped_by="the budget of 16 trials"
    )

    assert "It was ended by the budget of 16 trials before it was settled" in words
    assert "before it was settled" not in said(found)


def test_no_digit_is_told_that_is_not_known():
    words = said(evidence([10.0, 8.0, 9.0]), spent_j=2469134.0)

    assert "2.47 MJ and pays for itself after 1,230,000 images." in words


def test_the_baseline_is_a_possible_answer():
    words = said(evidence([8.0, 10.0, 9.0]))

    assert words.startswith("Stay with the driver's clock, bf16")
    assert words.endswith("The search took 2 kJ.")


@pytest.mark.parametrize(("energies_j", "is_told"), [((10, 8, 6), True), ((10, 6, 8), False)])
def test_a_choice_at_the_end_of_an_axis_is_told_since_more_may_be_beyond(energies_j, is_told):
    batches = SearchSpace("vit", {"batch": (1, 8, 64)})

    words = said(evidence(energies_j, space=batches))

    assert ("It lies at the end of what was asked for in batch;" in words) == is_told


@pytest.mark.parametrize(
    ("limits_w", "powers_w", "gpu", "is_told"),
    [
        ((300.0, 400.0, 600.0), (400, 360, 350, 340), H100, False),  # 340 W under a limit of 600 W
        ((300.0, 400.0, 500.0), (500, 290, 380, 480), H100, True),
        ((500.0, 600.0, 700.0), (700, 680, 670, 660), H100, False),  # no board has a higher one
        ((500.0, 600.0, 700.0), (700, 680, 670, 660), None, True),
    ],
)
def test_a_limit_at_the_end_is_told_only_if_another_one_would_change_something(
    limits_w, powers_w, gpu, is_told
):
    """Values beyond may be better, a search said of a limit that the power did not reach."""
    space = SearchSpace("vit", {"power_limit_w": limits_w})

    words = said(evidence(powers_w, space=space, gpu=gpu, times_s=(1.0,) * 4))

    assert ("at the end of what was asked for in power_limit_w;" in words) == is_told
    assert " W limit" in words
    assert ".0 W limit" not in words


def test_the_quality_that_is_kept_is_told_where_it_was_evaluated():
    assert "time, quality 99.1 % ± 0.2 % of the reference's;" in said(
        evidence([10.0, 8.0, 9.0], retention=0.991)
    )


def test_what_could_not_be_measured_is_told_since_it_might_have_been_better():
    lost = Outcome(candidate=SPACE[2], reason="throttled: hot")

    words = said(evidence([10.0, 8.0], lost=[lost]))

    assert "1 configuration could not be measured" in words


def test_what_the_power_cap_held_down_is_told_as_that_and_not_as_unmeasured():
    """A search once called clocks above the power cap configurations that it had missed."""
    held = Outcome(candidate=SPACE[2], reason="power_capped: held", capped=True)

    words = said(evidence([10.0, 8.0], lost=[held]))

    assert "could not be measured" not in words
    assert "1 configuration was power-capped" in words


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (SLOWDOWN, "at most 5 % more time than the driver's clock at the same knobs"),
        (replace(SLOWDOWN, against="baseline"), "at most 5 % more time than the baseline"),
        (Constraint(quantity="ttft_s", bound=0.2), "at most 0.2 s to the first token"),
        (Constraint(quantity="throughput_per_s", bound=9), "at least 9 units of work per second"),
        (Constraint(quantity="quality", bound=0.95), "at least 0.95 of the reference's quality"),
        (Constraint(quantity="power_w", bound=350), "at most 350 W"),
        (Constraint(quantity="memory_b", bound=23.5e9), "at most 23.5 GB of device memory"),
    ],
)
def test_constraints_are_told_as_what_they_ask_for(constraint, words):
    assert constraint_words(constraint) == words


def bounded(found, quantity, bound, confidence=0.95):
    limit = Constraint(quantity=quantity, bound=bound)
    strict = Evidence(replace(found.problem, constraints=(limit,), confidence=confidence))
    for outcome in found.outcomes:
        strict.add(outcome)
    return strict


def test_an_answer_that_may_break_a_constraint_says_so():
    words = said(bounded(evidence([10.0, 8.0, 9.0]), "power_w", 8.0001, confidence=0.999))

    assert words.startswith("Choose 1200 MHz")
    assert "it is not sure to keep to every constraint" in words


@pytest.mark.parametrize(
    ("energies_j", "quantity", "bound", "nearest", "miss"),
    [
        ([10.0, 8.0, 9.0], "power_w", 5, "1200 MHz, bf16", "8 W (60 % too much)"),
        (
            [10.0, 8.0, 9.0],
            "power_w",
            5e-3,
            "1200 MHz, bf16",
            "8 W (too much by a factor of 1,600)",
        ),
        ([8.0, 10.0, 9.0], "power_w", 2, "the driver's clock, bf16", "8 W (too much by a factor"),
        (
            [10.0, 8.0, 9.0],
            "throughput_per_s",
            1.25,
            "1100 MHz, bf16",
            "1.111 units of work per second (11 % too little)",
        ),
    ],
)
def test_where_nothing_keeps_to_a_bound_the_answer_chooses_nothing(
    energies_j, quantity, bound, nearest, miss
):
    """It said to stay with the driver's clock, or to choose what may not be chosen."""
    found = evidence(energies_j, times_s=(1.0, 1.0, 0.9))

    words = said(bounded(found, quantity, bound))

    side = "most" if quantity == "power_w" else "least"
    assert words.startswith(f"Nothing measured keeps to at {side} ")
    assert f"nearest comes {nearest}, with {miss}" in words
    assert "Ask for less, or search what was not: " in words
    assert not any(each in words for each in ("Choose", "Stay with", "pays for itself"))


@pytest.mark.parametrize(
    ("quantity", "bound", "excess", "value"),
    [
        ("slowdown", 0.05, log(1.12 / 1.05), 0.12),
        ("quality", 0.9, log(0.9 / 0.8), 0.8),
        ("latency_s", 0.5, log(2.0), 1.0),
    ],
)
def test_what_misses_a_bound_is_told_in_its_unit(quantity, bound, excess, value):
    miss = Miss(constraint=Constraint(quantity=quantity, bound=bound), excess=excess)

    assert miss.value == pytest.approx(value)


def test_beside_the_lowest_of_a_flat_optimum_stands_the_fastest_of_the_set():
    """Which of 1200 and 1100 MHz is lowest is noise, and which is faster is not."""
    found = evidence([10.0, 8.0, 8.8], times_s=(1.0, 1.0, 0.909))

    words = said(found)

    assert words.startswith("Choose 1100 MHz, bf16") != words.startswith("Choose 1200 MHz, bf16")
    assert answer(found, spent_j=1.0).fastest.configuration.point.sm_clock_mhz == 1100
    assert "1 configuration statistically indistinguishable from it. " in words


def test_the_fastest_is_named_with_what_it_costs():
    words = said(evidence([10.0, 8.0, 8.81], times_s=(1.0, 1.0, 0.909)))

    assert words.startswith("Choose 1200 MHz, bf16")
    assert " The fastest of these is 1100 MHz, bf16: -11.9 % ± " in words


def test_the_lowest_may_be_the_fastest_itself():
    words = said(evidence([10.0, 8.0, 7.9999], times_s=(1.0, 1.0, 1.0 - 1e-9)))

    assert "from it. It is the fastest of these. " in words


def test_the_fastest_keeps_to_the_constraints():
    hot = Constraint(quantity="power_w", bound=8.5)

    found = evidence([10.0, 8.0, 8.81], times_s=(1.0, 1.0, 0.909), constraints=(hot,))

    assert answer(found, spent_j=1.0).fastest.configuration.point.sm_clock_mhz == 1200


def score_lines(kept, reasons=None, notes=None):
    def by_cell(values):
        return {c: each for c in QUALITIES.cells if (each := values.get(dict(c)["precision"]))}

    scores = Scores(
        metric="own_score",
        data="its own examples",
        kept=by_cell(kept),
        reasons=by_cell(reasons or {}),
        notes=by_cell(notes or {}),
    )
    return score_words(QUALITIES, scores).splitlines()


def test_each_kind_of_outputs_has_a_line_and_each_reason_too():
    fp32, bf16 = Kept(retention=1.0, outputs="a"), Kept(retention=0.98, u=0.004, outputs="b")

    lines = score_lines(
        {"fp32": fp32, "bf16": bf16}, {"fp8": "It lacks fp8."}, {"bf16": "No interval."}
    )

    assert lines == [
        "What is kept of the baseline's own score on its own examples:",
        "  precision fp32: 100.00 %",
        "  precision bf16: 98.00 % ± 0.40 %",
        "  precision fp8: left out. It lacks fp8.",
        "  No interval.",
    ]


@pytest.mark.parametrize(
    ("axes", "named"),
    [({"batch": (1, 8)}, "batch 1; batch 8"), ({"sm_clock_mhz": (990, 810)}, "all")],
)
def test_outputs_that_share_no_knob_are_named_one_by_one(axes, named):
    space = SearchSpace("vit", axes)
    kept = dict.fromkeys(space.cells, Kept(retention=1.0, outputs="a"))

    said = score_words(space, Scores(metric="own_score", data="d", kept=kept))

    assert said.splitlines()[1] == f"  {named}: 100.00 %"
