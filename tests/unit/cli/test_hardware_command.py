"""``joulelab hardware``: GPUs of the user's own, made, listed, shown and checked."""

import csv
import json
from pathlib import Path

import pytest
from fake_nvml.driver import H200_SM_CLOCKS_MHZ

from joulelab.cli.hardware_add import values_of
from joulelab.cli.main import main
from joulelab.core.device import DeviceIdentity
from joulelab.hardware import GPUS
from joulelab.hardware.board_facts import SCHEMA, BoardFacts, Fact
from joulelab.hardware.board_facts import board_text as facts_text
from joulelab.hardware.catalogue import board_of
from joulelab.hardware.new_board import board_text, stated
from joulelab.hardware.processor import Figure, VoltageCurve
from joulelab.hardware.processors import PROCESSORS
from joulelab.power_models.studies import SWEEP_COLUMNS

NAMED = {"identity.product_names": Figure(value=["mine"], status="U", source="stated by the user")}
A41 = (
    *("add", "a41", "--like", "a40", "--product-name", "NVIDIA A41"),
    *("--sm-clocks-mhz", "210", "1800", "--default-clock-mhz", "1800", "--memory-gb", "24"),
    *("--memory-bandwidth-gb-per-s", "600", "--num-sms", "42", "--default-power-limit-w", "250"),
)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("JOULELAB_HARDWARE", str(tmp_path / "hardware"))
    return tmp_path / "hardware"


@pytest.fixture
def hardware(folder, capsys):
    def run(*words, code=0):
        assert main(["hardware", *words]) == code
        return capsys.readouterr()

    return run


def test_a_list_of_no_gpus_says_how_to_add_one(hardware):
    """It was a table without rows."""
    assert hardware("list").out == (
        "No GPU of your own is there; `joulelab hardware add` makes one.\n"
    )


def test_a_gpu_that_is_added_holds_what_was_stated_and_the_rest_as_estimates(hardware, folder):
    hardware(*A41)

    spec, other = GPUS["a41"], GPUS["a40"]
    assert (spec.sm_clocks_mhz[-1], spec.sm_clocks_mhz[0], spec.sm_count) == (210, 1800, 42)
    assert (spec.memory_b, spec.memory_bandwidth_b_per_s) == (24e9, 600e9)
    assert spec.default_power_limit_w == 250
    assert spec.power.sm_w_per_ghz == other.power.sm_w_per_ghz / 2
    assert spec.figures["memory.size_b"].status == "U"
    assert spec.figures["memory.size_b"].source == "stated by the user"
    assert spec.figures["memory.l2_b"].status == "E"
    assert spec.figures["operations_per_clock_per_sm.fp32"].status == "E"
    assert spec.figures["identity.architecture"].source == "as of the a40"
    assert (folder / "a41.toml").is_file()


def test_estimates_for_a_users_gpu_say_what_they_rest_on(hardware, capsys):
    hardware(*A41)

    main(["estimate", "--model", "workload:gemm", "--device", "a41", "--json"])

    confidence = json.loads(capsys.readouterr().out)["estimates"][0]["confidence"]
    assert confidence["tier"] == "C"
    assert confidence["time_error"] is None
    copied = sum(one.status == "E" for one in GPUS["a41"].figures.values()) - 1  # its tier
    assert f"{copied} of its {len(GPUS['a41'].figures)} figures" in confidence["note"]


def test_the_other_gpu_may_be_named_as_estimates_name_it(hardware):
    """``--like h200`` was unknown, while ``joulelab estimate --device h200`` is not."""
    hardware("add", "a41", "--like", "h200")

    assert GPUS["a41"].sm_count == GPUS["h200_sxm"].sm_count


def test_all_clocks_of_an_uneven_list_are_kept(hardware):
    hardware(*A41[:6], "--sm-clocks-mhz", "300", "900", "1000", "1740")

    assert GPUS["a41"].sm_clocks_mhz == (1740, 1000, 900, 300)


