"""The governor on loads that go from phase to phase, in virtual time."""

import pytest
from governed import play

from joulelab.devices.control import OwnControl
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice
from joulelab.errors import ConfigError, DeviceLostError, UnknownNameError
from joulelab.governor import STRATEGIES
from joulelab.governor.governor import Governor
from joulelab.governor.loads import LOADS, Stage
from joulelab.governor.rules import Rules


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("driver")


@pytest.fixture(scope="module")
def default(store):
    """Each load as the driver alone runs it, made once."""
    made = {}
    return lambda load: made.setdefault(load, play(store, load))


def test_a_load_takes_the_time_that_its_stages_say_at_the_drivers_own_clock(default):
    decode = default("serving")

    spells = [spell for spell in decode.load.spells if spell.phase == "decode"]

    mean_s = sum(spell.stop_s - spell.start_s for spell in spells[:-1]) / len(spells[:-1])
    assert mean_s == pytest.approx(6.0, rel=0.3)  # six spells of which logs scatter by 0.4


@pytest.mark.parametrize("load", LOADS)
def test_the_model_saves_energy_within_the_slowdown_limit(store, default, load):
    governed = play(store, load, "model", duration_s=60.0)

    assert governed.slowdown(default(load)) <= 0.05
    assert governed.saving(default(load)) > (
        0.15 if load not in ("prefill", "training") else -0.005
    )
    assert not governed.governor.observing_only


def test_a_memory_bound_load_goes_down_to_the_knee_of_the_memory_and_not_below(store):
    governed = play(store, "decode", "model", objective="energy")

    (phase,) = governed.governor.recogniser.phases
    chosen = governed.governor.chooser.chosen[phase.number]
    assert 1000 <= chosen.sm_clock_mhz <= 1250  # the catalogue's knee is at 1100 MHz


def test_without_any_slowdown_allowed_no_work_gets_slower(store, default):
    governed = play(store, "serving", "model", max_slowdown=0.0)

    assert governed.slowdown(default("serving")) <= 0.003


def test_phases_are_recognised_and_named(store):
    governed = play(store, "serving", "model")

    labels = sorted(phase.label for phase in governed.governor.recogniser.phases)
    assert labels == ["decode", "idle", "prefill"]


def test_race_to_idle_changes_the_clock_of_idle_time_alone(store, default):
    governed = play(store, "bursts", "race-to-idle")

    chosen = governed.governor.chooser.chosen
    phases = {phase.label: chosen[phase.number] for phase in governed.governor.recogniser.phases}
    assert phases["decode"].is_default
    assert phases["idle"].sm_clock_mhz < 1900
    assert governed.saving(default("bursts")) > 0.05


def test_a_fixed_clock_that_the_limit_forbids_is_the_lowest_that_it_allows(store, default):
    slow = (Stage(phase="prefill", mean_s=60.0),)
    governed = play(store, slow, "fixed", gpu="a100_sxm", fixed=900.0)

    assert governed.slowdown(play(store, slow, gpu="a100_sxm")) <= 0.05
    assert governed.governor.num_changes > 0


def test_nothing_is_left_set_when_the_governor_ends(store):
    governed = play(store, "decode", "model")

    assert governed.governor.num_changes > 0
    assert governed.device.read_state().held.is_default


def test_a_refused_clock_makes_it_observe_only_and_say_why(store):
    governed = play(store, "decode", "model", faults=[Fault(kind="refused")])

    assert "refused" in governed.governor.observing_only
    assert governed.governor.num_changes == 0


def test_a_device_that_is_lost_ends_the_governor_with_its_error(tmp_path):
    driver = DriverStore(tmp_path).create("h200_sxm", 0)
    driver.inject(Fault(kind="lost", at_s=20.0))
    device = SimulatedDevice(driver)
    governor = Governor(device, OwnControl(device), STRATEGIES["model"](Rules()), Rules()).start()

    device.clock.sleep_s(30.0)

    governor.stop()
    with pytest.raises(DeviceLostError, match="lost"):
        governor.raise_if_failed()


def test_a_load_whose_phases_are_shorter_than_a_look_is_left_to_the_driver(store, default):
    """No look sees one phase alone, and what looks see on the average never settles."""
    rapid = (
        Stage(phase="prefill", mean_s=0.07, spread=1.0),
        Stage(phase="decode", mean_s=0.07, spread=1.0),
        Stage(phase="idle", mean_s=0.07, spread=1.0),
    )
    governed = play(store, rapid, "model", duration_s=120.0)
    alone = play(store, rapid, duration_s=120.0)

    assert governed.slowdown(alone) <= 0.05


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"objective": "time"}, "own clocks are the fastest"),
        ({"objective": "qep"}, "without quality"),
        ({"max_slowdown": 5}, r"0\.05 is 5 %"),
        ({"off_share": 0.9}, "off_share"),
        ({"block_s": 0.5}, "block_s"),
        ({"cpu_budget": 0}, "cpu_budget"),
    ],
)
def test_rules_that_make_no_sense_are_refused(asked, message):
    with pytest.raises(ConfigError, match=message):
        Rules(**asked)


def test_a_misspelt_strategy_is_answered_with_the_closest():
    with pytest.raises(UnknownNameError, match="race-to-idle"):
        STRATEGIES["race_to_idle"]
