import re
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_tags import Tags
from rich.console import Console
from synthetic_results import board, energy_j, header, measurement, sweep

from joulelab.analysis.measurement_lines import measurements_frame, report_lines
from joulelab.analysis.plots import can_plot, phase_figure
from joulelab.analysis.style import save_png_and_svg, svg_of
from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.sweep_report import (
    COLUMNS,
    reported_table,
    sweep_frame,
    sweep_listing,
    sweep_report,
)
from joulelab.analysis.wording import sentence
from joulelab.cli.main import main
from joulelab.core.measurement import Finding, Observed
from joulelab.core.record import Record
from joulelab.csv_table import read_csv_table
from joulelab.study.conclude import conclude_sweep, report_of
from joulelab.tracking.store import ResultStore

ALL_CLOCKS_MHZ = tuple(range(345, 1981, 15))
CLOCKS_MHZ = tuple(range(600, 1951, 150))
CAPPED = Finding(reason="throttled", detail="The power cap <held> the clock down.")


@pytest.fixture(scope="module")
def measurements():
    """A full sweep whose highest clock the power cap did not allow."""
    capped = [
        replace(
            measurement(1995, minute=1000 + i, findings=[CAPPED]),
            observed=Observed(sm_clock_mhz=1700.0, power_cap_share=0.6),
        )
        for i in range(3)
    ]
    return [*sweep(ALL_CLOCKS_MHZ, num_boards=4), *capped]


@pytest.fixture(scope="module")
def result(measurements):
    return analyse_sweep(measurements)


@pytest.fixture(scope="module")
def phase(result):
    (found,) = result.phases
    return found


def printed(table):
    console = Console(width=100, file=StringIO())
    console.print(table)
    return console.file.getvalue()


def page_of(folder, result, measurements, **options):
    return sweep_report(result, measurements, **options).write_page(folder / "r.html").read_text()


def test_a_frame_has_a_row_per_measurement_and_its_vocabulary():
    capped = measurement(1500, findings=[CAPPED])
    frame = measurements_frame([measurement(1000), capped])

    assert frame["sm_clock_mhz"].tolist() == [1000, 1500]
    assert frame["energy_per_unit_j"][0] == pytest.approx(energy_j(1000))
    assert frame["energy_per_unit_j"].isna().tolist() == [False, True]
    assert frame["valid"].tolist() == [True, False]
    assert frame["invalid_reasons"].tolist() == ["", "throttled"]
    assert str(frame["provenance.started_at"].dtype).startswith("datetime64")


def test_the_table_fits_a_hundred_columns_and_tells_the_story(phase):
    text = printed(sweep_listing(phase).fitting(Console(width=100), more="sweep.csv has all"))

    assert max(map(len, text.splitlines())) <= 100
    assert "default (2000)" in text
    assert f"20 of {len(phase.rows)} points are shown; sweep.csv has all" in text
    assert "1 point without a valid measurement: 1 throttled" in text
    members = [phase.row(label).point.sm_clock_mhz for label in phase.members]
    best = phase.row(phase.recommended).point.sm_clock_mhz
    for clock in (best, max(members), min(members), min(ALL_CLOCKS_MHZ)):
        assert re.search(rf"\b{clock}\b", text)


@pytest.mark.parametrize("width", [200, 100, 90, 80, 70])
def test_a_narrow_terminal_loses_columns_and_never_digits(phase, width):
    console = Console(width=width, file=StringIO(), force_terminal=False)

    console.print(sweep_listing(phase).fitting(console))

    text = console.file.getvalue()
    rows = [
        line for line in text.splitlines() if re.match(r"\s*[*<=^]*\s+(default|\d{3,4})\b", line)
    ]
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert len(rows) == 20
    assert ("J s\N{SUPERSCRIPT TWO}" in text) == (width >= 100)