def test_all_clocks_of_an_even_list_are_a_step(hardware):
    hardware(*A41[:6], "--sm-clocks-mhz", *map(str, GPUS["v100_pcie"].sm_clocks_mhz), "--set",
             "clocks.default_mhz=1380")  # fmt: skip

    assert GPUS["a41"].sm_clocks_mhz == GPUS["v100_pcie"].sm_clocks_mhz
    assert "clocks.sm_mhz" not in GPUS["a41"].figures


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--memory-gb", "-1"), "memory.size_b must be positive, got -1e+09."),
        (("--memory-gb", "nan"), "memory.size_b must be a number, got nan."),
        (("--set", "power.idel_w=3"), "power.idel_w is no figure. Did you mean idle_w?"),
        (("--set", "idle_w"), "--set must be SECTION.NAME=VALUE"),
        (("--sm-clocks-mhz", "300"), "SM clocks must be at least two"),
        (("--sm-clocks-mhz", "300", "300", "1740"), "SM clocks must be at least two, different"),
        (("--sm-clocks-mhz", "300", "1200"), "state what is not as copied"),
        (("--product-name", "NVIDIA A40"), "'NVIDIA A40' is the catalogue's a40 already"),
        (("--like", "a41"), "Unknown GPU 'a41'"),
    ],
)
def test_a_gpu_that_cannot_be_is_refused_and_nothing_is_written(hardware, folder, words, reason):
    told = hardware("add", "a41", "--like", "a40", *words, code=2).err

    assert reason in told
    assert told.count("\n") == 1
    assert not folder.exists()


def test_a_gpu_without_another_that_it_is_like_is_refused_with_the_choices(hardware):
    assert "one of a100_pcie," in hardware("add", "a41", code=2).err


def test_a_file_of_the_user_is_replaced_on_request_alone(hardware):
    hardware(*A41)
    assert "--replace writes it anew" in hardware(*A41, code=2).err

    hardware(*A41, "--num-sms", "40", "--replace")

    assert GPUS["a41"].sm_count == 40


def test_the_list_and_the_figures_of_a_gpu_say_where_they_come_from(hardware):
    hardware(*A41, "--source", "data sheet of the A41")

    (entry,) = json.loads(hardware("list", "--json").out)
    shown = json.loads(hardware("show", "a41", "--json").out)

    assert (entry["key"], entry["tier"], entry["stated"]) == ("a41", "C", 8)
    assert sum(entry[name] for name in ("stated", "fitted", "others", "copied")) == len(
        PROCESSORS["a41"].figures
    )
    figure = {"value": 42, "status": "U", "source": "data sheet of the A41"}
    assert shown["figures"]["units.sm_count"] == figure
    assert "as of the a40" in shown["figures"]["voltage.ridge_mhz"]["source"]
    assert "data sheet of the A41" in hardware("show", "a41").out


def test_a_check_names_every_file_that_cannot_be_used(hardware, folder):
    hardware(*A41)
    assert "Files in" in hardware("check").out
    text = (folder / "a41.toml").read_text().replace("NVIDIA A41", "NVIDIA A42")
    (folder / "worse.toml").write_text(text.replace("value = 42,", "value = nan,"))
    (folder / "worst.toml").write_text("like")

    told = hardware("check", code=1).out

    assert f"{folder}/worse.toml cannot be used: units.sm_count must be a number, got nan." in told
    assert f"{folder}/worst.toml" in told
    assert "a41.toml" not in told


def test_a_check_names_files_that_cannot_have_their_name_first(hardware, folder):
    hardware(*A41)
    (folder / "a40.toml").write_text((folder / "a41.toml").read_text())

    told = hardware("check", code=1).out

    assert "a40.toml must have another name: the package has 'a40' already" in told
    assert "wrong: 1." in told


def test_two_files_with_one_product_name_are_told(hardware, folder):
    hardware(*A41)
    (folder / "twin.toml").write_text((folder / "a41.toml").read_text())

    told = json.loads(hardware("check", "--json", code=1).out)

    assert "'NVIDIA A41' is in" in told["boards"][0]["problem"]


def test_a_device_says_its_name_clocks_limits_and_memory(hardware, tmp_path):
    """A GPU of one file is simulated, and read back into another by what its driver tells."""
    hardware(*A41[:6], *A41[6:], "--min-power-limit-w", "120")
    seen = ("--from-device", "--device", "simulated", "--gpu", "a41", "--store", str(tmp_path))

    problem = hardware("add", "read", "--like", "v100_sxm2", *seen, code=2).err
    assert "'NVIDIA A41' is the catalogue's a41 already" in problem
    more = ("--default-clock-mhz", "1700", "--product-name", "NVIDIA A41 again")
    hardware("add", "read", "--like", "v100_sxm2", *seen, *more)

    read, there = GPUS["read"], GPUS["a41"]
    assert read.sm_clocks_mhz == there.sm_clocks_mhz
    assert read.mem_clocks_mhz == there.mem_clocks_mhz
    assert read.power_limits_w == (120, 300)
    assert (read.default_power_limit_w, read.memory_b) == (250, 24e9)
    assert read.figures["memory.size_b"].status == "S"
    assert read.figures["memory.size_b"].source.startswith("read from a NVIDIA A41 (simulated")
    assert read.figures["clocks.default_mhz"].status == "U"
    assert read.figures["power.idle_w"].source.startswith("as of the v100_sxm2")


