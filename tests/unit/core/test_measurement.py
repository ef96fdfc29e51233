"""What a measurement says of its windows, and when it says nothing."""

from dataclasses import replace
from math import sqrt

import pytest
from synthetic_results import measurement

from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding
from joulelab.errors import ConfigError, MeasurementError

CAPPED = Finding(reason="power_capped", detail="The power cap held it down.")
HOT = Finding(reason="throttled", detail="Heat held it down.")


def window(energy_j=200.0, u_j=3.0, *, duration_s=4.0, work=2.0, source="counter"):
    return EnergyWindow(
        start_s=0.0, duration_s=duration_s, energy_j=energy_j, energy_u_j=u_j, source=source,
        work=work,
    )  # fmt: skip


def of(*windows, **changes):
    return replace(measurement(), windows=windows, **changes)


def test_figures_per_unit_are_those_of_all_windows_together():
    made = of(window(200.0), window(100.0, duration_s=2.0, work=4.0))  # 300 J, 6 s, 6 units

    assert made.valid is True
    assert made.energy_per_unit_j == pytest.approx(50)
    assert made.time_per_unit_s == pytest.approx(1)
    assert made.power_w == pytest.approx(50)


def test_energy_and_delay_multiply():
    made = of(window())  # 100 J and 2 s a unit

    assert made.edp_js == pytest.approx(200)
    assert made.ed2p_js2 == pytest.approx(400)


def test_what_idling_would_have_taken_is_not_dynamic():
    made = of(window())  # idle at 80 W for 2 s a unit

    assert made.idle_power_w == pytest.approx(80)
    assert made.dynamic_energy_per_unit_j == pytest.approx(100 - 160)


def test_readings_of_windows_err_independently():
    alike = of(window(u_j=3.0), window(u_j=4.0))

    assert alike.energy_per_unit_u_j == pytest.approx(5 / 4)


def test_the_scatter_of_windows_counts_where_it_is_larger():
    scattered = of(window(380.0, work=4.0), window(210.0))  # 95 and 105 J a unit

    assert scattered.energy_per_unit_u_j == pytest.approx(sqrt(50) / sqrt(2))
    assert scattered.window_cv == pytest.approx(sqrt(50) / 100)


@pytest.mark.parametrize("findings", [(CAPPED,), (HOT,), (CAPPED, HOT)])
def test_an_invalid_measurement_has_no_figures_though_it_has_windows(findings):
    made = of(window(), findings=findings)

    with pytest.raises(MeasurementError, match=findings[0].detail):
        _ = made.energy_per_unit_j
    with pytest.raises(MeasurementError):
        _ = made.idle_power_w
    assert not made.valid


@pytest.mark.parametrize(
    ("findings", "settled"),
    [((), True), ((CAPPED,), True), ((HOT,), False), ((CAPPED, HOT), False)],
)
def test_what_lies_in_the_request_need_not_be_measured_again(findings, settled):
    assert of(window(), findings=findings).settled is settled


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ((window(), window(source="samples")), "mix energy sources"),
        ((window(), window(work=0.0)), "must have done some work"),
        ((), "must carry a finding"),
    ],
)
def test_windows_that_make_no_measurement_are_refused(windows, message):
    with pytest.raises(ConfigError, match=message):
        of(*windows)


@pytest.mark.parametrize("name", ["energy_j", "energy_u_j", "work", "duration_s"])
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_a_window_of_impossible_figures_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} must"):
        replace(window(), **{name: value})


def test_power_is_energy_over_time():
    assert window(200.0, duration_s=4.0).power_w == pytest.approx(50)
