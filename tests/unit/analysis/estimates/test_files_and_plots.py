"""Estimates as files and plots."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from estimates_by_hand import COPY, PRODUCT, cell, estimate, phase, processor, refused
from page_tags import Tags

from joulelab.analysis.estimates.export import (
    CELL_COLUMNS,
    GROUP_COLUMNS,
    SCHEMA_VERSION,
    SUFFIXES,
    cells_answer,
)
from joulelab.analysis.estimates.figures import dots, ridge, roofline_figure
from joulelab.analysis.estimates.page import (
    comparable,
    comparison_figures,
    page,
    parts,
    stack_figure,
    timeline_figure,
)
from joulelab.analysis.estimates.wording import host_words
from joulelab.analysis.table import check_target
from joulelab.csv_table import read_csv_table
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import HostRange
from joulelab.estimator.question import Opportunity


def test_json_holds_totals_groups_and_what_is_refused(tmp_path):
    path = cells_answer([cell(), refused()]).write(tmp_path / "x.json")

    told = json.loads(path.read_text())
    found, none = told["estimates"]
    assert told["schema_version"] == SCHEMA_VERSION
    assert found["totals"]["energy_j"] == {"compute": 1, "memory": 0.5, "static": 0.5, "total": 2}
    assert found["totals"]["edp_js"] == pytest.approx(0.02)
    assert found["totals"]["time_set_by"] == pytest.approx({"launch": 0.8, "memory": 0.2})
    assert [g["name"] for g in found["phases"][0]["groups"]] == [PRODUCT.name, COPY.name]
    assert found["phases"][0]["memory"]["fits"] is True
    assert "totals" not in none
    assert none["problem"].startswith("the processor has no fp8")


def test_csv_has_a_row_per_phase_and_leaves_empty_what_is_not_known(tmp_path):
    two = cell(estimate(phases=(phase("prefill"), phase("decode"))))
    path = cells_answer([two, refused()]).write(tmp_path / "x.csv")

    rows = read_csv_table(path)
    assert tuple(rows[0]) == tuple(CELL_COLUMNS)
    assert [row["phase"] for row in rows] == ["prefill", "decode", ""]
    assert float(rows[0]["energy_per_unit_j"]) == pytest.approx(0.25)
    assert rows[2]["energy_j"] == ""
    assert rows[2]["problem"].startswith("the processor has no fp8")


def test_csv_of_groups_sums_to_the_phase(tmp_path):
    path = cells_answer([cell()], per_group=True).write(tmp_path / "x.csv")

    rows = read_csv_table(path)
    assert tuple(rows[0]) == tuple(GROUP_COLUMNS)
    assert sum(float(row["energy_j"]) for row in rows) == pytest.approx(2.0)
    assert rows[0]["flop_by_pipe"] == "tensor_fp16=4e+11"
    assert float(rows[1]["main_memory_b"]) == 1.8e9


@pytest.mark.parametrize("name", ["x.txt", "x", "no/folder/x.json"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path, name):
    with pytest.raises(ConfigError):
        check_target(tmp_path / name, *SUFFIXES)


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(tmp_path):
    chance = Opportunity(
        title="Run at 500 MHz", change={}, energy_saved=0.4, time_saved=0.0, reason="<it> waits"
    )
    cells = [replace(cell(), opportunities=(chance,)), cell(batch=16), refused()]

    text = cells_answer(cells).write(tmp_path / "x.html").read_text()

    tags = Tags(text)
    assert tags.open == []
    assert tags.outside == []
    assert tags.seen.count("svg") == 2 + 2 * 3
    assert "&lt;it&gt; waits" in text
    assert "the processor has no fp8" in text
    assert "kappa: compute 4" in text
    assert text.count("<h2>") == 4


def test_ids_of_plots_on_one_page_never_meet():
    text = page([cell(), cell(batch=16)])

    ids = [part.partition('"')[0] for part in text.split(' id="')[1:]]
    assert len(ids) == len(set(ids)) > 10


def test_a_page_shows_what_does_not_fit_and_what_has_no_formula():
    large = replace(phase().memory, weight_b=92e9)
    text = page([cell(estimate(phases=(phase(memory=large),), without_formula={"lstm": 0.5}))])

    assert "needs 27 GB more" in text
    assert "lstm (50.0% of the bytes)" in text


def test_a_page_says_what_other_hosts_would_make_of_a_time_that_the_host_sets():
    """The terminal gave the range over hosts, and the page left it out."""
    hosts = HostRange(latency_s=(0.004, 0.02), energy_j=(1.0, 3.0))
    bound = replace(estimate(), host_range=hosts)

    text = page([cell(bound)])

    assert host_words(bound).startswith("The device waits for launches 40% of the time: 4 ms to 20")
    assert host_words(bound) in text
    assert "over known hosts" not in page([cell()])


def test_dots_stand_at_their_intensity_and_rate():
    (dot,) = dots(phase())  # the copy has no operations

    assert dot.flop_per_b == pytest.approx(4e11 / 1e9)
    assert dot.flop_per_s == pytest.approx(4e11 / 4e-3)
    assert dot.share == pytest.approx(0.8)


def test_kernels_at_one_place_share_a_dot():
    twin = replace(PRODUCT, name="twin")
    half = replace(PRODUCT, name="half", flop={"tensor_fp16": 2e11})

    found = dots(phase(groups=(PRODUCT, twin, half)))

    assert [dot.names for dot in found] == [(PRODUCT.name, "twin"), ("half",)]


def test_a_ridge_is_peak_over_bandwidth():
    assert ridge(processor(), "tensor_fp16") == pytest.approx(2e5 * 1e9 / 1e12)
    assert ridge(processor(), "fp32", level=0) == pytest.approx(2e4 * 1e9 / 4e12)


def test_the_roofline_names_pipes_levels_and_kernels():
    figure = roofline_figure(phase(), processor())

    (axes,) = figure.axes
    texts = {text.get_text() for text in axes.texts} | {text.get_text() for text in figure.texts}
    assert {"tensor fp16 200 TFLOP/s", "DRAM 1 TB/s", "L2 4 TB/s", PRODUCT.name, "80%"} <= texts
    peaks = [line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1]
    assert peaks == [pytest.approx(2e14)]


def module(path, joules=1.0):
    energy = replace(PRODUCT.energy, compute_j=joules, memory_j=0.0, static_j=0.0)
    return replace(PRODUCT, name=path, module=path, energy=energy)


def test_parts_are_modules_at_the_depth_that_gives_most():
    groups = tuple(module(f"layer{i}.{j}.conv") for i in range(2) for j in range(3))

    assert list(parts(phase(groups=groups), max_parts=6)) == [g.module for g in groups]
    assert list(parts(phase(groups=groups), max_parts=5)) == [
        "layer0.*.conv",
        "layer1.*.conv",
    ]


def test_parts_lose_no_energy_when_there_are_too_many():
    groups = tuple(module(f"m{i}", joules=float(i)) for i in range(10))

    found = parts(phase(groups=groups), max_parts=4)

    assert list(found) == ["m7", "m8", "m9", "7 others"]
    assert math.fsum(energy.total_j for energy in found.values()) == pytest.approx(45.0)


def test_the_stack_draws_every_part_and_component():
    figure = stack_figure(phase())

    bars = [patch.get_width() for patch in figure.axes[0].patches]
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert sum(bars) == pytest.approx(2.0)
    assert labels == ["layer1.fc", "layer2.pool"]


def test_the_timeline_shows_a_capacity_only_where_it_is_near():
    far = timeline_figure(estimate())
    near = timeline_figure(estimate(phases=(phase(memory=replace(phase().memory, weight_b=60e9)),)))

    def said(figure):
        return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)

    assert "the device has" not in said(far)
    assert "the device has 80 GB" in said(near)


def test_estimates_are_compared_by_bars_as_long_as_their_totals():
    cells = comparable([cell(), refused(), cell(estimate(phases=(phase(work=16.0),), batch=16))])

    energy, time = (figure.axes[0] for figure in comparison_figures(cells))

    assert sum(p.get_width() for p in energy.patches) == pytest.approx(250 + 125)  # mJ/image
    assert sum(p.get_width() for p in time.patches) == pytest.approx(1.25 + 0.625)  # ms/image


def test_different_kinds_of_work_are_not_compared():
    assert comparable([cell(), cell(unit="token")]) == []


def test_tables_and_words_do_without_matplotlib_and_torch():
    code = (
        "import sys; sys.modules.update(matplotlib=None, torch=None)\n"
        "import joulelab.analysis.estimates.export, joulelab.analysis.estimates.overview\n"
        "import joulelab.cli.estimate, joulelab.cli.estimate_sweep\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()
