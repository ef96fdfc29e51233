"""The comparison of quick points with the reference, as it is taken to a GPU."""

import sys
from pathlib import Path

import pytest

from joulelab.core.codec import from_json

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from quick_on_gpu import Settings, longest_s, main, reference_within
from quick_rows import Numbers, Row, compared_of, report

GEMMS = ("gemm precision=bf16", "gemm precision=fp32 n=4096")


@pytest.fixture
def measured(tmp_path):
    """Measures the GEMMs of the list within a budget, and returns the rows."""

    def measured(budget_s):
        out = tmp_path / "rows.jsonl"
        asked = Settings(
            files=(out,), device="simulated:a100_sxm", only="gemm", budget_s=budget_s, quick=2
        )
        main(asked)
        return [from_json(Row, line) for line in out.read_text().splitlines()]

    return measured


def test_a_budget_is_kept_and_every_configuration_has_its_share(measured, capsys):
    rows = measured(36)

    assert {row.case for row in rows} == set(GEMMS)
    assert {(row.case, row.asked) for row in rows} >= {(case, "quick") for case in GEMMS}
    assert sum(row.took_s for row in rows) <= 36
    assert all(row.is_cut for row in rows)
    assert "references cut by the budget" in capsys.readouterr().out


def test_quick_points_agree_with_a_reference_that_was_cut(measured):
    rows = measured(36)

    for case in GEMMS:
        whole = next(r.numbers for r in rows if (r.case, r.asked) == (case, "reference"))
        quick = next(r.numbers for r in rows if (r.case, r.asked) == (case, "quick"))
        assert quick.energy_j == pytest.approx(whole.energy_j, rel=0.015)


def test_what_would_not_end_in_time_is_not_begun_and_said(measured, capsys):
    assert measured(5) == []

    said = capsys.readouterr().out
    assert all(f"{case}: no time was left for it" in said for case in GEMMS)


def test_without_a_budget_the_reference_is_whole():
    assert reference_within(float("inf"), 2).limit_s == 60


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
    found = compared_of("bert", [row("reference", 2.0, 0.01, 120.0), row("quick", 2.6, 0.015)])

    assert found.off == pytest.approx([0.3])
    assert found.paced_off == pytest.approx([0.0])
    assert not found.is_paced_alike


def test_without_idle_power_energies_at_the_same_pace_are_not_known():
    rows = [row("reference", 2.0, 0.01), row("quick", 2.01, 0.01)]

    assert compared_of("bert", rows).paced_off is None
    assert "at its pace" not in "".join(report(rows))


def test_a_host_that_changed_its_pace_between_two_even_runs_is_no_steady_one():
    rows = [row("reference", 2.0, 0.01, 120.0), row("quick", 2.6, 0.015)]

    (summary,) = [line for line in report(rows) if "rms" in line]
    assert summary.startswith("jittering host: 1 phases, rms 30.00%, 0.00% at its pace")
