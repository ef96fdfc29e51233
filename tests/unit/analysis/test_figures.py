"""What is seen on a figure: that nothing is cut off, squeezed or written upon."""

import re
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from rich.console import Console
from synthetic_results import DEFAULT_MHZ, measurement, sweep, time_s, visits

from joulelab import EnergyWindow
from joulelab.analysis.knob_grid import Axis, KnobLog, KnobStudy, knob_grid
from joulelab.analysis.knob_plot import knob_figure
from joulelab.analysis.knob_report import knob_report
from joulelab.analysis.knob_study import analyse_knobs
from joulelab.analysis.labels import Label, write_labels
from joulelab.analysis.plots import phase_figure
from joulelab.analysis.style import COLUMN_IN, headline
from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.sweep_report import sweep_report
from joulelab.analysis.table import plain_cells

CLOCKS_MHZ = tuple(range(300, 1951, 75))
THROUGHPUTS = (17900, 31400, 33800, 34630, 34640, 34200, 35550, 34180)
ENERGIES_MJ = (25.7, 21.5, 20.8, 20.43, 20.08, 19.98, 19.75, 19.86)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Prefill of Llama-2-7B on an H200: from batch 4 on, all comes to about the same."""

MODELS = ("tinyllama", "llama-3.2-1b", "llama-3.2-3b", "llama-2-7b", "llama-3-8b", "llama-2-13b")
PARAMETERS = (1.1e9, 1.24e9, 3.2e9, 6.7e9, 8e9, 13e9)
SIZE_RATES = (
    37420, 50840, 29180, 25080, 24460, 16680, 209400, 228200, 84400, 39670, 38230, 20860
)  # fmt: skip
SIZE_ENERGIES_MJ = (
    6.565, 5.466, 12.193, 21.92, 23.25, 41.16, 3.22, 3.005, 8.254, 17.363, 18.16, 32.17
)  # fmt: skip
"""Prefill on a simulated H200, at batch 1 and 16."""
NAMES = ("default", "power-capped")


@pytest.fixture(scope="module")
def result():
    return analyse_sweep(sweep(CLOCKS_MHZ))


@pytest.fixture(scope="module")
def phase(result):
    return result.phases[0]


def measured(grid, rates, energies_mj):
    """Analyse a study whose cases come to these, in the order of the grid."""
    rows = []
    for case, rate, energy_mj in zip(grid.cases, rates, energies_mj, strict=True):
        window = EnergyWindow(
            start_s=0.0, duration_s=1000 / rate, energy_j=energy_mj, energy_u_j=0.005 * energy_mj,
            source="counter", work=1000.0,
        )  # fmt: skip
        made = measurement(configuration=case.configuration, measurement_id=case.label)
        rows.append(replace(made, windows=(window,)))
    return analyse_knobs(rows, grid)


@pytest.fixture(scope="module")
def crowded():
    """A study of batches, most of which come to about the same throughput and energy."""
    batch = Axis(knob="batch", values=BATCHES, title="batch")
    return measured(knob_grid("llama", {"model": "tiny"}, [batch]), THROUGHPUTS, ENERGIES_MJ)


@pytest.fixture(scope="module")
def sizes():
    """A study of six networks at two batches."""
    axes = [
        Axis(knob="batch", values=(1, 16), title="batch"),
        Axis(knob="model", values=MODELS, title="parameters", places=PARAMETERS),
    ]
    return measured(knob_grid("llama", {}, axes), SIZE_RATES, SIZE_ENERGIES_MJ)


def boxes(figure):
    """Return each text of a figure, and where its letters are."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    found = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    renderer = canvas.get_renderer()
    # That of an annotation holds the line to its dot, too.
    return [(text.get_text(), Text.get_window_extent(text, renderer)) for text in found]


def test_nothing_of_a_head_is_cut_off(phase):
    """The line below the title ran out of the picture."""
    figure = phase_figure(phase)

    said, about = (box for _, box in boxes(figure)[:2])

    assert max(said.x1, about.x1) <= figure.bbox.x1
    assert said.y0 > about.y1
    assert about.y0 > max(axes.bbox.y1 for axes in figure.axes)


def test_a_long_answer_is_no_title():
    """A sentence of eight lines stood above a figure."""
    answer = f"810 MHz: -36.4 % energy at +0.5 % time; {'and so on and on ' * 30}."

    assert headline(answer) == "810 MHz: -36.4 % energy at +0.5 % time."
    assert headline("Short; and whole.") == "Short; and whole."


