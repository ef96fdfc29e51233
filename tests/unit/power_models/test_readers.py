"""Tables of runs: what is read, and what is refused with its column and row."""

from dataclasses import replace

import pytest
from reference_data import reference_csv
from synthetic_results import measurement, sweep
from synthetic_runs import rows_by_law

from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.sweep_report import sweep_frame
from joulelab.cli.power_models import OfTable
from joulelab.core.record import Record
from joulelab.errors import ConfigError
from joulelab.power_models.queries import Profile, profile_of
from joulelab.power_models.readers import data_hash, read_csv, runs_of_rows
from joulelab.power_models.validation import splits
from joulelab.tracking.store import ResultStore

TEXAS_TECH = """application,sm_app_clock,fp64_active,fp32_active,dram_active,tensor_activity,\
sm_active,power_usage,run_time
lbm,1410,0.20,0.10,0.60,0.0,0.95,230.5,10.0
lbm,1005,0.19,0.10,0.61,0.0,0.95,160.5,10.5
fft,1410,0.10,0.30,0.30,0.0,0.85,190.5,12.0
fft,1005,0.10,0.30,0.30,0.0,0.85,150.5,15.0
"""


def written(tmp_path, text):
    path = tmp_path / "runs.csv"
    path.write_text(text)
    return path


def changed(row, **values):
    """Return the rows of the law with one of them changed."""
    rows = rows_by_law(2)
    rows[row] |= values
    return rows


def test_the_texas_tech_layout_is_read(tmp_path):
    runs = read_csv(written(tmp_path, TEXAS_TECH), gpu="a100_sxm")

    assert runs.pairs == (("a100_sxm", "lbm"), ("a100_sxm", "fft"))
    assert runs.energy_j[0] == pytest.approx(2305.0)
    assert runs.activity["fp_active"][0] == pytest.approx(0.20 + 0.10 / 2)
    assert runs.activity["tensor_active"][0] == 0.0


def test_the_table_of_a_sweep_of_ours_is_read_with_the_default_once(tmp_path):
    """Training refused our own ``sweep.csv``."""
    rows = [*sweep((1000, 1500, 2000), num_boards=1), *sweep((1000,), phase="prefill")]
    rows = [replace(m, device=replace(m.device, name="NVIDIA H200")) for m in rows]
    (decode, prefill) = (result := analyse_sweep(rows)).phases
    sweep_frame(result).write(tmp_path / "sweep.csv")

    runs = read_csv(tmp_path / "sweep.csv")

    assert runs.pairs == (("NVIDIA H200", "llama/decode"), ("NVIDIA H200", "llama/prefill"))
    assert sorted(runs.sm_clock_mhz.tolist()) == [1000, 1000, 1500, 2000, 2000]
    for application, phase in (("llama/decode", decode), ("llama/prefill", prefill)):
        at = (runs.application == application) & (runs.sm_clock_mhz == 1000)
        assert runs.power_w[at].tolist() == [phase.row("1000MHz").figures.power_w]
        assert runs.time_s[at].tolist() == [phase.row("1000MHz").figures.time_per_unit_s]
    at = (runs.application == "llama/decode") & (runs.sm_clock_mhz == 2000)
    assert runs.power_w[at].tolist() == [decode.row("2000MHz").figures.power_w]


def test_a_sweep_whose_knobs_its_table_does_not_hold_is_refused_with_what_to_give(tmp_path):
    wider = replace(measurement().configuration, knobs=(("batch", 64),))
    rows = [measurement(1000), replace(measurement(minute=1), configuration=wider)]
    points = [replace(m.configuration, point=rows[0].configuration.point) for m in rows]
    rows = [replace(m, configuration=c) for m, c in zip(rows, points, strict=True)]
    sweep_frame(analyse_sweep(rows)).write(tmp_path / "sweep.csv")

    with pytest.raises(ConfigError, match="Give the results folder of the study"):
        read_csv(tmp_path / "sweep.csv")


def test_a_folder_of_studies_is_one_table(tmp_path):
    """Training refused a folder of studies."""
    for name, clock_mhz in (("one", 1000), ("other", 1500)):
        made = measurement(clock_mhz)
        made = replace(made, device=replace(made.device, name="NVIDIA H200"))
        ResultStore(tmp_path / name).append(Record(measurement=made, trace=None))

    runs = OfTable(table=tmp_path).read()

    assert sorted(runs.sm_clock_mhz.tolist()) == [1000, 1500]
    assert len(runs.pairs) == 1


def test_units_that_nvidia_smi_writes_are_understood():
    rows = [
        {
            "app": "a",
            "gpu": "NVIDIA A100-SXM4-80GB",
            "clocks.sm [MHz]": "1410 MHz",
            "power.draw [W]": "250.50 W",
            "time_s": "2",
        }
    ]

    runs = runs_of_rows(rows)

    assert runs.power_w[0] == 250.5
    assert runs.sm_clock_mhz[0] == 1410.0
    assert runs.boards == {"NVIDIA A100-SXM4-80GB": "a100_sxm"}


