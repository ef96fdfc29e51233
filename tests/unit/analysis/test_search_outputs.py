"""What a search found: its table, plots, report, and what its results folder holds."""

import json
import re
from collections import Counter
from dataclasses import replace
from io import StringIO
from math import log
from pathlib import Path
from random import Random
from shutil import copytree

import pytest
from rich.console import Console
from search_surfaces import Surface, large_space, medium_space, problem_on
from synthetic_results import board, header, measurement, provenance

from joulelab.analysis.search_plot import course_figure, front_figure
from joulelab.analysis.search_report import TABLE, chosen_rows, search_listing
from joulelab.analysis.search_result import LOG, SearchMethod, chart_point, read_log
from joulelab.analysis.search_result import result_of as restored
from joulelab.analysis.study_report import REPORT
from joulelab.cli.main import main
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding, Observed
from joulelab.core.record import Record
from joulelab.csv_table import read_csv_table
from joulelab.searching.constraints import Constraint
from joulelab.searching.course import Course
from joulelab.searching.evidence import Evidence, Kept
from joulelab.searching.space import SearchSpace
from joulelab.study.conclude import report_of
from joulelab.study.events import outcome_of, spent_j
from joulelab.study.search import conclude_search
from joulelab.tracking.store import ResultStore

CAPPED = Finding(reason="power_capped", detail="The power cap <held> the clock at 1200 MHz.")
HOT = Finding(reason="throttled", detail="Thermal slowdown for 10 % of the time.")
METHOD = SearchMethod(
    algorithm="model-guided",
    seed=7,
    budget="40 trials",
    most_repeats=5,
    stopped_by="the budget of 40 trials",
    num_confirming=3,
)
KEPT = {"fp32": 1.0, "tf32": 0.999, "bf16": 0.991, "int8": 0.96}
CLOCK = SearchSpace("vit", {"sm_clock_mhz": (1410, 1200, 1005, 900)})


def measured(space, place, number, *, num_boards=2, findings=()):
    """Measure one configuration of a surface in closed form, on a board of its own gain."""
    configuration, index = space[place], number % num_boards
    energy_j, time_s, _ = Surface(space).truth(configuration)
    random = Random(number)
    windows = tuple(
        EnergyWindow(
            start_s=60 * number + i,
            duration_s=time_s * 1000 * (1 + random.gauss(0, 1e-3)),
            energy_j=energy_j * 1000 * (1 + 0.03 * index + random.gauss(0, 2e-3)),
            energy_u_j=energy_j,
            source="counter",
            work=1000,
        )
        for i in range(3)
    )
    return replace(
        measurement(),
        measurement_id=f"m{number}",
        study="search",
        trial=f"{number:05d}-{configuration.point.label}",
        configuration=configuration,
        phase="forward",
        unit="image",
        device=board(index),
        windows=windows,
        observed=Observed(
            temperature_start_c=50.0, temperature_stop_c=50.0 + number % 4, memory_used_b=3 * 10**9
        ),
        findings=tuple(findings),
        provenance=provenance(number),
        sentinel=place == 0,
    )


def concluded(folder, space, measurements, *, objective="edp", constraints=(), kept=None):
    """Conclude a search as at its end; returns its store and its result."""
    problem = problem_on(space, objective, constraints)
    store, evidence, course, taken_j = ResultStore(folder), Evidence(problem), Course(problem), 0.0
    store.write_study(header(name="search"))
    for m in measurements:
        store.append(Record(measurement=m, trace=None))
        outcome = outcome_of([m])
        if outcome.figures is not None and kept is not None:
            retention = kept[dict(m.configuration.knobs)["precision"]]
            figures = replace(outcome.figures, retention=retention, retention_u=0.001)
            outcome = replace(outcome, figures=figures)
        evidence.add(outcome)
        taken_j += spent_j(m)
        course.add(outcome, spent_j=taken_j)
    return store, conclude_search(store, evidence, course, METHOD)