def test_points_beyond_the_axis_are_marked_and_counted(phase):
    """Time and EDP at slow clocks were cropped without a mark."""
    figure = phase_figure(phase)
    _, time, product, trade = figure.axes

    for axes, values in (
        (time, [figures.time_per_unit_s for _, figures in phase.measured]),
        (product, [figures.edp_js for _, figures in phase.measured]),
    ):
        num = sum(value > 2.2 * min(values) for value in values)
        assert num > 0
        (triangles,) = [line for line in axes.get_lines() if line.get_marker() == "^"]
        assert len(triangles.get_xdata()) == pytest.approx(num, abs=2)
        assert f"{len(triangles.get_xdata())} beyond the axis" in {t.get_text() for t in axes.texts}
    assert any("beyond the axis" in text.get_text() for text in trade.texts)


def test_a_trade_off_is_as_wide_as_times_are_uncertain():
    """Where no clock costs time, its axis was 0.07 % long, without bars, and held two of nine."""
    rows = []
    for visit in visits((300, 600, 900, 1200, 1500, 1800)):
        clock_mhz = visit["clock_mhz"] or DEFAULT_MHZ
        even = visit["time_factor"] * time_s(DEFAULT_MHZ) / time_s(clock_mhz)
        rows.append(measurement(**visit | {"time_factor": even}))
    (phase,) = analyse_sweep(rows).phases

    *_, trade = phase_figure(phase).axes

    left, right = trade.get_xlim()
    default = phase.default.figures
    for _row, figures in phase.measured:
        x = 100 * (figures.time_per_unit_s / default.time_per_unit_s - 1)
        assert left < x < right
        if figures.on_front:
            half = 200 * figures.time_per_unit_u_s / default.time_per_unit_s
            assert left < x - half < x + half < right


@pytest.mark.parametrize("clocks_mhz", [CLOCKS_MHZ, (1200, 1350, 1500, 1650, 1800, 1950)])
def test_names_in_a_sweep_lie_upon_no_dot_no_ring_and_no_other_name(clocks_mhz):
    """The clock that is recommended was written upon the ring around the lowest EDP."""
    (phase, *_) = analyse_sweep(sweep(clocks_mhz)).phases
    figure = phase_figure(phase)

    found = [(text, box) for text, box in boxes(figure) if text in NAMES or text.endswith(" MHz")]

    assert len(found) >= 2 * len(figure.axes)
    for (one, a), (other, b) in combinations(found, 2):
        assert not a.overlaps(b), f"{one} lies upon {other}"
    for axes in figure.axes:
        for line in axes.get_lines():
            if line.get_marker() not in ("o", "D"):
                continue
            half = figure.dpi / 72 * line.get_markersize() / 2
            for x, y in axes.transData.transform(line.get_xydata()):
                dot = Bbox.from_extents(x - half, y - half, x + half, y + half)
                assert not any(box.overlaps(dot) for _, box in found)


def test_dots_that_lie_together_all_have_names_that_lie_upon_nothing(crowded):
    (phase,) = crowded.phases
    figure = knob_figure([phase], ["trade"])

    found = [(text, box) for text, box in boxes(figure) if text.startswith("batch ")]

    assert len(found) == len(BATCHES)
    for (one, a), (other, b) in combinations(found, 2):
        assert not a.overlaps(b), f"{one} lies upon {other}"
    (axes,) = figure.axes
    for rate, energy_mj in zip(THROUGHPUTS, ENERGIES_MJ, strict=True):
        x, y = axes.transData.transform((rate, energy_mj))
        assert not any(box.contains(x, y) for _, box in found)


@pytest.mark.parametrize("panel", ["energy", "trade"])
def test_names_of_curves_and_of_their_dots_lie_upon_nothing(sizes, panel):
    """The name of a curve was written upon that of a dot, and upon the curve itself."""
    (phase,) = sizes.phases
    figure = knob_figure([phase], [panel])
    wanted = ("batch 1", "batch 16", *MODELS)

    found = [(text, box) for text, box in boxes(figure) if text in wanted]

    assert {"batch 1", "batch 16", "tinyllama", "llama-3.2-3b"} <= {text for text, _ in found}
    for (one, a), (other, b) in combinations(found, 2):
        assert not a.overlaps(b), f"{one} lies upon {other}"
    (axes,) = figure.axes
    for line in axes.get_lines():
        if line.get_marker() != "o":
            continue
        dots = axes.transData.transform(line.get_xydata())
        for (x, y), (to_x, to_y) in pairwise(dots):
            along = [(x + k / 20 * (to_x - x), y + k / 20 * (to_y - y)) for k in range(21)]
            assert not any(box.contains(*at) for _, box in found for at in along)


