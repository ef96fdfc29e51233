"""The state that a simulated driver keeps outside every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.point import OperatingPoint
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice, fleet
from joulelab.devices.simulated.machine import StoreWatch
from joulelab.errors import ConfigError, DeviceNotFoundError, UnknownNameError


def test_a_new_gpu_says_what_it_is_in_plain_files(tmp_path):
    state = DriverStore(tmp_path).create("h200_sxm", 3)

    assert state.folder == tmp_path / "SIM-h200_sxm-3"
    assert state.read("name") == "NVIDIA H200"
    assert state.read("catalogue") == "h200_sxm"
    assert state.read("index") == "3"
    assert state.read("sm_clocks_mhz").split()[:2] == ["1980", "1965"]
    assert state.read("power_limit_range_mw") == "200000 700000 700000"
    assert state.read("restricted") is None


def test_settings_and_traits_survive_a_second_creation(tmp_path):
    store = DriverStore(tmp_path)
    store.create("a100_sxm", seed=7).lock_sm(1005, 1005)

    again = store.create("a100_sxm", seed=8, restricted=True)

    assert again.seed == 7
    assert again.settings().locked_sm_mhz == (1005, 1005)
    assert not again.settings().restricted


def test_locked_gpus_are_listed_until_they_are_reset(tmp_path):
    store = DriverStore(tmp_path)
    first, second, third = (store.create("a40", index) for index in range(3))
    first.lock_sm(1005, 1005)
    third.limit_power(150.0)
    assert store.locked_uuids() == (first.uuid, third.uuid)

    first.reset()
    third.reset()

    assert store.locked_uuids() == ()
    assert store.uuids() == (first.uuid, second.uuid, third.uuid)


def test_settings_read_back_in_watts_and_to_the_milliwatt(tmp_path):
    """256.4 times 1000 is a little less than 256400: cut off, it is a milliwatt less."""
    state = DriverStore(tmp_path).create("h200_sxm")

    state.limit_power(256.4)

    assert state.read("power_limit_mw") == "256400"
    assert state.settings().power_limit_w == 256.4


def test_a_reset_leaves_no_setting_behind(tmp_path):
    store = DriverStore(tmp_path)
    state = store.create("h200_sxm")
    state.lock_sm(1005, 1005)
    state.lock_mem(2201, 2201)
    state.limit_power(300.0)

    state.reset()

    assert state.settings().point == OperatingPoint()


def test_a_lock_outlives_the_process_that_set_it(tmp_path):
    code = (
        "import os, sys\n"
        "from joulelab.core.point import OperatingPoint\n"
        "from joulelab.devices.simulated import DriverStore, SimulatedDevice\n"
        f"state = DriverStore({str(tmp_path)!r}).create('h200_sxm')\n"
        "SimulatedDevice(state).apply(OperatingPoint(sm_clock_mhz=1005))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    platform = Path(__file__).parents[3] / "platform"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(platform)},
        capture_output=True,
        check=False,
    )

    assert done.returncode == -9, done.stderr.decode()
    assert DriverStore(tmp_path).locked_uuids() == ("SIM-h200_sxm-0",)


def test_many_makers_of_one_gpu_agree(tmp_path):
    states = [DriverStore(tmp_path).create("l4", 0) for _ in range(3)]

    assert len({state.seed for state in states}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["SIM-l4-0"]


def test_a_fleet_is_found_where_it_was_made(tmp_path):
    made = fleet("h100_sxm", 4, str(tmp_path))

    assert SimulatedDevice.discover(str(tmp_path)) == made
    assert SimulatedDevice.open(made[2]).identity().uuid == "SIM-h100_sxm-2"


def test_nothing_is_found_in_a_store_that_is_not_there(tmp_path):
    assert SimulatedDevice.discover(str(tmp_path / "nowhere")) == ()


@pytest.mark.parametrize("uuid", ["GPU-123", "SIM-h200-0", "SIM-h200_sxm-x"])
def test_an_unknown_gpu_is_refused_with_those_that_are_there(tmp_path, uuid):
    store = DriverStore(tmp_path)
    store.create("a40")

    with pytest.raises(DeviceNotFoundError, match="SIM-a40-0"):
        store.state(uuid)


def test_an_unknown_kind_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UnknownNameError, match="h200_sxm"):
        fleet("h200_sxn", 2, str(tmp_path / "store"))

    assert not (tmp_path / "store").exists()


def test_every_change_is_seen_however_fast_they_come(tmp_path):
    """Two changes within one tick of the file system's clock must both be noticed."""
    state = DriverStore(tmp_path).create("h200_sxm")
    watch = StoreWatch(state)

    for clock_mhz in range(345, 1980, 15):
        state.lock_sm(clock_mhz, clock_mhz)
        assert watch.changed()
        assert watch.settings.locked_sm_mhz == (clock_mhz, clock_mhz)
        assert not watch.changed()


def test_a_setting_that_is_taken_away_is_noticed(tmp_path):
    state = DriverStore(tmp_path).create("h200_sxm")
    state.lock_sm(1005, 1005)
    watch = StoreWatch(state)

    state.reset()

    assert watch.changed()
    assert watch.settings.locked_sm_mhz is None


def test_rights_are_granted_to_single_processes(tmp_path):
    state = DriverStore(tmp_path).create("h200_sxm", restricted=True)

    state.grant(42)
    state.grant(7)
    state.grant(42)

    assert state.settings().restricted
    assert state.settings().administrators == {7, 42}


@given(
    st.sampled_from(["lost", "throttle", "foreign_process", "slow_clock"]),
    st.floats(0, 1e6),
    st.one_of(st.none(), st.integers(210, 1980)),
    st.integers(1, 1 << 22),
)
def test_a_fault_reads_back_from_its_line(kind, at_s, clock_mhz, pid):
    fault = Fault(kind=kind, at_s=at_s, clock_mhz=clock_mhz, pid=pid, reason="sw_thermal")

    assert Fault.parse(fault.line) == fault


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("losst", "Did you mean 'lost'"),
        ("lost when=3", "setting of fault 'lost'"),
        ("lost at_s=soon", "must be a number"),
        ("throttle reason=boredom", "throttle reason"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(line, message):
    with pytest.raises(ConfigError, match=message):
        Fault.parse(line)


def test_a_gpu_under_its_short_name_is_the_same_gpu(tmp_path):
    """``--gpu h200`` was unknown, while ``joulelab estimate --device h200`` is not."""
    short, whole = (DriverStore(tmp_path).create(name, 0).uuid for name in ("h200", "h200_sxm"))

    assert short == whole == "SIM-h200_sxm-0"
    assert [each.uuid for each in fleet(["h200", "h200_sxm"], 1, str(tmp_path))] == [whole]