@pytest.fixture(scope="module")
def places():
    random = Random(0)
    return [0, 0, *random.sample(range(1, len(large_space())), 34), 0, 0]


@pytest.fixture(scope="module")
def search(tmp_path_factory, places):
    """A search over clock, batch and format with a capped and a failed trial."""
    found = [measured(large_space(), place, number) for number, place in enumerate(places)]
    found.append(measured(large_space(), 1, 38, findings=[CAPPED]))
    found.append(measured(large_space(), 2, 39, findings=[HOT]))
    limit = Constraint(quantity="slowdown", bound=0.3, against="baseline")
    folder = tmp_path_factory.mktemp("search")
    return concluded(folder, large_space(), found, constraints=[limit])


def printed(result, width=100):
    console = Console(width=width, file=StringIO())
    console.print(search_listing(result).fitting(console, more="search.csv has all"))
    return console.file.getvalue()


def test_the_table_shows_the_baseline_the_choice_its_equals_and_the_front(search):
    _, result = search

    shown = chosen_rows(result, 12)

    told = [row for row in result.rows if row.is_baseline or row.in_set or row.on_front]
    assert set(map(id, told)) <= set(map(id, shown))
    assert shown[0].is_baseline
    assert shown[1].is_best
    assert len(shown) == 12


@pytest.mark.parametrize("width", [160, 100, 90])
def test_a_narrow_terminal_loses_columns_and_never_digits(search, width):
    text = printed(search[1], width)

    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert max(map(len, text.splitlines())) <= width
    assert (" power " in text.splitlines()[1]) == (width == 160)
    assert re.search(r"^ *\*[fk]? +\d+ ", text, re.MULTILINE)
    assert "search.csv has all" in text


def test_the_csv_holds_every_configuration_in_si_units(search):
    store, result = search

    rows = read_csv_table(store.folder / TABLE)

    assert len(rows) == len(result.rows)
    best = next(row for row in rows if row["is_best"] == "1")
    figures = result.answer.best.figures
    assert float(best["energy_per_unit_j"]) == pytest.approx(figures.energy_j)
    assert float(best["memory_b"]) == 3e9
    assert float(best["cost_ratio"]) == pytest.approx(result.answer.cost_ratio.value)
    assert best["precision"] == dict(result.answer.best.configuration.knobs)["precision"]
    lost = {row["reason"]: row for row in rows if not row["energy_per_unit_j"]}
    assert {reason.partition(":")[0] for reason in lost} == {"power_capped", "throttled"}
    assert Counter(row["is_capped"] for row in rows)["1"] == 1


def test_a_baseline_that_the_power_cap_held_is_said_to_be_capped(tmp_path):
    """Nothing was asked of its clock, so it has figures, and it was 0 in the column is_capped."""
    capped, *others = (measured(CLOCK, place, number) for number, place in enumerate([0, 1, 2, 3]))
    capped = replace(capped, observed=replace(capped.observed, power_cap_share=0.6))

    store, result = concluded(tmp_path, CLOCK, [capped, *others])

    baseline, *rest = read_csv_table(store.folder / TABLE)
    assert (baseline["is_baseline"], baseline["is_capped"]) == ("1", "1")
    assert {row["is_capped"] for row in rest} == {"0"}
    assert re.search(r"\^ +baseline", printed(result))


@pytest.mark.parametrize(
    ("quantity", "bound", "head"),
    [
        ("latency_s", 1.0, "request"),
        ("memory_b", 4e9, "device memory"),
        ("temperature_c", 80.0, "hottest"),
    ],
)
def test_what_is_bounded_has_a_column(tmp_path, quantity, bound, head):
    """A search bounded in latency showed no column of it, nor did its CSV."""
    constraint = Constraint(quantity=quantity, bound=bound)
    found = [measured(CLOCK, place, number) for number, place in enumerate([0, 1, 2, 3])]

    store, result = concluded(tmp_path, CLOCK, found, constraints=(constraint,))

    lines = printed(result).splitlines()
    assert head in lines[1] + lines[0]
    assert sum("MHz" in line for line in lines) == 1
    assert not any(line.rstrip().endswith("\N{PLUS-MINUS SIGN}") for line in lines)
    for row in read_csv_table(store.folder / TABLE):
        assert 0 < float(row[quantity]) <= bound
        assert float(row["latency_s"]) == pytest.approx(32 * float(row["time_per_unit_s"]))


