"""Attributions as sentences, tables, numbers, plots and pages."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from joulelab.analysis.attributed.numbers import content, frame
from joulelab.analysis.attributed.page import depth_figure, icicle_figure, page, write_all
from joulelab.analysis.attributed.table import closure_words, metering_words, share_table, text
from joulelab.analysis.measurement_lines import NOT_HARDWARE_NOTE
from joulelab.analysis.table import plain_cells
from joulelab.attribution.attribution import GAPS, UNEXPLAINED
from joulelab.sampling.spells import MeteringCost


def test_every_sentence_and_every_part_is_told(replayed):
    told = text(replayed[0])

    for phase in replayed[0].phases:
        assert f"{phase.phase} takes " in told
        for share in phase.by_component:
            assert share.name in told
    assert UNEXPLAINED in told
    assert "each distinct kernel was replayed alone and metered" in told


def test_a_table_has_one_unit_and_the_last_row_is_never_hidden(replayed):
    phase = replayed[0].phase("decode")
    heads, rows = plain_cells(share_table(phase, phase.by_component, "component", phase.boards))

    assert heads[1] == "mJ/token"
    assert [row[0] for row in rows[-2:]] == [GAPS, UNEXPLAINED]
    assert sum(float(row[1].split()[0]) for row in rows) == pytest.approx(
        1e3 * phase.energy_j / phase.profile.work, rel=2e-3
    )


def test_numbers_are_per_unit_of_work_at_every_level(replayed):
    table = frame(replayed[0]).to_pandas()
    decode = table[(table["phase"] == "decode") & (table["level"] == "component")]
    phase = replayed[0].phase("decode")

    assert set(table["level"]) == {"component", "stage", "layer", "operator", "kernel"}
    assert decode["energy_per_unit_j"].sum() == pytest.approx(phase.energy_j / phase.profile.work)
    assert decode["energy_share"].sum() == pytest.approx(1.0)


def test_files_hold_what_was_found(replayed, tmp_path):
    html, csv, whole = write_all(replayed[0], tmp_path / "made")

    assert html.read_text() == page(replayed[0])
    assert len(pd.read_csv(csv)) == len(frame(replayed[0]).rows)
    read = json.loads(whole.read_text())
    assert read["phases"][0]["closure"] == replayed[0].phases[0].closure
    assert read["provenance"]["hostname"] == replayed[0].provenance.hostname
    assert read == json.loads(json.dumps(content(replayed[0])))


def test_a_page_shows_all_parts_and_needs_no_other_file(replayed):
    made = page(replayed[0])

    assert made.count("<svg") == 2 * len(replayed[0].phases)
    assert "not explained" in made
    assert "http" not in made.replace("http://www.w3.org", "")
    assert replayed[0].device.uuid in made


def test_what_comes_of_no_hardware_says_so_everywhere(replayed):
    """Joules of a simulated board were said to be those "on NVIDIA H200", on no word more."""
    found, name = replayed[0], replayed[0].device.name

    assert f" on simulated {name}: " in text(found)
    for told in (text(found), page(found), " ".join(content(found)["notes"])):
        assert NOT_HARDWARE_NOTE in " ".join(told.split())
    assert content(found)["backend"] == "simulated"


def test_an_icicle_is_as_wide_as_the_energy(replayed):
    phase = replayed[0].phase("prefill")
    (axes,) = icicle_figure(phase).axes
    by_row = {}
    for patch in axes.patches:
        by_row.setdefault(patch.get_y(), []).append(patch)

    assert sum(patch.get_width() for patch in by_row[1]) == pytest.approx(1.0)
    gaps = phase.gaps.energy_j / sum(s.energy_j for s in phase.by_component if s.energy_j > 0)
    assert sum(patch.get_width() for patch in by_row[0]) == pytest.approx(1 - gaps, abs=1e-3)


def test_the_depth_shows_every_layer_at_its_energy(replayed):
    phase = replayed[0].phase("prefill")
    axes = depth_figure(phase).axes[0]
    tops = {}
    for patch in axes.patches:
        place = round(patch.get_x() + patch.get_width() / 2)
        tops[place] = max(tops.get(place, 0.0), patch.get_y() + patch.get_height())
    layers = [share for share in phase.by_layer if ".h." in share.name]

    assert len(tops) == 1 + len(layers)
    scale = tops[1] / (layers[0].energy_j / phase.profile.work)
    assert scale == pytest.approx(1e6, rel=1e-6)


def test_parts_that_contradict_the_meter_are_said_to(replayed):
    from dataclasses import replace

    phase = replace(replayed[0].phases[0], deviation=-7.2, closure=0.31)

    assert not phase.is_reconciled
    assert "31.0% more" in closure_words(phase)
    assert "not reconciled" in closure_words(phase)


def test_a_cost_that_scatter_hides_is_said_not_to_be_known():
    cost = MeteringCost(pairs=((1.0, 1.1), (1.2, 1.0), (1.0, 1.0), (1.1, 1.3)))

    assert "is not known" in metering_words("decode", cost)


def test_what_metering_costs_is_known_with_its_interval():
    cost = MeteringCost(pairs=((1.010, 1.0), (1.011, 1.0), (1.009, 1.0)))

    assert metering_words("decode", cost).startswith(
        "Metering makes decode +1.00% slower (95%: +0."
    )


@pytest.mark.parametrize("pair", [(1.0, 1.1), (1.011, 1.0)], ids=["scatter", "known"])
def test_a_file_holds_the_interval_of_a_cost_be_its_mean_known_or_not(replayed, pair):
    cost = MeteringCost(pairs=((1.009, 1.0), (1.010, 1.0), pair))

    read = content(replace(replayed[0], metering={"decode": cost}))["metering"]["decode"]

    assert (read["slowdown_low"], read["slowdown_high"]) == (cost.slowdown.low, cost.slowdown.high)
    assert read["num_pairs"] == 3
    assert ("slowdown" in read) is read["is_known"] is cost.is_known
