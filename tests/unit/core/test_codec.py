import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_results import measurement, provenance

from joulelab import Configuration, EnergyWindow, OperatingPoint
from joulelab.core.codec import from_json, to_json
from joulelab.core.device import EventReason
from joulelab.core.measurement import Finding, Observed
from joulelab.errors import TrackingError
from joulelab.tracking.store import measurement_from_json

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-300, max_value=1e300)
knobs = st.dictionaries(
    st.text(max_size=8),
    st.one_of(st.text(max_size=8), st.integers(), finite, st.booleans(), st.none()),
    max_size=5,
)


@dataclass(frozen=True)
class Looked:
    reasons: EventReason
    pair: tuple[int, str]


@given(knobs=knobs, energy_j=positive, duration_s=positive, temperature_c=finite)
def test_a_measurement_reads_back_exactly(knobs, energy_j, duration_s, temperature_c):
    window = EnergyWindow(
        start_s=0.1, duration_s=duration_s, energy_j=energy_j, energy_u_j=0.0, source="samples",
        work=1.0,
    )  # fmt: skip
    written = replace(
        measurement(),
        configuration=Configuration.of("gemm", knobs, OperatingPoint(power_limit_w=300.0)),
        windows=(window,),
        observed=Observed(temperature_start_c=temperature_c),
        figures=(("ttft_p50_s", duration_s),),
    )

    read = measurement_from_json(to_json(written))

    assert read == written
    kinds = [type(value) for _, value in read.configuration.knobs]
    assert kinds == [type(value) for _, value in written.configuration.knobs]


def test_an_invalid_measurement_keeps_its_findings():
    finding = Finding(reason="device_lost", detail="The device fell off the bus after 3 s.")
    written = replace(measurement(), windows=(), idle=None, findings=(finding,))

    assert measurement_from_json(to_json(written)) == written


def test_enums_and_fixed_tuples_read_back():
    written = Looked(reasons=EventReason.IDLE | EventReason.SW_POWER_CAP, pair=(3, "three"))

    assert from_json(Looked, to_json(written)) == written


def test_numbers_of_numpy_are_written_as_numbers():
    written = replace(measurement(), repeat=np.int64(7))

    assert measurement_from_json(to_json(written)).repeat == 7


def test_a_measurement_is_one_line():
    assert "\n" not in to_json(replace(measurement(), study="two\nlines"))


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_schema_version_is_refused_by_its_number(version):
    data = {**json.loads(to_json(measurement())), "schema_version": version}

    with pytest.raises(TrackingError, match=f"schema_version must be 1, got {version!r}"):
        measurement_from_json(json.dumps(data))


def test_text_that_is_no_object_is_refused():
    with pytest.raises(TrackingError, match="schema_version"):
        measurement_from_json("[1, 2]")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("windows", 0, "energy_j"), "much", r"windows\[0\].energy_j must be float, got 'much'"),
        (("windows", 0, "source"), "guess", r"windows\[0\].source must be one of 'counter'"),
        (("observed", "temperature_start_c"), True, "observed.temperature_start_c must be"),
        (("device", "colour"), "green", r"device: missing fields \[\], unknown fields \['colour'"),
        (("configuration", "knobs"), [["batch"]], r"configuration.knobs\[0\] must be a list of 2"),
        (("idle", "duration_s"), -1.0, "idle: duration_s must be positive"),
        (("repeat",), 1.5, "repeat must be int, got 1.5"),
        (("repeat",), True, "repeat must be int, got True"),
        (("sentinel",), 1, "sentinel must be bool, got 1"),
    ],
)
def test_a_field_that_does_not_fit_is_named(path, value, message):
    data = json.loads(to_json(measurement()))
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value

    with pytest.raises(TrackingError, match=message):
        measurement_from_json(json.dumps(data))


def test_a_missing_field_is_named():
    data = json.loads(to_json(measurement()))
    del data["phase"]

    with pytest.raises(TrackingError, match=r"missing fields \['phase'\]"):
        measurement_from_json(json.dumps(data))


@pytest.mark.parametrize("later", ["figures", "receipt"])
def test_a_measurement_of_an_older_version_is_read(later):
    data = json.loads(to_json(measurement()))
    del data[later]

    assert measurement_from_json(json.dumps(data)) == measurement()


def test_a_field_with_a_default_may_be_absent():
    data = json.loads(to_json(provenance()))
    del data["weights"]

    assert from_json(type(provenance()), json.dumps(data)) == provenance()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("-inf")])
def test_a_number_that_is_not_finite_is_refused_by_name(value):
    with pytest.raises(TrackingError, match=r"observed\.memory_power_w must be finite"):
        to_json(replace(measurement(), observed=Observed(memory_power_w=value)))


def test_a_value_without_json_is_refused_by_name():
    with pytest.raises(TrackingError, match="study holds a list"):
        to_json(replace(measurement(), study=["a"]))