def test_the_report_says_what_was_done_and_what_it_took(search):
    store, _ = search

    page = (store.folder / REPORT).read_text(encoding="utf-8")

    assert page.count("<svg") == 2
    assert "model-guided, seed 7" in page
    assert "at most 30 % more time than the baseline" in page
    assert "The search was ended by the budget of 40 trials." in page
    assert "With the last 3 trials of the budget the best and the knee of the front were" in page
    assert "power-capped" in page
    assert "1 throttled" in page
    assert "The power cap &lt;held&gt; the clock" in page
    assert "<held>" not in page


def test_the_report_says_how_warm_the_boards_were(search):
    """Trials 0, 1, 36 and 37 are repeats of the baseline, at 50, 51, 50 and 51 degrees."""
    page = (search[0].folder / REPORT).read_text(encoding="utf-8")

    assert "Boards were at 50 to 53 degrees Celsius" in page
    assert "in repeats of one configuration at most 1 K apart" in page
    assert "the physical model alone that allows for temperature" in page


def test_the_answer_has_files_numbers_and_the_course(search):
    store, result = search

    answer = store.read_answer()

    assert all((store.folder / name).stat().st_size > 500 for name in answer.files)
    assert {name.rpartition(".")[2] for name in answer.files} == {"html", "csv", "png", "svg"}
    summary = dict(answer.summary)
    assert summary["cost_ratio"] == result.answer.cost_ratio.value
    assert summary["best.batch"] == dict(result.answer.best.configuration.knobs)["batch"]
    assert "best.precision" not in summary  # it has no number
    assert summary["best.memory_b"] == 3e9
    assert summary["best.sm_clock_mhz"] == result.answer.best.configuration.point.sm_clock_mhz
    assert [point.step for point in answer.chart] == list(range(1, 41))
    last = dict(answer.chart[-1].values)
    assert last["num_valid"] == 38
    assert last["search_energy_j"] == pytest.approx(result.answer.spent_j)
    ratios = {run.measurement_id: dict(run.values)["cost_ratio"] for run in answer.runs}
    assert set(ratios) == {f"m{number}" for number in range(38)}
    assert ratios["m0"] == pytest.approx(1.0, abs=0.01)


def test_what_was_found_is_printed_with_the_places_of_its_files(search):
    store, result = search
    console = Console(width=100, file=StringIO())

    report_of(store, result).print(store.folder, console=console)

    text = console.file.getvalue()
    assert "Choose " in text
    assert f"{store.folder / REPORT}\n" in text


def test_a_search_with_quality_tells_it_everywhere(tmp_path, places):
    found = [measured(large_space(), place, number) for number, place in enumerate(places)]

    store, result = concluded(tmp_path, large_space(), found, objective="qep", kept=KEPT)

    assert result.has_quality
    assert "% kept" in printed(result, 160)
    page = (store.folder / REPORT).read_text(encoding="utf-8")
    assert "Colour: share of the reference" in page
    assert dict(store.read_answer().runs[0].values)["retention"] in KEPT.values()


@pytest.mark.parametrize("num_boards", [1, 2])
@pytest.mark.parametrize(
    ("space", "places"),
    [
        (CLOCK, [0, 0, 1, 2, 3, 4]),
        (SearchSpace("vit", {"precision": ("fp32", "tf32", "bf16")}), [0, 0, 1, 2]),
        (SearchSpace("vit", {"sm_clock_mhz": (1200, 900), "batch": (1, 64)}), [0, 0]),
    ],
    ids=["one axis", "choices", "the baseline alone"],
)
def test_any_search_can_be_told(tmp_path, space, places, num_boards):
    found = [measured(space, p, n, num_boards=num_boards) for n, p in enumerate(places)]

    store, result = concluded(tmp_path, space, found)

    assert (store.folder / REPORT).exists()
    assert (store.folder / "search-front.png").exists() == (len(set(places)) > 1)
    assert printed(result)