def test_the_whole_table_can_be_asked_for(phase):
    table = sweep_listing(phase).fitting(Console(width=100), max_rows=None)

    assert table.row_count == len(phase.rows) == 112


def test_the_csv_holds_every_point_in_si_units(result, phase, tmp_path):
    sweep_frame(result).write(tmp_path / "sweep.csv")

    rows = read_csv_table(tmp_path / "sweep.csv")
    assert len(rows) == len(phase.rows)
    assert tuple(rows[0]) == COLUMNS
    by_clock = {row["sm_clock_mhz"]: row for row in rows}
    figures = phase.row("1200MHz").figures
    assert float(by_clock["1200"]["energy_per_unit_j"]) == figures.energy_per_unit_j
    assert float(by_clock["1200"]["saving_low"]) == figures.saving.low
    assert by_clock["1995"]["energy_per_unit_j"] == ""
    assert by_clock["1995"]["reasons"] == "throttled"
    assert [row["sm_clock_mhz"] for row in rows if row["is_recommended"] == "1"] == [
        phase.recommended.removesuffix("MHz")
    ]
    assert [row["sm_clock_mhz"] for row in rows if row["is_lowest"] == "1"] == [
        phase.lowest.removesuffix("MHz")
    ]
    assert sum(int(row["in_set"]) for row in rows) == len(phase.members)


def test_what_the_workload_told_stands_beside_each_clock(tmp_path):
    def telling(each):
        clock_mhz = each.configuration.point.sm_clock_mhz or 1980
        return replace(each, figures=(("ttft_p50_s", 90 / clock_mhz),))

    result = analyse_sweep([telling(each) for each in sweep(CLOCKS_MHZ)])
    sweep_frame(result).write(tmp_path / "sweep.csv")

    rows = {row["sm_clock_mhz"]: row for row in read_csv_table(tmp_path / "sweep.csv")}
    assert float(rows["900"]["figures.ttft_p50_s"]) == pytest.approx(0.1)
    shown = printed(reported_table(result.phases[0]))
    assert "ttft_p50_s" in shown
    assert "600MHz" in shown
    assert "0.15" in shown


def test_a_workload_that_tells_nothing_has_no_table_of_it(phase):
    assert reported_table(phase) is None


def test_a_plot_is_written_as_png_and_svg(phase, tmp_path):
    png, svg = save_png_and_svg(phase_figure(phase), tmp_path / "decode.v1")

    assert png.name == "decode.v1.png"
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")


def test_a_plot_labels_the_best_the_default_and_the_cap(phase):
    drawn = svg_of(phase_figure(phase, with_head=False))

    texts = set(re.findall(r">([^<>]+)</text>", drawn))
    best = phase.row(phase.recommended).point.sm_clock_mhz
    assert {f"{best} MHz", "default", "power-capped", "Energy", "mJ/token"} <= texts


def test_a_plot_is_the_same_every_time(phase):
    assert svg_of(phase_figure(phase, with_head=False)) == svg_of(
        phase_figure(phase, with_head=False)
    )


def test_a_single_point_is_no_plot():
    (phase,) = analyse_sweep(sweep([])).phases

    assert not can_plot(phase)


@pytest.mark.parametrize(
    "change", [{}, {"has_default": False}, {"num_boards": 1}, {"repeats": 1, "sentinel_every": 2}]
)
def test_odd_sweeps_can_be_plotted(change, tmp_path):
    has_default = change.pop("has_default", True)
    rows = sweep(CLOCKS_MHZ, **change)
    rows = [m for m in rows if has_default or not m.configuration.point.is_default]

    for phase in analyse_sweep(rows).phases:
        save_png_and_svg(phase_figure(phase), tmp_path / "odd")


