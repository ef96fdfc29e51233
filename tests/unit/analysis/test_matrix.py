"""The table of every workload in every number format, on measurements of known cost."""

import json
from contextlib import closing
from dataclasses import replace

import pytest
from rich.console import Console
from synthetic_results import header, measurement

from joulelab import EnergyWindow
from joulelab.analysis.cell_report import can_plot_matrix, matrix_figure, matrix_table
from joulelab.analysis.matrix import (
    COLUMNS,
    Variant,
    configurations,
    matrix_rows,
)
from joulelab.analysis.style import save_png_and_svg
from joulelab.analysis.table import frame
from joulelab.core.measurement import Finding
from joulelab.core.record import Record
from joulelab.csv_table import read_csv_table
from joulelab.study.conclude import conclude_matrix, live_page, report_anew
from joulelab.tracking.store import ResultStore
from joulelab.workloads import WORKLOADS

GEMM = Variant(workload="gemm", name="n=64", knobs={"n": 64}, batches=(1,))
STREAM = Variant(workload="stream", name="copy", knobs={}, batches=())
LSTM = Variant(workload="lstm", name="tiny", knobs={"model": "tiny"}, batches=(4,))


def matrix(*variants, precisions=("fp32", "fp16", "int8")):
    return [(variant, variant.grid(precisions)) for variant in variants]


def measured(configuration, phase, energy_j=2.0, *, findings=(), cap_share=0.0):
    window = EnergyWindow(
        start_s=0.0, duration_s=0.5, energy_j=energy_j, energy_u_j=0.01, source="counter", work=1.0
    )
    made = measurement(phase=phase, configuration=configuration, trial=configuration.config_hash)
    return replace(
        made,
        windows=(window,),
        findings=findings,
        measurement_id=f"{configuration.config_hash}-{phase}",
        observed=replace(made.observed, power_cap_share=cap_share),
    )


def test_every_cell_is_a_row_and_those_without_figures_have_a_reason():
    cells = matrix(GEMM, STREAM)
    known = [measured(each, "gemm") for each in configurations(cells[:1])[:1]]

    rows = matrix_rows(cells, known)

    assert [(row.variant, row.precision, row.outcome) for row in rows] == [
        ("n=64", "fp32", "measured"), ("n=64", "fp16", "missing"), ("n=64", "int8", "refused"),
        ("copy", "fp32", "missing"), ("copy", "fp16", "missing"), ("copy", "int8", "refused"),
    ]  # fmt: skip
    assert [bool(row.reason) for row in rows] == [False, True, True, True, True, True]
    assert "int8" in rows[2].reason
    assert [row.batch for row in rows] == [1, 1, 1, None, None, None]


def test_a_phase_that_a_format_does_not_have_is_no_row():
    rows = matrix_rows(matrix(LSTM), [])

    phases = [(row.precision, row.phase) for row in rows if row.phase]
    assert phases == [("fp32", "inference"), ("fp32", "train"), ("fp16", "inference")]


@pytest.mark.parametrize(
    ("reason", "outcome"), [("unsupported", "unsupported"), ("not_steady", "invalid")]
)
def test_what_gave_no_figures_says_so_with_its_finding(reason, outcome):
    cells = matrix(GEMM, precisions=("fp32",))
    finding = Finding(reason=reason, detail="Why it is.")

    [row] = matrix_rows(cells, [measured(*configurations(cells), "gemm", findings=(finding,))])

    assert row.outcome == outcome
    assert "Why it is." in row.reason
    assert row.seen.energy_per_unit_j is None


def test_one_valid_repeat_makes_a_cell_measured():
    cells = matrix(GEMM, precisions=("fp32",))
    [configuration] = configurations(cells)
    finding = Finding(reason="not_steady", detail="Why it is.")
    good, bad = (
        measured(configuration, "gemm"),
        measured(configuration, "gemm", findings=(finding,)),
    )

    [row] = matrix_rows(cells, [good, bad])

    assert row.outcome == "measured"
    assert (row.seen.num_valid, row.seen.num_invalid) == (1, 1)


def test_the_csv_holds_figures_reasons_and_the_knobs_to_measure_it_again(tmp_path):
    cells = matrix(GEMM, precisions=("fp32", "int8"))
    [configuration] = configurations(cells)
    rows = matrix_rows(cells, [measured(configuration, "gemm", 3.0, cap_share=0.9)])

    frame(COLUMNS, rows, digits=6).write(tmp_path / "table.csv")

    first, second = read_csv_table(tmp_path / "table.csv")
    assert float(first["energy_per_unit_j"]) == 3.0
    assert float(first["power_w"]) == 6.0
    assert first["power_capped"] == "1"
    assert json.loads(first["knobs"]) == dict(configuration.knobs)
    assert second["energy_per_unit_j"] == ""
    assert second["outcome"] == "refused"


