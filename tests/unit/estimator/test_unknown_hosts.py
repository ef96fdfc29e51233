"""Which of what was measured on a host that nobody knows is compared with estimates."""

import sys
from pathlib import Path

import pytest

from joulelab.core.codec import to_json

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from quick_rows import Numbers, Row
from unknown_hosts import references

CASE = "stream kernel=copy"


def row(asked, time_s):
    numbers = Numbers(
        energy_j=1.0,
        energy_u_j=0.01,
        time_s=time_s,
        time_cv=0.0,
        temperature_c=None,
        power_cap_share=None,
    )
    pace = "quick" if asked == "quick" else "reference"
    return Row(
        case=CASE, phase="copy", asked=asked, pace=pace, took_s=1.0, reason="", numbers=numbers
    )


@pytest.mark.parametrize(
    ("manners", "expected_s"),
    [(("quick", "going on"), 2.0), (("reference", "quick", "going on"), 1.0)],
)
def test_a_reference_from_rest_counts_before_one_that_goes_on_and_no_quick_point_does(
    tmp_path, manners, expected_s
):
    times_s = {"reference": 1.0, "going on": 2.0, "quick": 3.0}
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(to_json(row(how, times_s[how])) + "\n" for how in manners))

    ((device, found),) = references(file)

    assert device == "h200_sxm"
    assert found["program"] == "stream"
    assert [phase["time_per_unit_s"] for phase in found["phases"]] == [expected_s]


def test_a_program_without_a_reference_is_left_out(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(to_json(row("quick", 3.0)) + "\n")

    assert list(references(file)) == []