def test_the_report_stands_alone_and_is_whole(measurements, result, tmp_path):
    text = page_of(tmp_path, result, measurements, header=header())

    tags = Tags(text)
    assert tags.open == []
    assert tags.outside == []
    assert {"svg", "table", "blockquote", "details"} <= set(tags.seen)
    assert "script" not in tags.seen
    for said in (
        "multiple comparisons with the best",
        "some 5%",
        "SIM-invented-3",
        "The power cap &lt;held&gt; the clock down.",
        "experiments/dvfs_sweep.py --repeats 3",
        "0123456789ab",
        "windows of at least 2 s",
        "prefers-color-scheme: dark",
        "simulated or replayed",
    ):
        assert said in text


def test_the_first_thing_in_a_report_is_the_answer(measurements, result, phase, tmp_path):
    text = page_of(tmp_path, result, measurements)

    headline = re.search(r"<h1>(.*?)</h1>", text)[1]
    assert headline.startswith(f"{phase.row(phase.recommended).point.sm_clock_mhz} MHz: -")


def test_a_report_of_hardware_has_no_notice(tmp_path):
    rows = [replace(m, device=replace(m.device, backend="nvml")) for m in sweep(CLOCKS_MHZ)]

    text = page_of(tmp_path, analyse_sweep(rows), rows)

    assert "simulated or replayed" not in text


def test_plots_of_one_report_share_no_ids(tmp_path):
    rows = sweep(CLOCKS_MHZ) + sweep(CLOCKS_MHZ, phase="prefill", seed=1)

    text = page_of(tmp_path, analyse_sweep(rows), rows)

    first, second = (set(re.findall(r'\bid="([^"]+)"', svg)) for svg in text.split("<svg")[1:])
    assert first
    assert not first & second


def test_a_report_warns_of_drift(tmp_path):
    rows = sweep(CLOCKS_MHZ, num_boards=1, noise=0.001, drift_per_minute=0.001)

    text = page_of(tmp_path, analyse_sweep(rows), rows)

    assert "while it was measured" in text


@pytest.mark.parametrize(
    ("length_s", "words"), [(1.88, "2 s"), (90, "90 s"), (600, "10 min"), (9000, "2.5 h")]
)
def test_a_report_says_how_long_a_board_was_watched(tmp_path, length_s, words):
    """It said that a board drifted "over 0.0313 min"."""
    rows = sweep(CLOCKS_MHZ, num_boards=1, noise=0.001)
    result = analyse_sweep(rows)
    (phase,) = result.phases
    (drift,) = phase.drifts
    watched = replace(phase, drifts=(replace(drift, span_s=length_s),))

    text = page_of(tmp_path, replace(result, phases=(watched,)), rows)

    assert f"<td>{words}</td>" in text


def test_a_report_of_nothing_valid_says_so(tmp_path):
    rows = [measurement(1500, findings=[CAPPED])]

    text = page_of(tmp_path, analyse_sweep(rows), rows)

    assert "No recommendation: none of 1 measurements is valid." in text
    assert "<svg" not in text


@pytest.fixture(scope="module")
def concluded(tmp_path_factory):
    """The store of a sweep of two phases, its answer, and what was found."""
    store = ResultStore(tmp_path_factory.mktemp("results"))
    store.write_study(header())
    for m in sweep(CLOCKS_MHZ) + sweep(CLOCKS_MHZ, phase="prefill", seed=1):
        store.append(Record(measurement=m, trace=None))
    result = conclude_sweep(store)
    return store, store.read_answer(), result


def test_a_sweep_is_told_again_from_its_folder_alone(tmp_path, capsys):
    store = ResultStore(tmp_path)
    store.write_study(header(settings=(("objective", "ed2p"),)))
    store.append(*(Record(measurement=m, trace=None) for m in sweep(CLOCKS_MHZ)))
    conclude_sweep(store, "ed2p")
    before = store.read_answer()
    for name in before.files:
        (tmp_path / name).unlink()

    assert main(["report", str(tmp_path)]) == 0

    assert store.read_answer() == before
    assert all((tmp_path / name).stat().st_size > 500 for name in before.files)
    assert "ED2P" in capsys.readouterr().out


