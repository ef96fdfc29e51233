"""Attributions of one program at several clocks."""

import csv
from dataclasses import replace

import pytest

from joulelab.analysis.attributed.page import page
from joulelab.analysis.attributed.table import WHOLE
from joulelab.analysis.table import plain_cells
from joulelab.cli.attribute import clock_table
from joulelab.cli.main import main
from joulelab.objectives import OBJECTIVES

BLOOM = ["bloom", "--model", "bloom-560m", "--new-tokens", "4"]
WORDS = ["attribute", "--device", "simulated", "--gpu", "a100_sxm", "--method", "classes"]


@pytest.fixture
def words(tmp_path, guard_socket):
    return [*WORDS, "--store", str(tmp_path), "--guard-socket", str(guard_socket)]


def rows(clocks, objective="edp"):
    _, cells = plain_cells(clock_table(clocks, "decode", OBJECTIVES[objective]))
    return {row[0]: row[1:] for row in cells}


def at_another_clock(found, energy, time):
    """The same with other energies and times of its decode."""
    phases = []
    for phase in found.phases:
        calls = tuple(replace(call, device_s=time * call.device_s) for call in phase.profile.calls)
        solution = replace(phase.solution, prices=energy * phase.solution.prices)
        phases.append(
            replace(
                phase,
                profile=replace(phase.profile, calls=calls),
                solution=solution,
                energy_j=energy * phase.energy_j,
                time_s=time * phase.time_s,
            )
        )
    return replace(found, phases=tuple(phases))


def test_the_best_clock_is_that_of_the_least_product(replayed):
    found = replayed[0]
    clocks = [
        ("default", found),
        ("1200MHz", at_another_clock(found, 0.7, 1.0)),
        ("900MHz", at_another_clock(found, 0.65, 1.3)),
    ]

    assert rows(clocks)[WHOLE] == ["1200MHz", "-30.0%", "+0.0%", "-30.0%"]
    assert rows(clocks, "energy")[WHOLE] == ["900MHz", "-35.0%", "+30.0%", "-35.0%"]


def test_a_gain_within_what_is_unsure_is_none(replayed):
    found = replayed[0]
    clocks = [("default", found), ("1200MHz", at_another_clock(found, 0.99, 1.0))]

    assert rows(clocks)["feed-forward"][0] == "the driver's own, or none is better"
    assert rows(clocks)[WHOLE][0] == "1200MHz"  # the meter is surer than its parts


def test_a_first_clock_that_is_locked_is_not_called_the_drivers_own(replayed):
    """With --sm-clock-mhz 1305 the table said so of 1305 MHz."""
    found = replayed[0]
    clocks = [("1305MHz", found), ("1200MHz", at_another_clock(found, 0.99, 1.0))]

    assert rows(clocks)["feed-forward"][0] == "1305MHz, or none is better"


def test_the_command_attributes_at_every_clock(words, tmp_path, capsys):
    """The table of parts that --out writes held those of the first point alone."""
    out = tmp_path / "parts.csv"

    assert main([*words, "--clocks-mhz", "1200", "810", "--out", str(out), *BLOOM]) == 0

    told = capsys.readouterr().out
    assert "decode, at default, 1200MHz, 810MHz:" in told
    assert "best clock by EDP" in told
    with out.open() as file:
        rows = [row for row in csv.DictReader(file) if row["level"] == "component"]
    decodes = [row for row in rows if row["phase"] == "decode"]
    energies = {
        point: sum(float(row["energy_per_unit_j"]) for row in decodes if row["point"] == point)
        for point in ("default", "1200MHz", "810MHz")
    }
    assert 0 < energies["810MHz"] < energies["default"]


def test_a_page_shows_the_components_at_every_clock(replayed):
    """What was found at other clocks was on no page: --out held the first point alone."""
    found = replayed[0]
    clocks = [("default", found), ("900MHz", at_another_clock(found, 0.5, 1.3))]

    shown = page(found, clocks)

    assert "Decode over clocks" in shown
    assert "900MHz" in shown
    assert "over clocks" not in page(found)


def test_a_clock_that_the_device_has_not_is_refused_before_anything_is_measured(words, capsys):
    """It was refused once all clocks before it had been attributed, and these were lost."""
    assert main([*words, "--clocks-mhz", "1200", "1411", *BLOOM]) == 2

    said = capsys.readouterr().err
    assert "got 1411; the nearest: 1410" in said
    assert "Preparing" not in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--clocks-mhz", "1200", "--observe-only"], "drop --observe-only"),
        (["--objective", "qep"], "without quality"),
        (["--clocks-mhz", "1201"], "1201"),
    ],
)
def test_what_cannot_be_asked_is_refused(words, capsys, options, why):
    assert main([*words, *options, *BLOOM]) == 2
    assert why in capsys.readouterr().err