@pytest.mark.parametrize(
    "row",
    [
        {"DCGM_FI_DEV_SM_CLOCK": 1410, "DCGM_FI_DEV_POWER_USAGE": 250.5, "run_time": 2.0}
        | {"DCGM_FI_PROF_SM_ACTIVE": 0.9, "modelName": "NVIDIA A100-SXM4-80GB", "app": "a"},
        {"SMCLK": 1410, "POWER": 250.5, "run_time": 2.0, "SMACT": 0.9}
        | {"gpu": "a100_sxm", "app": "a"},
        {"window_name": "a", "elapsed_time": 2.0, "gpu0_energy": 501.0}  # Zeus
        | {"sm_clock_mhz": 1410, "sm_active": 0.9, "gpu": "a100_sxm"},
        {"nvml_gr_clock": 1410, "nvml_power": 250.5, "time": 2000.0}  # Kernel Tuner
        | {"sm_active": 0.9, "gpu": "a100_sxm", "app": "a"},
    ],
    ids=["dcgm-exporter", "dcgmi", "Zeus", "Kernel Tuner"],
)
def test_names_and_units_of_other_tools_are_understood(row):
    runs = runs_of_rows([row])

    found = (runs.sm_clock_mhz[0], runs.power_w[0], runs.time_s[0], runs.activity["sm_active"][0])
    assert found == (1410.0, 250.5, 2.0, 0.9)
    assert list(runs.boards.values()) == ["a100_sxm"]


def test_a_power_that_energy_in_millijoules_would_give_is_refused():
    row = {"window_name": "a", "elapsed_time": 2.0, "gpu0_energy": 501e3, "sm_clock_mhz": 1410}

    with pytest.raises(ConfigError, match=r"gpu0_energy / elapsed_time.*row 0 has 250500"):
        runs_of_rows([row], gpu="a100_sxm")


def test_all_columns_that_lack_are_named_at_once():
    with pytest.raises(ConfigError) as raised:
        runs_of_rows([{"time": 3.0, "sm_clock_mhz": 1410}])

    named = ["'application'", "'gpu'", "'power_w'", "'time_s'"]
    assert all(f"Column {name} is required" in str(raised.value) for name in named)
    assert "sm_clock_mhz' is" not in str(raised.value)


def test_the_hash_of_a_table_knows_its_values_and_not_their_order():
    rows = rows_by_law(3)

    assert data_hash(runs_of_rows(rows[::-1])) == data_hash(runs_of_rows(rows))
    assert data_hash(runs_of_rows(changed(0, power_w=99.0))) != data_hash(runs_of_rows(changed(0)))


@pytest.mark.parametrize("column", ["application", "sm_clock_mhz", "power_w", "time_s"])
def test_a_missing_column_is_named(column):
    rows = [{k: v for k, v in row.items() if k != column} for row in rows_by_law(2)]

    with pytest.raises(ConfigError, match=f"Column '{column}' is required"):
        runs_of_rows(rows)


