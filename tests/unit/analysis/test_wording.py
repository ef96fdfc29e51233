import re
from dataclasses import replace

import pytest
from jinja2 import UndefinedError
from synthetic_results import measurement, sweep

from joulelab.analysis.quantities import percent
from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.templates import text
from joulelab.analysis.wording import phase_names, sentence, software_words
from joulelab.core.additive import Interval
from joulelab.core.measurement import Finding

CLOCKS_MHZ = tuple(range(600, 1951, 75))


@pytest.mark.parametrize(
    ("value", "half", "expected"),
    [
        (-0.274, 0.006, "-27.4 % ± 0.6 %"),
        (0.021, 0.003, "+2.1 % ± 0.3 %"),
        (0.02134, 0.0004, "+2.13 % ± 0.04 %"),
        (0.5, 0.12, "+50.0 % ± 12.0 %"),
        (0.0, 0.0, "+0.0 % ± 0.0 %"),
    ],
)
def test_percentages_show_the_digits_that_count(value, half, expected):
    assert percent(Interval(value=value, low=value - half, high=value + half)) == expected


def from_software(version, git_sha):
    made = measurement()
    return replace(
        made, provenance=replace(made.provenance, joulelab_version=version, git_sha=git_sha)
    )


def test_software_is_named_by_version_and_commit():
    sha = "0123456789abcdef"
    found = [from_software("0.1.0", sha), from_software("unknown", f"{sha}-dirty")]

    assert software_words(found[:1] * 2) == "joulelab 0.1.0 (commit 01234567)"
    assert software_words(found[1:]) == "joulelab (commit 01234567, with changes)"
    assert " and " in software_words(found)
    assert software_words([from_software("0.1.0", None)]) == "joulelab 0.1.0"


def test_a_clear_saving_is_recommended_with_its_price():
    result = analyse_sweep(sweep(CLOCKS_MHZ, noise=0.01))

    said = sentence(result)

    assert re.fullmatch(
        r"1\d\d\d MHz: -4\d\.\d+ % ± 0\.\d+ % energy at \+\d+\.\d+ % ± 0\.\d+ % time against the "
        r"default clock; the fastest of \d clocks that are statistically indistinguishable from "
        r"the lowest EDP, at 1\d\d\d MHz\.",
        said,
    )


def test_a_default_that_may_be_best_is_never_sold_as_a_saving():
    rows = [
        measurement(clock, repeat=i, minute=i, energy_factor=factor)
        for clock in (None, 1950)
        for i, factor in enumerate([0.9, 1.0, 1.1])
    ]

    said = sentence(analyse_sweep(rows))

    assert said.startswith("No saving is shown: 1950 MHz has the lowest EDP")
    assert "driver's default is statistically indistinguishable from it" in said


def test_the_default_is_recommended_if_it_is_best():
    said = sentence(analyse_sweep(sweep(CLOCKS_MHZ), "time"))

    assert said.startswith("The driver's default has the lowest time, ")
    assert "mJ/token" in said


def test_a_baseline_alone_is_stated_without_comparison():
    said = sentence(analyse_sweep(sweep([])))

    assert re.fullmatch(
        r"The driver's default: \d+\.\d+ ± 0?\d*\.\d+ mJ/token in .*; "
        r"no other point was measured\.",
        said,
    )


def test_without_a_default_no_saving_is_stated():
    rows = [m for m in sweep(CLOCKS_MHZ, num_boards=1) if m.configuration.point.sm_clock_mhz]

    said = sentence(analyse_sweep(rows))

    assert "no valid measurement of the driver's default" in said
    assert "energy at" not in said


def test_nothing_valid_recommends_nothing():
    lost = Finding(reason="device_lost", detail="It fell off the bus.")

    said = sentence(analyse_sweep([measurement(1500, findings=[lost])]))

    assert said == "No recommendation: none of 1 measurements is valid."


def test_phases_are_named_by_what_sets_them_apart():
    rows = sweep(CLOCKS_MHZ) + sweep(CLOCKS_MHZ, phase="prefill")
    wider = replace(measurement().configuration, knobs=(("batch", 64), ("precision", "bf16")))
    rows += [replace(measurement(minute=i), configuration=wider) for i in range(2)]

    result = analyse_sweep(rows)

    assert phase_names(result) == (
        "llama decode, batch=8", "llama prefill, batch=8", "llama decode, batch=64",
    )  # fmt: skip
    assert sentence(result).splitlines()[1].startswith("llama prefill, batch=8: ")


def test_a_program_is_not_named_by_settings_that_other_workloads_have():
    """A GEMM beside a network was "gemm, attention=None, batch=1, ...", and so was its file, which
    a few programs more made longer than a file system takes.
    """
    gemm = replace(measurement().configuration, workload="gemm", knobs=(("n", 8192),))
    rows = [*sweep(CLOCKS_MHZ), replace(measurement(phase="gemm"), configuration=gemm)]

    assert phase_names(analyse_sweep(rows)) == ("llama decode", "gemm")


def test_a_template_that_lacks_a_value_fails_instead_of_leaving_a_gap():
    with pytest.raises(UndefinedError, match="'phase' is undefined"):
        text("sweep.txt.j2", aim="EDP", has_clocks=True)