def test_what_is_not_known_is_absent_from_the_chart():
    course = Course(problem_on(CLOCK))
    early = outcome_of([measured(CLOCK, 1, 0)])

    values = dict(chart_point(course.add(early, spent_j=5.0)).values)

    assert set(values) == {"search_energy_j", "num_valid", "num_capped", "num_failed"}


def test_a_search_is_told_again_from_its_folder_alone(tmp_path, places, capsys):
    found = [measured(large_space(), place, number) for number, place in enumerate(places)]
    found.append(measured(large_space(), 1, 38, findings=[CAPPED]))
    limit = Constraint(quantity="slowdown", bound=0.3, against="baseline")
    store, _ = concluded(
        tmp_path, large_space(), found, objective="qep", kept=KEPT, constraints=[limit]
    )
    answer, table = store.read_answer(), (tmp_path / TABLE).read_bytes()
    for name in (*answer.files, "answer.json"):
        (tmp_path / name).rename(tmp_path / f"{name}.before")
    (tmp_path / "answer.json.before").rename(tmp_path / "answer.json")

    assert main(["report", str(tmp_path)]) == 0

    assert store.read_answer() == answer
    assert (tmp_path / TABLE).read_bytes() == table
    assert all((tmp_path / name).stat().st_size > 500 for name in answer.files)
    page, before = ((tmp_path / n).read_text() for n in (REPORT, f"{REPORT}.before"))
    assert re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL) == re.sub(
        r"<svg.*?</svg>", "", before, flags=re.DOTALL
    )
    assert answer.note in " ".join(capsys.readouterr().out.split())


def test_a_log_of_before_is_read_as_it_was_meant(search, tmp_path):
    """Its trials had another name, and a slowdown was over the baseline."""
    store, result = search
    log = json.loads(store.folder.joinpath(LOG).read_text())
    log["told"] = log.pop("trials")
    for each in log["constraints"]:
        del each["against"]
    for each in log["told"]:
        if each["outcome"]["figures"] is not None:
            for name in ("latency_s", "ttft_s", "ttft_u_s", "tpot_s", "tpot_u_s"):
                del each["outcome"]["figures"][name]
    (tmp_path / LOG).write_text(json.dumps(log))

    read = read_log(ResultStore(tmp_path))

    assert [each.against for each in read.constraints] == ["baseline"]
    assert len(read.trials) == len(result.steps)
    [first, *_] = read.trials
    assert first.outcome.figures.latency_s == first.outcome.figures.time_s


def test_what_is_no_study_that_ended_cannot_be_told_again(tmp_path, capsys):
    ResultStore(tmp_path).append(Record(measurement=measurement(), trace=None))

    assert main(["report", str(tmp_path)]) == 2

    assert "must hold a sweep, or the log of a search" in capsys.readouterr().err


def test_a_log_of_a_search_holds_all_that_it_was_asked(tmp_path):
    space = medium_space()
    cells = {cell: Kept(retention=0.98, outputs="a", u=0.001) for cell in space.cells}
    limit = Constraint(quantity="memory_b", bound=24e9)
    problem = replace(problem_on(space, "qep", [limit]), qualities=cells, confidence=0.9)
    evidence, course = Evidence(problem), Course(problem)
    outcome = outcome_of([measured(space, 0, 0)])
    figures = replace(outcome.figures, retention=0.98, retention_u=0.001)
    for collection in (evidence, course):
        told = {"spent_j": 5.0} if collection is course else {}
        collection.add(replace(outcome, figures=figures), **told)
    store = ResultStore(tmp_path)
    store.append(Record(measurement=measured(space, 0, 0), trace=None))
    result = conclude_search(store, evidence, course, METHOD)

    again = restored(read_log(store), store.read())

    assert again.problem.qualities == cells
    assert (again.problem.constraints, again.problem.confidence) == ((limit,), 0.9)
    assert again.problem.objective == problem.objective
    assert list(again.problem.space) == list(problem.space)
    assert again.method == METHOD
    assert again.steps == result.steps


