import re

import numpy as np
import pytest
from synthetic_results import measurement, sweep

from joulelab import PowerTrace
from joulelab.analysis.course_plot import course_figure, courses_figure
from joulelab.analysis.study_report import REPORT
from joulelab.analysis.style import svg_of
from joulelab.core.device import Activity, DeviceState, Look
from joulelab.core.record import Record
from joulelab.core.trace import Course, SlowLook
from joulelab.study.conclude import conclude_sweep
from joulelab.tracking.store import ResultStore
from joulelab.tracking.traces import read_series

TRACE = PowerTrace(t_s=100 + np.arange(300) * 0.02, power_w=np.full(300, 400.0))


def course(clock_mhz):
    state = DeviceState(
        sm_clock_mhz=clock_mhz, mem_clock_mhz=2619, temperature_c=55.0, gpu_utilization=0.9
    )
    activity = Activity(tensor_active=0.6)
    return Course(
        looks=tuple(Look(at_s=100 + 0.2 * i, state=state) for i in range(30)),
        slow_looks=tuple(
            SlowLook(at_s=101.0 + i, pids=frozenset(), memory_power_w=50.0, activity=activity)
            for i in range(4)
        ),
    )


def stored(folder, *measurements):
    store = ResultStore(folder)
    for each in measurements:
        clock_mhz = each.configuration.point.sm_clock_mhz or 1980
        store.append(Record(measurement=each, trace=TRACE, course=course(clock_mhz)))
    return store


def lines(axes):
    return {line.get_label(): line.get_ydata() for line in axes.get_lines()}


def test_every_quantity_of_a_trial_is_drawn_in_its_unit(tmp_path):
    store = stored(tmp_path, measurement(1500, measurement_id="m"))
    series = read_series(store.trace_path("m"))

    power, clock, temperature, busy = course_figure([("a", series)]).axes

    assert lines(power)["board"] == pytest.approx(np.full(300, 400.0))
    assert lines(power)["memory"] == pytest.approx(np.full(4, 50.0))
    assert lines(clock)["SM"] == pytest.approx(np.full(30, 1500.0))
    assert lines(temperature)["GPU"] == pytest.approx(np.full(30, 55.0))
    assert lines(busy)["a kernel runs"] == pytest.approx(np.full(30, 90.0))
    assert lines(busy)["tensor cores"] == pytest.approx(np.full(4, 60.0))
    assert power.get_lines()[0].get_xdata()[0] == 0


def test_lines_are_named_though_the_last_trial_has_none(tmp_path):
    """Of a trial of a second on an H200 no activity was read, and nothing named the others'."""
    store = stored(tmp_path, measurement(1500, measurement_id="m"))
    series = read_series(store.trace_path("m"))
    bare = {name: each for name, each in series.items() if name == "power_w"}

    figure = course_figure([("a", series), ("b", bare)])

    *_, power, _, _, busy = figure.axes
    assert next(text.get_text() for text in busy.get_legend().get_texts()) == "a kernel runs"
    assert {text.get_text() for text in power.get_legend().get_texts()} == {"board", "memory"}


def test_a_report_shows_the_default_and_the_best_point_over_time(tmp_path):
    store = stored(tmp_path, *sweep((800, 1100, 1400, 1700), num_boards=1))

    best = conclude_sweep(store).phases[0].recommended

    text = (tmp_path / REPORT).read_text()
    (figure,) = re.findall(r"<h3>Over time</h3>.*?</figure>", text, re.DOTALL)
    assert "the driver's default" in figure.replace("&#39;", "'").replace("&#x27;", "'")
    assert best.replace("MHz", " MHz").replace("  ", " ").split()[0] in figure
    assert "tensor cores" in figure


def test_a_report_of_trials_without_traces_shows_none_over_time(tmp_path):
    store = ResultStore(tmp_path)
    for each in sweep((800, 1400), num_boards=1):
        store.append(Record(measurement=each, trace=None))

    conclude_sweep(store)

    assert "Over time" not in (tmp_path / REPORT).read_text()


def test_a_damaged_trace_is_left_out_and_named(tmp_path, caplog):
    whole, broken = measurement(1500, measurement_id="a"), measurement(900, measurement_id="b")
    store = stored(tmp_path, whole, broken)
    store.trace_path("b").write_bytes(b"PAR1 and then nothing")

    drawn = svg_of(courses_figure([("1500 MHz", whole), ("900 MHz", broken)], store.traces))

    assert "1500 MHz" in drawn
    assert "900 MHz" not in drawn
    assert "b.parquet is no power trace" in caplog.text
