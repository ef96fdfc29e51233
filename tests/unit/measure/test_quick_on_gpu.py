"""The comparison of quick points with the reference, as it is taken to a GPU."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from joulelab.core.codec import from_json

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from quick_on_gpu import CASES, Settings, from_rest_within, longest_s, main, reference_within
from quick_rows import Numbers, Row, compared_of, report

STREAMS = {"stream kernel=copy", "stream kernel=triad"}


@pytest.fixture
def measured(tmp_path):
    """Measures the streams of the list within a budget, and returns all rows of the file."""

    def measured(budget_s):
        out = tmp_path / "rows.jsonl"
        main(Settings(files=(out,), device="simulated:a100_sxm", only="stream", budget_s=budget_s))
        return [from_json(Row, line) for line in out.read_text().splitlines()]

    return measured


def kinds(rows):
    return sorted((row.case, row.asked) for row in rows)


def test_thirty_configurations_are_compared():
    assert len(CASES) == 30


def test_a_budget_is_kept_and_every_configuration_is_measured_quickly_and_goes_on(measured, capsys):
    rows = measured(30)

    assert kinds(rows) == sorted((case, how) for case in STREAMS for how in ("quick", "going on"))
    assert sum(row.took_s for row in rows) <= 30
    assert "2 references had to end early" in capsys.readouterr().out


def test_a_reference_that_was_cut_agrees_with_one_from_rest(measured):
    cut = {row.case: row for row in measured(30) if row.asked == "going on"}

    rows = measured(float("inf"))

    for row in rows:
        if row.asked == "reference":
            assert not row.is_cut
            assert cut[row.case].is_cut
            assert cut[row.case].numbers.energy_j == pytest.approx(row.numbers.energy_j, rel=0.008)


def test_what_a_file_has_is_not_measured_again(measured):
    known = measured(30)

    rows = measured(float("inf"))

    assert rows[: len(known)] == known
    assert kinds(rows[len(known) :]) == [(case, "reference") for case in sorted(STREAMS)]


def test_seconds_are_compared_with_references_from_rest(measured, capsys):
    rows = measured(float("inf"))

    took_s = {how: sum(r.took_s for r in rows if r.asked == how) for how in ("reference", "quick")}
    ratio = took_s["reference"] / took_s["quick"]
    assert ratio > 10
    assert f"quickly, {ratio:.1f}x" in capsys.readouterr().out


def test_what_would_not_end_in_time_is_not_begun_and_said(measured, capsys):
    assert measured(5) == []

    said = capsys.readouterr().out
    assert all(f"{case}: no time was left for it" in said for case in STREAMS)


@pytest.mark.parametrize("within", [reference_within, from_rest_within])
def test_without_a_budget_the_reference_is_whole(within):
    procedure = within(float("inf"), 2)

    assert (procedure.window_s, procedure.warmup_max_s, procedure.limit_s) == (2, 60, 60)


@pytest.mark.parametrize("num_phases", [1, 2, 3])
@pytest.mark.parametrize("limit_s", [20, 60, 200])
def test_a_cut_reference_ends_in_time_even_where_it_never_gets_steady(limit_s, num_phases):
    procedure = reference_within(limit_s, num_phases)

    assert longest_s(procedure, num_phases) <= limit_s
    assert procedure.min_windows * procedure.window_s <= procedure.limit_s


def row(pace, energy_j, time_s, idle_w=None):
    numbers = Numbers(
        energy_j=energy_j,
        energy_u_j=0.001 * energy_j,
        time_s=time_s,
        time_cv=0.001,
        temperature_c=50.0,
        power_cap_share=0.0,
        idle_w=idle_w,
    )
    return Row(
        case="bert",
        phase="forward",
        asked=pace,
        pace=pace,
        took_s=3.0,
        reason="",
        numbers=numbers,
    )


def test_what_a_slower_host_adds_at_rest_is_no_difference_at_the_same_pace():
    found = compared_of(
        "bert", [row("reference", 2.0, 0.01, 120.0), row("quick", 2.6, 0.015)], None
    )

    assert found.off == pytest.approx([0.3])
    assert found.paced_off == pytest.approx([0.0])
    assert not found.is_paced_alike


def test_without_idle_power_energies_at_the_same_pace_are_not_known():
    rows = [row("reference", 2.0, 0.01), row("quick", 2.01, 0.01)]

    assert compared_of("bert", rows, None).paced_off is None
    assert "at its pace" not in "".join(report(rows))


def test_a_host_that_changed_its_pace_between_two_even_runs_is_no_steady_one():
    rows = [row("reference", 2.0, 0.01, 120.0), row("quick", 2.6, 0.015)]

    summary, further = [line for line in report(rows) if "rms" in line or "further" in line]
    assert summary.startswith("jittering host: 1 phases, rms 30.00%, 0.00% at its pace")
    assert "the host took +50.0% of time" in further


def test_what_was_measured_from_rest_after_all_is_named_and_in_no_mean():
    again = replace(row("quick", 2.0, 0.01), pace="reference")

    lines = list(report([again]))

    assert not [line for line in lines if "rms" in line]
    assert "nothing gained, for it was not even quickly: bert" in lines


def test_without_an_idle_window_of_its_own_a_reference_takes_that_of_the_board():
    on = replace(row("reference", 2.0, 0.01), asked="going on")
    other = replace(row("reference", 1.0, 0.01, 120.0), case="vit")

    lines = report([other, on, row("quick", 2.6, 0.015)])

    assert "at its pace +0.00%" in next(line for line in lines if line.startswith("bert"))