def test_a_front_is_as_high_as_its_energies_are_uncertain(tmp_path):
    """Of energies that differ by less than their bars, the axis was a tenth of a bar high."""
    alike = []
    for number in range(4):
        m = measured(CLOCK, number, number, num_boards=1)
        each_j = m.windows[0].work * 0.3 * (1 + 1e-5 * number)
        windows = tuple(replace(w, energy_j=each_j, energy_u_j=each_j / 300) for w in m.windows)
        alike.append(replace(m, windows=windows))
    _, result = concluded(tmp_path, CLOCK, alike)

    axes = front_figure(result).axes[0]

    low, high = axes.get_ylim()
    best = result.answer.best.figures
    assert (high - low) / (high + low) > 2 * best.energy_u_j / best.energy_j


def test_what_lies_around_the_choice_has_a_panel_though_one_lies_far_off(tmp_path):
    """A single slow configuration squeezed the whole front into a corner."""
    factors = (40, 1, 3, 4, 2000)  # the baseline, and the clocks
    found = []
    for place, factor in enumerate(factors):
        made = measured(CLOCK, place, place, num_boards=1)
        windows = [
            replace(w, duration_s=factor * w.duration_s, energy_j=factor * w.energy_j)
            for w in made.windows
        ]
        found.append(replace(made, windows=tuple(windows)))
    _, result = concluded(tmp_path, CLOCK, found)

    panels = front_figure(result).axes

    assert len(panels) == 2
    everything, near = (log(axes.get_xlim()[1] / axes.get_xlim()[0]) for axes in panels)
    assert near < 0.5 * everything


def test_the_best_so_far_is_written_off_its_own_line_and_off_the_baselines(tmp_path):
    """A best of 99.4 % was written upon the line at 100 %."""
    found = []
    for place, factor in enumerate((1.0, 0.994, 1.3, 1.4)):
        made = measured(CLOCK, 0, place, num_boards=1)
        windows = [replace(w, energy_j=1000 * factor, duration_s=1000.0) for w in made.windows]
        configuration = CLOCK[place]
        found.append(replace(made, configuration=configuration, windows=tuple(windows)))
    _, result = concluded(tmp_path, CLOCK, found)

    figure = course_figure(result)

    figure.draw_without_rendering()
    for axes in figure.axes:
        (name,) = (text for text in axes.texts if text.get_text().endswith("%"))
        assert name.get_text() == "99.4 %"
        box = name.get_window_extent()
        for y in (99.4, 100.0):
            assert not box.y0 < axes.transData.transform((0, y))[1] < box.y1


def test_marks_of_the_legend_are_not_broken_in_the_middle(search):
    """A line of five marks ended with "k", and the next began with "its knee"."""
    _, result = search

    lines = [line.strip() for line in printed(result, width=90).splitlines()]

    assert any(line.endswith("k its knee") for line in lines)
    assert all(not line.startswith(("its knee", "indistinguishable")) for line in lines)


def test_a_search_is_reported_whose_program_has_got_a_setting_since(tmp_path, capsys):
    stored = Path(__file__).parents[3] / "experiments/results/h200_studies/h200-edp-llama-2-7b"
    folder = copytree(stored, tmp_path / stored.name)
    assert "tensor_parallel" not in (folder / LOG).read_text()

    assert main(["report", str(folder)]) == 0
    assert "Choose the driver's clock, batch 64, bf16" in " ".join(capsys.readouterr().out.split())
