"""Tables from folders of studies, and tables with power caps: what is read and what is left out."""

from dataclasses import replace

import pytest
from synthetic_results import measurement
from synthetic_runs import CLOCKS_MHZ, rows_by_law

from joulelab.cli.main import main
from joulelab.core.measurement import Finding
from joulelab.core.point import OperatingPoint
from joulelab.core.record import Record
from joulelab.errors import ConfigError
from joulelab.power_models.queries import profile_of
from joulelab.power_models.readers import runs_of_measurements, runs_of_rows
from joulelab.power_models.runs import Runs
from joulelab.power_models.studies import learnable
from joulelab.tracking.store import ResultStore

TOP_MHZ = 1980
CLOCKS = (1000, 1500, TOP_MHZ)


def on_h200(clock_mhz, *, batch=1, limit_w=None, seen_mhz=None, reasons=(), minute=0.0):
    """Return a measurement at a clock, under a power limit, that failed for ``reasons``."""
    made = measurement(clock_mhz, minute=minute)
    point = OperatingPoint(sm_clock_mhz=clock_mhz, power_limit_w=limit_w)
    return replace(
        made,
        measurement_id=f"{clock_mhz}-{batch}-{limit_w}-{seen_mhz}-{minute}",
        device=replace(made.device, name="NVIDIA H200"),
        configuration=replace(made.configuration, knobs=(("batch", batch),), point=point),
        observed=replace(made.observed, sm_clock_mhz=seen_mhz or clock_mhz),
        findings=tuple(Finding(reason=reason, detail="seen") for reason in reasons),
    )


def clocks_of(runs: Runs, application: str) -> list[float]:
    return sorted(runs.sm_clock_mhz[runs.application == application].tolist())


def test_a_search_beside_sweeps_gives_what_it_has_and_the_rest_is_counted():
    """Training refused the folder for the single clock of one configuration of the search."""
    sweep = [on_h200(mhz) for mhz in CLOCKS]
    search = [on_h200(1500, batch=8), *(on_h200(mhz, batch=16) for mhz in (1000, 1200))]
    failed = on_h200(1600, reasons=("thermal_drift",))

    runs = learnable(runs_of_measurements([*sweep, *search, failed]))

    assert runs.pairs == (("NVIDIA H200", "llama[batch=1]/decode"),)
    assert clocks_of(runs, "llama[batch=1]/decode") == list(CLOCKS)
    assert runs.left_out == {
        "that are invalid (thermal_drift)": 1,
        "at the only clock of their application": 1,
        "of applications without a run near the default clock": 2,
    }


def test_a_run_that_its_power_cap_held_is_one_at_the_clock_that_was_seen():
    """Every capped run was refused, and a table of caps told to be averaged over them."""
    sweep = [on_h200(mhz) for mhz in CLOCKS]
    capped = [
        on_h200(TOP_MHZ, limit_w=400.0, seen_mhz=1300, reasons=("power_capped",)),
        on_h200(1000, limit_w=400.0),
    ]

    runs = runs_of_measurements([*sweep, *capped])

    assert clocks_of(runs, "llama[batch=1]/decode") == [1000, 1000, 1300, 1500, TOP_MHZ]
    assert sorted(runs.power_limit_w[runs.power_limit_w > 0]) == [400.0, 400.0]
    assert runs.left_out == {}
    assert profile_of(runs, *runs.pairs[0]).power_limit_w is None


def test_the_limit_in_force_and_the_clock_that_it_held_are_read_from_records():
    """Records of boards at their own limit had none, and models chose clocks out of reach."""
    swept = [on_h200(mhz) for mhz in (1000, 1200)]
    held = on_h200(TOP_MHZ, seen_mhz=1470, reasons=("power_capped",))
    made = [replace(m, observed=replace(m.observed, power_limit_w=500.0)) for m in (*swept, held)]
    limit_w = runs_of_measurements(made).power_w.max() / 0.99
    made = [replace(m, observed=replace(m.observed, power_limit_w=limit_w)) for m in made]

    runs = runs_of_measurements(made)
    profile = profile_of(runs, *runs.pairs[0])

    assert profile.power_limit_w == pytest.approx(limit_w)
    assert (profile.clock_mhz, profile.reached_mhz, profile.held_mhz) == (1470, 1470, 1470)