def test_a_calibration_gives_what_was_measured_and_what_is_stated_precedes(hardware, tmp_path):
    measured = {"resting_power_w": 31.5, "counter_tick_s": 0.02, "memory_b_per_s": 480e9}
    facts = BoardFacts(
        schema=SCHEMA,
        device=DeviceIdentity(
            uuid="GPU-1", name="NVIDIA A41", backend="nvml", driver_version="580"
        ),
        host="node7",
        measured_at="2026-11-28",
        joulelab_version="0.1.0",
        facts=(
            *(Fact(name=name, value=value) for name, value in measured.items()),
            Fact(name="ridge_mhz", reason="no clock may be set"),
        ),
    )
    path = tmp_path / "board.json"
    path.write_text(facts_text(facts))

    hardware(*A41, "--calibration", str(path), "--set", "sensor.energy_tick_s=0.1")

    spec, other = GPUS["a41"], GPUS["a40"]
    assert spec.power.idle_w == 31.5
    assert spec.timing.memory_efficiency == 480.0 / 600.0
    assert spec.sensor.energy_tick_s == 0.1
    assert spec.voltage.ridge_mhz == other.voltage.ridge_mhz
    assert "NVIDIA A41 at node7" in spec.figures["power.idle_w"].source
    assert spec.figures["sensor.energy_tick_s"].status == "U"


def test_what_nvml_says_of_a_gpu_are_figures_of_its_file(driver):
    driver.add()

    values = values_of(driver.run(lambda device: device.capabilities()))

    assert tuple(values["clocks.sm_mhz"]) == H200_SM_CLOCKS_MHZ
    assert values["memory.size_b"] == 150754820096
    assert (values["limits.min_w"], values["limits.max_w"]) == (200, 700)
    figures = stated(values, source="read", status="S", other=GPUS["h200_sxm"])
    assert figures["clocks.sm_step_mhz"].value == 15
    assert board_of("mine", board_text("mine", "h200_sxm", figures | NAMED), Path()).memory_b == (
        150754820096
    )


def test_a_sweep_gives_the_voltage_curve_and_the_constant_power(hardware, tmp_path):
    """Columns as nvidia-smi names them; the law is 50 W + c f v(f)^2."""
    clocks_mhz = range(510, 1741, 30)
    curve = VoltageCurve(ridge_mhz=1200.0, slope_per_ghz=0.6, curvature_per_ghz2=0.4)
    with (tmp_path / "sweep.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["gpu", "application", "clocks.sm [MHz]", "power.draw [W]", "runtime"])
        for name, watts in (("gemm", 60), ("other", 40)):
            for clock in clocks_mhz:
                power_w = 50 + watts * clock / 1e3 * curve.at(float(clock)) ** 2
                table.writerow(["NVIDIA A41", name, clock, power_w, 1e3 / clock])

    printed = hardware(*A41[:6], "--from-sweep", str(tmp_path / "sweep.csv")).out

    spec = GPUS["a41"]
    assert spec.power.constant_w == pytest.approx(50, rel=0.01)
    assert spec.voltage.at(1740.0) == pytest.approx(curve.at(1740.0), rel=0.01)
    assert spec.figures["voltage.ridge_mhz"].status == "F"
    assert "sweep.csv: 84 runs" in spec.figures["voltage.ridge_mhz"].source
    assert "Applications that the fit has not seen" in printed
    assert "Still as of the a40: how power divides" in printed
    assert spec.chip.tier == "C"


def test_the_table_of_a_study_gives_them_too(hardware, tmp_path):
    """It was refused for its GPU, with options that this command has not."""
    curve = VoltageCurve(ridge_mhz=1200.0, slope_per_ghz=0.6, curvature_per_ghz2=0.4)
    with (tmp_path / "sweep.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, sorted(SWEEP_COLUMNS), restval="")
        table.writeheader()
        for clock in range(510, 1741, 30):
            named = {"workload": "gemm", "phase": "gemm", "device": "NVIDIA A41"}
            asked = {"sm_clock_mhz": clock, "observed_sm_clock_mhz": clock}
            power_w = 50 + 60 * clock / 1e3 * curve.at(float(clock)) ** 2
            table.writerow(named | asked | {"power_w": power_w, "time_per_unit_s": 1 / clock})

    printed = hardware(*A41[:6], "--from-sweep", str(tmp_path / "sweep.csv")).out

    assert "Fitted to 42 runs" in printed
    assert GPUS["a41"].power.constant_w == pytest.approx(50, rel=0.01)
