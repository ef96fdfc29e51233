"""A sweep at the quick pace, and what is said of it."""

from functools import cache

import pytest

import joulelab
from joulelab.core.procedure import Procedure


@pytest.fixture(scope="module")
def swept(tmp_path_factory, guard_socket):
    """Sweeps two clocks of a simulated GPU at a pace, and returns the study."""

    @cache
    def sweep(pace, **lengths):
        folder = tmp_path_factory.mktemp("sweep")
        lab = joulelab.Lab(
            device="simulated",
            gpu="h200_sxm",
            store=str(folder / "gpus"),
            results_dir=folder,
            guard_socket=guard_socket,
            progress=False,
            procedure=Procedure(pace=pace, **lengths),
        )
        return joulelab.sweep("stream", mode="custom", clocks_mhz=(1500, 900), repeats=3, lab=lab)

    return sweep


def test_a_quick_sweep_says_how_many_points_followed_others(swept):
    page = (swept("quick").folder / "report.html").read_text()

    assert "9 of 10 were made otherwise: they followed another point" in page
    assert "at least 3 windows of at least 0.2 s" in page  # 0.3 s to the nearest end of a unit


def test_sweeps_are_quick_unless_another_procedure_is_asked_for(swept):
    paces = {
        name: [each.pace for each in study.measurements]
        for name, study in (
            ("usual", swept(None)),
            ("reference", swept("reference")),
            ("longer", swept(None, window_s=1.0)),
        )
    }

    assert paces["usual"] == ["reference"] + 9 * ["quick"]
    assert set(paces["reference"]) == set(paces["longer"]) == {"reference"}


def test_a_sweep_from_rest_does_not(swept):
    page = (swept("reference").folder / "report.html").read_text()

    assert "followed another point" not in page


def test_both_paces_choose_the_same_clock(swept):
    answers = [str(swept(pace)).split(":")[0] for pace in ("reference", "quick")]

    assert answers[0] == answers[1]
