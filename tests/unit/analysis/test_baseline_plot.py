import re

import pytest
from synthetic_results import header, measurement

from joulelab.core.measurement import Finding
from joulelab.core.record import Record
from joulelab.errors import ConfigError
from joulelab.study.conclude import report_anew
from joulelab.tracking.store import ResultStore

LOST = Finding(reason="device_lost", detail="It fell off the bus.")


@pytest.fixture
def store(tmp_path):
    store = ResultStore(tmp_path)
    store.write_study(header(settings=(("recipe", "all"),)))
    return store


def test_a_baseline_is_reported_from_its_folder_with_what_each_workload_costs(
    store, tmp_path, capsys
):
    """It was drawn when it ended, and `joulelab report` refused its folder."""
    for each in (
        measurement(phase="prefill"),
        measurement(phase="decode"),
        measurement(phase="score", findings=[LOST]),
    ):
        store.append(Record(measurement=each, trace=None))

    report_anew(store)

    assert (tmp_path / "baseline.png").stat().st_size > 0
    drawn = re.findall(r"<!-- (.*?) -->", (tmp_path / "baseline.svg").read_text())
    assert {"llama decode", "llama prefill"} <= set(drawn)
    assert "llama score" not in drawn
    assert sum("mJ/token in 1" in text for text in drawn) == 2
    assert {"under load", "at rest"} <= set(drawn)
    assert "Power at the driver's own clocks on simulated Invented GPU" in drawn
    assert "llama decode: " in store.read_answer().note
    assert "llama score: no valid measurement" in store.read_answer().note
    assert "baseline.csv" in capsys.readouterr().out


def test_nothing_valid_draws_nothing(store, tmp_path):
    store.append(Record(measurement=measurement(findings=[LOST]), trace=None))

    report_anew(store)

    assert not (tmp_path / "baseline.png").exists()
    assert (tmp_path / "baseline.csv").exists()


def test_a_baseline_is_put_to_no_temperature(store):
    """It was reported as it is, and the option said nothing."""
    store.append(Record(measurement=measurement(), trace=None))

    with pytest.raises(ConfigError, match="is for sweeps"):
        report_anew(store, reference_temperature_c=60.0)