def test_a_name_with_no_place_is_left_out_and_not_written_upon_a_dot():
    """The name of batch 64 was written upon the dot of batch 2, to which its line did not lead."""
    batch = Axis(knob="batch", values=BATCHES, title="batch")
    rates = (24960, 37280, 39310, 39320, 39990, 40200, 40490, 40310)
    energies_mj = (21.71, 18.439, 17.64, 17.457, 17.402, 17.322, 17.213, 17.095)
    (phase,) = measured(knob_grid("llama", {}, [batch]), rates, energies_mj).phases
    figure = knob_figure([phase], ["energy", "trade"])

    found = [(text, box) for text, box in boxes(figure) if text.startswith("batch ")]

    assert {"batch 1", "batch 2", "batch 128"} <= {text for text, _ in found}
    _, axes = figure.axes
    for dot in zip(rates, energies_mj, strict=True):
        assert not any(box.contains(*axes.transData.transform(dot)) for _, box in found)


def test_figures_for_papers_are_pdf_of_a_columns_width(result, crowded, tmp_path):
    batch = Axis(knob="batch", values=BATCHES, title="batch")
    grid = knob_grid("llama", {"model": "tiny"}, [batch])
    log = KnobLog(
        study=KnobStudy(grid=grid, about="batches", panels=("energy", "trade")), quality=()
    )

    *panels, table = sweep_report(result, sweep(CLOCKS_MHZ)).write_for_papers(tmp_path)
    *knobs, knob_table = knob_report(crowded, log, [], header=None).write_for_papers(tmp_path)

    assert [table.name, knob_table.name] == [
        "table-llama-decode-on-simulated-Invented-GPU.tex",
        "table-llama-decode-on-simulated-Invented-GPU.tex",
    ]
    assert [path.name for path in panels] == [
        f"sweep-llama-decode-{name}.pdf" for name in ("energy", "time", "edp", "trade-off")
    ]
    assert [path.name for path in knobs] == ["study-decode-energy.pdf", "study-decode-trade.pdf"]
    for path in (*panels, *knobs):
        width, _ = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", path.read_bytes()).groups()
        assert float(width) == pytest.approx(72 * COLUMN_IN)


def test_tables_for_papers_have_the_numbers_that_are_printed(result, tmp_path):
    report = sweep_report(result, sweep(CLOCKS_MHZ))
    (section,) = report.sections
    heads, printed = plain_cells(section.listing.fitting(Console(width=1000), max_rows=4))

    *_, path = report.write_for_papers(tmp_path, max_rows=4)

    lines = path.read_text().splitlines()
    assert lines[0].startswith("% llama decode on ")
    tabular = lines[lines.index(r"\begin{tabular}{l" + (len(heads) - 1) * "r" + "}") :]
    between = tabular[tabular.index(r"\midrule") + 1 : tabular.index(r"\bottomrule")]
    rows = [line.removesuffix(r" \\").split(" & ") for line in between]
    written = [[re.sub(r"\$(.)\$|\\(%)", r"\1\2", cell.strip()) for cell in row] for row in rows]
    assert written == [[" ".join(cell.split()) for cell in row] for row in printed]
    assert 1 < len(written) < len(CLOCKS_MHZ)


def test_a_name_does_not_seem_to_be_that_of_a_ringed_dot():
    """The recommended clock's name stood below the ring around the lowest."""
    around = [(6, 5.6), (6, 4.6), (4.4, 5.6), (7, 5), (5, 5.6)]

    def distances(**ringed):
        figure = Figure(figsize=(4, 4))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 10), ylim=(0, 10))
        label = Label(x=5, y=5, text="720 MHz", color="k", is_strong=True)
        write_labels(axes, [label], around, **ringed)
        (box,) = (text.get_window_extent() for text in axes.texts)
        places = axes.transData.transform([(5, 5), (4, 4.9)])
        return [min(abs(x - np.clip(x, box.x0, box.x1)) for x in [place[0]]) for place in places]

    own, other = distances()
    own_ringed, other_ringed = distances(ringed=[(4, 4.9)])

    assert other < own
    assert own_ringed <= other_ringed