def test_runs_of_real_and_of_simulated_boards_of_a_product_are_not_learned_from_together():
    """The runs of a first try on simulated boards were taken for repeats of the real ones."""
    simulated = [on_h200(mhz) for mhz in CLOCKS]
    real = [replace(m, device=replace(m.device, backend="nvml")) for m in simulated]

    with pytest.raises(ConfigError, match="got a simulated NVIDIA H200 and a NVIDIA H200: give"):
        runs_of_measurements([*simulated, *real])


def test_a_folder_without_any_run_at_a_known_clock_is_refused_with_reasons():
    with pytest.raises(ConfigError, match=r"got 2 that are invalid \(thermal_drift\)"):
        runs_of_measurements([on_h200(mhz, reasons=("thermal_drift",)) for mhz in CLOCKS[:2]])


def test_training_on_a_folder_says_what_it_left_out(tmp_path, capsys):
    made = [on_h200(mhz, batch=batch) for batch in (1, 2) for mhz in CLOCKS]
    for each in [*made, on_h200(1500, batch=8)]:
        ResultStore(tmp_path / "studies" / "one").append(Record(measurement=each, trace=None))

    where = [str(tmp_path / "studies"), "--out", str(tmp_path / "model")]
    assert main(["models", "train", *where, "--power", "mean", "--time", "mean"]) == 0

    assert "1 runs are left out: 1 at the only clock" in capsys.readouterr().err


def capped_rows(limits_w, *, seen=False):
    """Return runs of the law under power limits, each held at the clocks below that keep to it."""
    rows = []
    for number in range(2):
        free = [row for row in rows_by_law(2) if row["application"] == f"app{number:02d}"]
        for limit_w in limits_w:
            for row in free:
                fits = [r for r in free if r["power_w"] <= limit_w]
                ran = row if row["power_w"] <= limit_w else fits[-1] | {"power_w": limit_w}
                asked = {"sm_clock_mhz": row["sm_clock_mhz"], "power_limit_w": limit_w}
                seen_mhz = {"observed_sm_clock_mhz": ran["sm_clock_mhz"]} if seen else {}
                rows.append(ran | asked | seen_mhz)
    return rows


def test_clocks_and_power_caps_make_one_table():
    """It was refused with advice that would have averaged all caps."""
    rows = capped_rows((130.0, 400.0))
    held = sum(row["power_w"] == row["power_limit_w"] for row in rows)

    runs = runs_of_rows(rows)

    assert held > 0
    assert runs.left_out == {"that a power cap held at a clock that was not read": held}
    assert len(runs) == len(rows) - held
    assert profile_of(runs, *runs.pairs[0]).power_limit_w == 400.0
    assert set(clocks_of(runs, "app00")) == set(CLOCKS_MHZ)


def test_a_capped_run_whose_clock_was_seen_is_a_run_at_that_clock():
    runs = runs_of_rows(capped_rows((130.0, 400.0), seen=True))

    at_cap = (runs.power_limit_w == 130.0) & (runs.power_w == 130.0)
    assert not at_cap.any()  # the law's clock below the cap is in the table already
    assert sum(runs.left_out.values()) > 0


def test_repeats_under_different_power_caps_are_not_averaged():
    rows = capped_rows((130.0, 400.0))
    again = [row | {"power_w": row["power_w"] * 1.02} for row in rows if row["power_w"] < 125.0]

    runs = runs_of_rows([*rows, *again], repeats="mean")

    assert len(runs) == len(runs_of_rows(rows))
    assert set(runs.power_limit_w.tolist()) == {130.0, 400.0}