def test_the_conclusion_of_a_sweep_is_in_its_folder(concluded):
    store, answer, _ = concluded

    assert all((store.folder / file).stat().st_size > 0 for file in answer.files)
    assert {"report.html", "sweep.csv", "sweep-llama-prefill.png"} <= set(answer.files)


def test_the_conclusion_gives_the_answer_in_words_and_numbers(concluded):
    _, answer, result = concluded

    summary = dict(answer.summary)
    decode = result.phases[0]
    assert (
        summary["best.llama-decode.saving"] == decode.row(decode.recommended).figures.saving.value
    )
    assert summary["best.llama-decode.num_in_set"] == len(decode.members)
    lowest = decode.row(decode.lowest)
    assert summary["lowest.llama-decode.sm_clock_mhz"] == lowest.point.sm_clock_mhz
    assert summary["lowest.llama-decode.saving"] == lowest.figures.saving.value
    assert answer.note == sentence(result)


def test_a_concluded_sweep_is_printed_with_its_answer_and_its_files(concluded):
    store, answer, result = concluded
    console = Console(width=100, file=StringIO())

    report_of(store, result).print(store.folder, console=console)

    text = console.file.getvalue()
    assert "llama prefill on simulated Invented GPU" in text
    assert f"{store.folder / 'report.html'}\n" in text
    flowing = " ".join(text.split())
    assert all(line in flowing for line in answer.note.splitlines())


def test_devices_of_other_names_are_kept_apart_in_the_report(tmp_path):
    other = replace(board(7), name="Another <GPU>")
    rows = sweep(CLOCKS_MHZ)
    rows += [replace(m, device=other) for m in sweep(CLOCKS_MHZ, num_boards=1)]

    text = page_of(tmp_path, analyse_sweep(rows), rows)

    assert "Another &lt;GPU&gt;" in text
    assert "Another <GPU>" not in text


def test_analysing_needs_no_plotting_library():
    root = Path(__file__).parents[3]
    code = (
        f"import sys; sys.path[:0] = [{str(root / 'platform')!r}]\n"
        "import joulelab.analysis.sweep, joulelab.analysis.wording\n"
        "print([m for m in ('matplotlib', 'pandas', 'scipy', 'rich') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_what_every_gpu_says_of_one_quantity_is_one_row():
    waited = (("gpu0.waiting_per_unit_s", 1e-6), ("gpu1.waiting_per_unit_s", 2e-6))
    shared = replace(measurement(1200), figures=(*waited, ("ttft_p50_s", 0.5)))

    lines = report_lines([Record(measurement=shared, trace=None)])

    rows = [line.split(maxsplit=1) for line in lines if line.startswith(("  waiting", "  ttft"))]
    assert rows == [
        ["waiting", "gpu0.waiting_per_unit_s 1e-06, gpu1.waiting_per_unit_s 2e-06"],
        ["ttft", "ttft_p50_s 0.5"],
    ]


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ((None, None), None),
        ((0.0, 0.1, 0.4, None), "for 10% of a measurement at the median and 40% at most"),
    ],
)
def test_methods_say_how_much_others_slowed_the_host(shares, told):
    rows = [
        replace(one, observed=replace(one.observed, host_disturbed_share=share))
        for one, share in zip(sweep(CLOCKS_MHZ), shares * 99, strict=False)
    ]

    (section,) = sweep_report(analyse_sweep(rows), rows).sections

    assert ("Other work slowed the core" in section.methods) == (told is not None)
    assert told is None or told in section.methods


def test_a_measurement_says_how_much_others_slowed_its_host():
    one = measurement(1410)
    disturbed = replace(one, observed=replace(one.observed, host_disturbed_share=0.31))

    before, after = (
        str(report_lines([Record(measurement=each, trace=None)])) for each in (one, disturbed)
    )

    assert "others slowed" not in before
    assert "others slowed the host's core 31%" in after