@pytest.mark.parametrize(
    ("column", "value", "hint"),
    [
        ("power_w", 250_000.0, "milliwatts"),
        ("power_w", 0.25, "kilowatts"),
        ("power_w", 0.0, "watts"),
        ("power_w", -5.0, "watts"),
        ("time_s", 0.0, "positive seconds"),
        ("energy_j", 0.0, "positive joules"),
        ("energy_j", -3.0, "positive joules"),
        ("fp_active", 45.0, "percentage"),
        ("sm_active", -0.1, "share from 0 to 1"),
        ("sm_clock_mhz", 1.41, "GHz"),
        ("sm_clock_mhz", 1_410_000.0, "kHz"),
        ("power_w", "fast", "has 'fast'"),
        ("power_w", "nan", "NaN"),
        ("power_w", "", "has none"),
        ("power_w", float("nan"), "has none"),
        ("time_s", None, "has none"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_column_and_row(column, value, hint):
    rows = [row | {"energy_j": 100.0} for row in rows_by_law(2)]
    rows[7][column] = value

    with pytest.raises(ConfigError, match=rf"Column '{column}' .*row 7 .*{hint}"):
        runs_of_rows(rows)


def test_a_share_that_rounding_made_more_than_one_is_one():
    """The engine of a simulated GPU was busy for 1.000000000000001 of the time."""
    rows = [row | {"gr_engine_active": 1.000000000000001} for row in rows_by_law(2)]

    runs = runs_of_rows(rows)

    assert set(runs.activity["gr_engine_active"]) == {1.0}


@pytest.mark.parametrize(("column", "factor"), [("time_s", 1e3), ("energy_j", 1e3), ("time_s", 60)])
def test_a_row_in_another_unit_than_the_others_is_refused(column, factor):
    rows = [row | {"energy_j": row["power_w"] * row["time_s"]} for row in rows_by_law(2)]
    for at in (7, 9):
        rows[at][column] *= factor

    with pytest.raises(ConfigError, match=rf"Column '{column}' must be in one unit, row (7|9) has"):
        runs_of_rows(rows)


def test_a_table_of_energies_over_another_time_than_that_of_the_work_is_read():
    rows = [row | {"energy_j": 1e3 * row["power_w"] * row["time_s"]} for row in rows_by_law(2)]

    assert len(runs_of_rows(rows)) == 12


@pytest.mark.parametrize("column", ["application", "power_w"])
def test_a_row_that_lacks_a_column_is_named(column):
    rows = rows_by_law(2)
    del rows[5][column]

    with pytest.raises(ConfigError, match=rf"Column '{column}' .*row 5"):
        runs_of_rows(rows)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00\x81", b"PK\x03\x04\x00\xd8"])
def test_a_file_that_is_no_text_is_refused(content, tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="readable CSV file is required"):
        read_csv(path)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    assert len(read_csv(written(tmp_path, "\ufeff" + TEXAS_TECH), gpu="a100_sxm")) == 4


def test_rows_of_a_file_are_named_by_their_line(tmp_path):
    text = TEXAS_TECH.replace("190.5", "190500")

    with pytest.raises(ConfigError, match=r"Column 'power_usage' .*row 4 has 190500"):
        read_csv(written(tmp_path, text), gpu="a100_sxm")


def test_a_repeated_clock_is_refused_unless_it_is_to_be_averaged():
    rows = changed(0)
    rows.append(rows[3] | {"power_w": rows[3]["power_w"] * 1.1})

    with pytest.raises(ConfigError, match=r"'sm_clock_mhz' .* in rows 3 and 12"):
        runs_of_rows(rows)

    mean = runs_of_rows(rows, repeats="mean")
    assert len(mean) == 12
    assert mean.power_w[3] == pytest.approx(rows[3]["power_w"] * 1.05)


def test_two_memory_clocks_of_one_application_are_refused():
    rows = [row | {"mem_clock_mhz": 1593.0} for row in rows_by_law(2)]
    rows[4]["mem_clock_mhz"] = 1215.0

    with pytest.raises(ConfigError, match=r"'mem_clock_mhz' .* row 0 has 1593, row 4 1215"):
        runs_of_rows(rows)


def test_one_application_is_not_enough_to_hold_one_out():
    with pytest.raises(ConfigError, match=r"Column 'application' must hold .* got \['app00'\]"):
        splits(runs_of_rows(rows_by_law(1)), "application")


def test_a_single_clock_is_not_enough_to_learn_from():
    rows = rows_by_law(2)

    runs = runs_of_rows([*rows[:6], rows[11]])

    with pytest.raises(ConfigError, match=r"'sm_clock_mhz' .* got 1410 alone \(row 6\)"):
        runs.check_trainable()


def test_a_gpu_that_nobody_knows_is_answered_with_those_that_are():
    keys = "a100_pcie, a100_pcie_40gb, a100_sxm"
    with pytest.raises(ConfigError, match=rf"Column 'gpu' .*'A100'.*{keys}"):
        runs_of_rows(rows_by_law(2, gpu="a100_sxm")[:1] + changed(0, gpu="A100")[:1])


def test_a_gpu_beside_a_column_of_gpus_is_refused_where_they_differ():
    """It was left out silently, so that runs of one GPU were taken for those of another."""
    rows = rows_by_law(2, gpu="a100_sxm")

    with pytest.raises(ConfigError, match=r"'v100_pcie'.*column of GPUs with 'a100_sxm'"):
        runs_of_rows(rows, gpu="v100_pcie")
    assert len(runs_of_rows(rows, gpu="a100_sxm")) == len(rows)


def test_a_profile_needs_a_run_near_the_default_clock():
    runs = runs_of_rows(rows_by_law(2, clocks_mhz=(510, 705)))

    with pytest.raises(ConfigError, match="default clock of 1410 MHz"):
        profile_of(runs, "a100_sxm", "app00")


def test_the_published_a100_runs_are_read():
    boards = {"A100(GA100)": "a100_sxm"}

    runs = read_csv(reference_csv("a100_hpc_dvfs.csv"), boards=boards)

    assert len(runs) == 1281
    assert len(runs.pairs) == 21


def test_sms_that_are_busy_while_the_engine_is_not_are_refused():
    """It passed, and the device was taken for one that waits all the time."""
    rows = [row | {"gr_engine_active": 0.0} for row in rows_by_law(2)]

    with pytest.raises(ConfigError, match=r"'gr_engine_active' must be at least sm_active, row 0"):
        runs_of_rows(rows)
    with pytest.raises(ConfigError, match="gr_engine_active must be at least sm_active"):
        Profile(
            application="any",
            gpu="a40",
            board="a40",
            clock_mhz=1740.0,
            activity={"sm_active": 0.8, "gr_engine_active": 0.0},
        )
