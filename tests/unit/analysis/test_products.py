"""Several products beside each other: figures, which may be the least, and what is told of them."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from synthetic_results import DEFAULT_MHZ, board, energy_j, header, measurement, power_w, time_s

from joulelab.analysis.products import products_notes, products_sentence, side_by_side
from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.table import fitting
from joulelab.core.measurement import Finding
from joulelab.core.record import Record
from joulelab.core.statistics import student_quantile
from joulelab.csv_table import read_csv_table
from joulelab.study.conclude import conclude_sweep, report_of
from joulelab.tracking.store import ResultStore

CLOCKS_MHZ = (1000, 1500)
BEST_MHZ = min((DEFAULT_MHZ, *CLOCKS_MHZ), key=lambda mhz: energy_j(mhz) * time_s(mhz))


def on_product(name, *, limit_w=700.0, source="counter", **changes):
    """Return exact measurements of a product, whose board draws so many times the power."""
    device = replace(board(), uuid=f"SIM-{name}", name=name)
    made = [
        measurement(clock, repeat=repeat, minute=repeat, device=device, **changes)
        for repeat in range(3)
        for clock in (None, *CLOCKS_MHZ)
    ]
    return [
        replace(
            m,
            measurement_id=f"{name}-{m.measurement_id}",
            windows=tuple(replace(window, source=source) for window in m.windows),
            observed=replace(m.observed, power_limit_w=limit_w),
        )
        for m in made
    ]


def group_of(*measurements):
    [group] = side_by_side(analyse_sweep([m for each in measurements for m in each]))
    return group


def least(group):
    return [each.phase.device_name for each in group.least]


def test_one_product_is_beside_nothing():
    assert side_by_side(analyse_sweep(on_product("A"))) == ()


def test_each_product_has_its_drivers_clock_and_its_own_best():
    group = group_of(on_product("A"), on_product("B", energy_factor=2.0))

    found = [
        (each.phase.device_name, each.is_best, each.row.point.sm_clock_mhz, each.energy_j.value)
        for each in group.points
    ]
    assert found == [
        ("A", False, None, pytest.approx(energy_j(DEFAULT_MHZ))),
        ("A", True, BEST_MHZ, pytest.approx(energy_j(BEST_MHZ))),
        ("B", False, None, pytest.approx(2 * energy_j(DEFAULT_MHZ))),
        ("B", True, BEST_MHZ, pytest.approx(2 * energy_j(BEST_MHZ))),
    ]


def test_an_interval_is_students_of_the_uncertainty_that_is_shown():
    group = group_of(on_product("A"), on_product("B"))

    [at, *_] = group.points
    figures = at.row.figures
    half = student_quantile(0.975, at.phase.dof) * figures.energy_per_unit_u_j
    assert at.energy_j.value - at.energy_j.low == pytest.approx(half)
    assert at.energy_j.high - at.energy_j.value == pytest.approx(half)
    assert half > 0


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(0.5, ["B"]), (0.85, ["B"]), (0.95, ["B", "A"]), (1.0, ["A", "B"]), (1.05, ["A", "B"]),
     (1.2, ["A"])],
)  # fmt: skip
def test_a_product_is_the_least_only_if_sensors_that_err_by_their_class_leave_it_so(
    factor, expected
):
    """Sensors of both may be off by 5 %, so that energies must be more than 10 % apart."""
    group = group_of(on_product("A"), on_product("B", energy_factor=factor))

    assert sorted(least(group)) == sorted(expected)
    assert least(group)[0] == expected[0] or factor == 1.0


def test_the_answer_says_which_is_the_least_and_how_much_more_others_take():
    said = products_sentence(group_of(on_product("A"), on_product("B", energy_factor=2.0)))

    assert f"least energy per token is that of simulated A at {BEST_MHZ} MHz" in said
    assert said.endswith("takes 2.00 times as much.")
    assert "simulated B" in said


def test_products_that_are_indistinguishable_are_said_to_be_so():
    said = products_sentence(group_of(on_product("A"), on_product("B", energy_factor=1.04)))

    assert "that of simulated B at" in said
    assert "is indistinguishable from it" in said
    assert "times as much" not in said


def test_limits_and_methods_are_told_where_they_differ_and_nowhere_else():
    first = on_product("A", limit_w=400.0)
    alike = products_notes(group_of(first, other := on_product("B", limit_w=400.0)), first + other)
    apart = on_product("B", limit_w=700.0, source="samples")
    unread = on_product("B", limit_w=None)

    told = "\n".join(products_notes(group_of(first, apart), [*first, *apart]))

    assert "differ:" not in "\n".join(alike)
    assert "not measured alike" not in "\n".join(alike)
    assert "Board power limits differ: simulated A, 1 board: 400 W; simulated B" in told
    assert "700 W" in told
    assert "the energy counter, read by simulated" in told
    assert "power samples, read by simulated" in told
    assert "unread" in "\n".join(products_notes(group_of(first, unread), [*first, *unread]))


def test_a_product_without_a_valid_measurement_has_a_row_with_its_reason_and_no_number():
    finding = Finding(reason="throttled", detail="It was hot.")
    broken = on_product("B", findings=(finding,))

    group = group_of(on_product("A"), broken)

    assert least(group) == ["A"]
    assert [each.energy_j for each in group.points if each.phase.device_name == "B"] == [None] * 2


@pytest.fixture
def store(tmp_path):
    store = ResultStore(tmp_path / "study", writer="a")
    store.write_study(header(settings=(("objective", "edp"),)))
    made = [*on_product("A", limit_w=400.0), *on_product("B", energy_factor=2.0)]
    store.append(*(Record(measurement=m, trace=None) for m in made))
    return store


def test_the_report_has_a_section_for_each_product_and_then_one_table_of_all(store):
    result = conclude_sweep(store)
    console = Console(width=120, file=StringIO(), record=True)

    report_of(store, result).print(store.folder, console=console)

    printed, page = console.export_text(), (store.folder / "report.html").read_text()
    for text in (printed, page):
        sections = [text.index(f"on simulated {name}") for name in "AB"]
        assert max(sections) < text.index("products side by side")
        assert "Board power limits differ" in text
    assert "takes 2.00 times as much" in store.read_answer().note
    assert "products.csv" in store.read_answer().files


def test_mlflow_takes_the_names_of_all_numbers(store):
    """Names of products held an equals sign, which MLflow refuses with all that came with it."""
    conclude_sweep(store)
    answer = store.read_answer()

    names = [name for point in answer.chart for name, _ in point.values]
    names += [name for name, _ in answer.summary]

    assert len(set(names)) > 2 * len(CLOCKS_MHZ)
    assert [name for name in names if not re.fullmatch(r"[\w.:/ -]+", name)] == []


def test_the_table_in_si_units_has_both_points_of_each_product(store):
    conclude_sweep(store)

    rows = read_csv_table(store.folder / "products.csv")

    assert [(row["device"], row["is_best"], row["may_be_least"]) for row in rows] == [
        ("A", "0", "0"), ("A", "1", "1"), ("B", "0", "0"), ("B", "1", "0"),
    ]  # fmt: skip
    assert float(rows[0]["energy_per_unit_j"]) == pytest.approx(energy_j(DEFAULT_MHZ))
    assert float(rows[0]["edp_js"]) == pytest.approx(
        power_w(DEFAULT_MHZ) * time_s(DEFAULT_MHZ) ** 2
    )
    assert float(rows[0]["edp_js_low"]) < float(rows[0]["edp_js"]) < float(rows[0]["edp_js_high"])
    assert [float(row["power_limit_w"]) for row in rows] == [400.0, 400.0, 700.0, 700.0]


def test_a_narrow_terminal_loses_columns_and_no_digit(store):
    report = report_of(store, conclude_sweep(store))
    [closing] = report.closings

    wide, narrow = (
        fitting(Console(width=width), closing.lay, closing.minor) for width in (120, 60)
    )

    heads = [str(column.header).partition("\n")[0] for column in wide.columns]
    assert heads == ["", "product", "clock", "energy", "time", "EDP", "limit"]
    assert len(narrow.columns) < len(wide.columns)