def test_a_study_ends_in_a_page_a_table_and_an_answer(tmp_path):
    cells = matrix(GEMM, STREAM)
    store = ResultStore(tmp_path)
    store.write_study(header())
    for each, energy_j in zip(configurations(cells[:1]), (4.0, 2.0), strict=True):
        store.append(Record(measurement=measured(each, "gemm", energy_j), trace=None))

    rows = conclude_matrix(store, cells)

    console = Console(width=150, record=True)
    console.print(matrix_table(rows))
    assert "missing" in console.export_text()
    note = store.read_answer().note
    assert note.startswith("6 cells and phases: 2 measured, 2 refused, 2 missing.")
    assert "n=64: Least energy: fp16 at batch 1" in note
    assert "Least energy" in (tmp_path / "report.html").read_text()


def test_nothing_measured_yet_is_a_table_of_what_is_missing(tmp_path):
    store = ResultStore(tmp_path)
    store.write_study(header())

    rows = conclude_matrix(store, matrix(STREAM, precisions=("fp32",)))

    assert [row.outcome for row in rows] == ["missing"]


def test_a_matrix_is_reported_anew_from_its_folder(tmp_path, capsys):
    """It was said to be of another kind."""
    settings = (("only", "copy"), ("precisions", "fp32 int8"), ("batches", ""), ("again", False))
    cells = matrix(STREAM, precisions=("fp32", "int8"))
    with closing(ResultStore(tmp_path, writer="here")) as store:
        known = measured(*configurations(cells), WORKLOADS.of(*configurations(cells)).phases[0])
        store.append(Record(measurement=known, trace=None))
        store.write_study(header(settings=settings))
        conclude_matrix(store, cells)
        written = (tmp_path / "workloads.csv").read_bytes()
        (tmp_path / "workloads.csv").unlink()

        report_anew(store)

    assert (tmp_path / "workloads.csv").read_bytes() == written
    assert "1 measured, 1 refused" in capsys.readouterr().out
    assert "1 measured, 1 refused" in live_page(tmp_path)  # a page of a sweep was shown


def test_the_plot_shows_energy_over_the_reference_and_why_a_cell_has_none(tmp_path):
    cells = matrix(GEMM, precisions=("fp32", "bf16", "fp16"))
    fp32, bf16, fp16 = configurations(cells)
    finding = Finding(reason="unsupported", detail="Why it is.")
    known = [
        measured(fp32, "gemm", 9.0),
        measured(bf16, "gemm", 2.0),
        measured(fp16, "gemm", findings=(finding,)),
    ]

    paths = save_png_and_svg(matrix_figure(matrix_rows(cells, known)), tmp_path / "plot")

    assert [path.name for path in paths] == ["plot.png", "plot.svg"]
    drawn = (tmp_path / "plot.svg").read_text()
    for text in ("4.50", "1.00", "cannot run"):
        assert f"<!-- {text} -->" in drawn


def test_a_ratio_across_boards_is_marked(tmp_path):
    cells = matrix(GEMM, precisions=("fp32", "bf16"))
    fp32, bf16 = configurations(cells)
    known = [measured(fp32, "gemm", 9.0), measured(bf16, "gemm", 2.0)]
    other = replace(known[0].device, uuid="GPU-other")

    save_png_and_svg(matrix_figure(matrix_rows(cells, known)), tmp_path / "one")
    apart = matrix_rows(cells, [replace(known[0], device=other), known[1]])
    save_png_and_svg(matrix_figure(apart), tmp_path / "two")

    assert "4.50 --" in (tmp_path / "one.svg").read_text()
    assert "4.50* --" in (tmp_path / "two.svg").read_text()


def test_a_program_without_the_reference_is_compared_with_its_first_format(tmp_path):
    cells = matrix(GEMM, STREAM, precisions=("fp32", "bf16", "fp16"))
    known = [measured(each, each.workload, 4.0) for each in configurations(cells[:1])]
    fp32, _, fp16 = configurations(cells[1:])
    phase = WORKLOADS.of(fp32).phases[0]
    known += [measured(fp32, phase, 4.0), measured(fp16, phase, 1.0)]

    save_png_and_svg(matrix_figure(matrix_rows(cells, known)), tmp_path / "plot")

    drawn = (tmp_path / "plot.svg").read_text()
    assert "(over fp32)" in drawn
    assert "<!-- 0.25 -->" in drawn


def test_without_the_reference_there_is_no_plot(tmp_path):
    cells = matrix(GEMM, precisions=("fp32",))

    assert not can_plot_matrix(matrix_rows(cells, []))
    assert list(tmp_path.iterdir()) == []
