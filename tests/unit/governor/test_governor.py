"""The governor on loads that go from phase to phase, in virtual time."""

import itertools
from dataclasses import replace
from typing import ClassVar

import governed
import numpy as np
import pytest
from fake_gpu import FOREIGN_PID
from governed import play, rules_of

from joulelab.devices.control import OwnControl
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice
from joulelab.devices.simulated.board import Board
from joulelab.errors import (
    ConfigError,
    DeviceLostError,
    GuardError,
    MeasurementError,
)
from joulelab.governor import STRATEGIES
from joulelab.governor.choosing import REFERENCE_AGE_S
from joulelab.governor.governor import Governor
from joulelab.governor.loads import LOADS, SimulatedLoad, Stage, phase_cost
from joulelab.governor.observing import Observer, Tenants
from joulelab.governor.outlook import Outlook
from joulelab.governor.report import report
from joulelab.governor.strategies import Model, _curve
from joulelab.governor.strategy import Rules
from joulelab.hardware import GPUS
from joulelab.monitor.sensors import OwnProcesses


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


def test_a_phase_goes_to_the_limit_where_others_lose_nothing(store):
    """Room for what is not certain is left in the limit of the load, not in that of each phase."""
    training = {
        strategy: play(store, "training", strategy, gpu="a100_sxm", duration_s=120.0)
        for strategy in (None, "oracle", "model")
    }

    governor = training["model"].governor
    (prefill,) = (p for p in governor.recogniser.phases if p.signature.label == "prefill")
    lowest = training["oracle"].governor.strategy._points["prefill"]
    assert governor.chooser.chosen[prefill.number] == lowest
    assert training["model"].slowdown(training[None]) <= 0.05


def test_without_any_slowdown_allowed_no_work_gets_slower(store, default):
    governed = play(store, "serving", "model", max_slowdown=0.0)

    assert governed.slowdown(default("serving")) <= 0.003


def test_phases_are_recognised_and_named(store):
    governed = play(store, "serving", "model")

    labels = sorted(phase.signature.label for phase in governed.governor.recogniser.phases)
    assert labels == ["decode", "idle", "prefill"]


def test_race_to_idle_changes_the_clock_of_idle_time_alone(store, default):
    governed = play(store, "bursts", "race-to-idle")

    chosen = governed.governor.chooser.chosen
    phases = {
        phase.signature.label: chosen[phase.number] for phase in governed.governor.recogniser.phases
    }
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


def test_the_oracle_saves_more_than_anybody_else(store, default):
    """And it keeps the limit, since it knows what each clock costs."""
    saved = {}
    for strategy in ("oracle", "model", "bandit", "race-to-idle"):
        governed = play(store, "serving", strategy, duration_s=300.0)
        saved[strategy] = governed.saving(default("serving"))
        assert governed.slowdown(default("serving")) <= 0.05

    assert saved["oracle"] >= max(saved.values()) - 0.005
    assert saved["model"] >= 0.85 * saved["oracle"]
    assert saved["bandit"] >= 0.5 * saved["oracle"]


def test_power_limits_save_where_clocks_may_not_be_turned(store, default):
    governed = play(store, "decode", "model", duration_s=120.0, knob="power-limit")

    (phase,) = governed.governor.recogniser.phases
    chosen = governed.governor.chooser.chosen[phase.number]
    assert chosen.sm_clock_mhz is None
    assert 200 <= chosen.power_limit_w < 650
    assert governed.saving(default("decode")) > 0.1
    assert governed.slowdown(default("decode")) <= 0.05
    assert governed.device.read_state().held.is_default


def test_a_limit_that_the_driver_holds_the_clock_with_is_told(store):
    governed = play(store, "prefill", "model")  # 1042 W at the highest clock, by 700 W allowed

    assert governed.governor.throttled_s > 30


def test_windows_in_which_heat_holds_the_clock_teach_nothing_of_the_clock_that_was_set(store):
    throttled = Fault(kind="throttle", at_s=30.0, clock_mhz=900, reason="sw_thermal")
    governed = play(store, "decode", "model", faults=[throttled])

    (phase,) = [each for each in governed.governor.recogniser.phases if each.number == 1]
    set_mhz = [(point.sm_clock_mhz, tally) for point, tally in phase.tallies.items()]
    assert all(
        tally.sm_clock_mhz.mean == pytest.approx(clock_mhz, abs=15)
        for clock_mhz, tally in set_mhz
        if clock_mhz is not None
    )


def test_a_clock_that_is_not_held_is_given_up(tmp_path):
    """As where another program unlocks it again and again."""
    driver = DriverStore(tmp_path).create("h200_sxm", 0)
    device = SimulatedDevice(driver)
    load = SimulatedLoad(device, LOADS["decode"])
    rules = rules_of(off_share=0.0)
    governor = Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules).start()
    load.play(20.0)
    device.clock.every(0.05, lambda: driver.write("locked_sm_mhz", None))

    load.play(10.0)

    governor.stop()
    assert "something else sets it" in governor.observing_only


def test_nothing_is_set_nor_counted_while_another_process_is_on_the_gpu(tmp_path):
    driver = DriverStore(tmp_path).create("h200_sxm", 0)
    driver.inject(Fault(kind="foreign_process", pid=FOREIGN_PID, at_s=40.0, until_s=60.0))
    device = SimulatedDevice(driver)
    load = SimulatedLoad(device, LOADS["decode"])
    rules, tenants = rules_of(block_s=5.0), Tenants(device, OwnProcesses())
    governor = Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules, tenants)

    with governor:
        load.play(50.0)
        assert device.read_state().held.is_default
        load.play(50.0)

    spoilt = {block.start_s for block in governor.schedule.blocks if block.spoilt}
    # a look begins in the block before; the end of the other is seen two seconds late at most
    assert {40.0, 45.0, 50.0, 55.0} <= spoilt <= {35.0, 40.0, 45.0, 50.0, 55.0, 60.0}
    assert f"pid {FOREIGN_PID}" in governor.notes[0]


def test_looks_are_taken_less_often_where_they_cost_too_much(store):
    governed = play(store, "decode", "model", duration_s=90.0, cpu_budget=1e-6)

    assert governed.governor.looking.period_s == 4 * Rules().period_s
    assert "of a core" in governed.governor.notes[0]


class Billed(Governor):
    """Bills looks with what they take of a core at an H200: 3.6 ms, and 0.6 where brief."""

    num_whole = 0

    def _bill(self, cpu_s, call_s):
        self.num_whole += not self._is_brief
        super()._bill(0.0006 if self._is_brief else 0.0036, call_s)


@pytest.mark.slow
def test_looks_that_cost_what_they_do_at_an_h200_stay_frequent_within_a_hundredth_of_a_core(
    store, default, monkeypatch
):
    """They were 0.42 s apart, and a change of phase was answered after half a second.

    So 10 points less were saved of a chat, and 10 of what little is to be saved of a training.
    """
    monkeypatch.setattr(governed, "Governor", Billed)

    played = play(store, "bursts", "model", duration_s=150.0, cpu_budget=0.01)

    governor = played.governor
    assert governor.looking.are_brief
    assert governor.looking.period_s < 0.13
    assert governor.num_whole < 0.45 * governor.watched_s / Rules().period_s
    usual = default("bursts")
    assert played.saving(usual) > 0.25
    assert played.slowdown(usual) < 0.05


def test_reported_progress_reaches_the_blocks(tmp_path):
    device = SimulatedDevice(DriverStore(tmp_path).create("h200_sxm", 0))
    load = SimulatedLoad(device, LOADS["decode"])
    rules = rules_of(block_s=5.0)
    with Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules) as governor:
        device.clock.every(0.1, lambda: governor.progress(2.0))
        load.play(100.0)

    found = report(governor).comparison
    assert found.by_progress
    assert found.time.value == pytest.approx(0.0, abs=0.02)  # the ticks come whatever the clock
    assert found.energy.value < -0.2


class Bare(SimulatedDevice):
    """A board of which less is known, or less can be set, than of others."""

    lacks: ClassVar = {}

    def capabilities(self):
        return replace(super().capabilities(), **self.lacks)


def test_a_device_without_the_knob_is_observed(tmp_path):
    device = Bare(DriverStore(tmp_path).create("h200_sxm", 0))
    device.lacks = {"power_limits_w": None}
    rules = rules_of(knob="power-limit")

    governor = Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules)

    assert "has no power-limit that can be set" in governor.observing_only


@pytest.mark.parametrize("load", ["prefill", "decode", "serving"])
def test_without_counters_it_keeps_to_clocks_at_which_any_work_keeps_the_limit(tmp_path, load):
    """Work cannot slow down by more than its clock does."""
    alone = play(tmp_path, load, gpu="a100_sxm")
    device = Bare(DriverStore(tmp_path).create("a100_sxm", 0))
    device.lacks = {"has_activity": False}
    played = SimulatedLoad(device, LOADS[load], seed=1)
    rules = rules_of(off_share=0.0)
    with Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules) as governor:
        played.play(60.0)

    work_s = sum(done * alone.units_s[phase] for phase, done in played.work.items())
    assert 60.0 / work_s - 1 <= 0.05
    assert {phase.signature.label for phase in governor.recogniser.phases} <= {"busy", "idle"}


def test_a_load_that_never_becomes_steady_is_left_to_the_driver_and_says_so(tmp_path):
    """Each look sees another mixture of two phases."""
    device = SimulatedDevice(DriverStore(tmp_path).create("h200_sxm", 0))
    costs = [phase_cost(phase, GPUS["h200_sxm"]) for phase in ("prefill", "decode")]
    rules, share = rules_of(off_share=0.0), itertools.cycle([0.02, 0.05, 0.08, 0.035, 0.065])
    with Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules) as governor:
        for _ in range(600):
            first_s = next(share)
            for cost, duration_s in zip(costs, (first_s, 0.1 - first_s), strict=True):
                device.play(cost)
                device.clock.sleep_s(duration_s)

    assert governor.num_changes <= 2
    assert any("never became steady" in note for note in report(governor).notes)


def test_a_lease_that_is_lost_is_given_up(tmp_path):
    """The guard restores what it takes back, and nobody sets a clock without it."""
    device = SimulatedDevice(DriverStore(tmp_path).create("h200_sxm", 0))

    class Lost(OwnControl):
        def require_held(self):
            if device.clock.now_s() > 20.0:
                raise GuardError("The lease of SIM-h200_sxm-0 is lost: the guard died.")

    load, rules = SimulatedLoad(device, LOADS["serving"]), rules_of(off_share=0.0)
    with Governor(device, Lost(device), STRATEGIES["model"](rules), rules) as governor:
        load.play(40.0)

    assert "guard died" in governor.observing_only
    assert device.read_state().held.is_default


def test_a_governor_that_fails_puts_the_clock_back_at_once(tmp_path):
    device = SimulatedDevice(DriverStore(tmp_path).create("h200_sxm", 0))

    class Failing(STRATEGIES["model"]):
        def choose(self, situation):
            if situation.now_s > 20.0:
                raise ArithmeticError("no number")
            return super().choose(situation)

    load, rules = SimulatedLoad(device, LOADS["decode"]), rules_of(off_share=0.0)
    governor = Governor(device, OwnControl(device), Failing(rules), rules).start()
    load.play(40.0)

    assert governor.num_changes > 0
    assert device.read_state().held.is_default
    with pytest.raises(MeasurementError, match="no number"):
        governor.raise_if_failed()


def test_the_drivers_clock_is_looked_at_again_once_a_phase_has_its_own(store):
    """Once it ran for 40 s since, in four minutes at the latest, half a second after it began."""
    governed = play(store, "bursts", "model", duration_s=720.0)

    reference_s = [b.start_s for b in governed.load.spells if b.phase == "decode"]
    assert len(reference_s) > 10
    phases = governed.governor.recogniser.phases
    whole_s, now_s = sum(phase.duration_s for phase in phases), governed.device.clock.now_s()
    for phase in phases:
        oldest_s = min(max(40.0 / (phase.duration_s / whole_s), REFERENCE_AGE_S), 240.0)
        assert now_s - phase.reference.last_s < 1.5 * oldest_s + 30


def test_a_phase_too_short_for_a_look_at_the_drivers_clock_is_left_to_it_from_begin_to_end(
    store, monkeypatch
):
    """Half of a second of communication went by before its clock was in force, or after it."""
    set_point, changes_s = Governor._set, []

    def noted(governor, point):
        before = governor._point
        set_point(governor, point)
        if governor._point.is_default and not before.is_default:
            changes_s.append(governor._since_s)

    monkeypatch.setattr(Governor, "_set", noted)

    governed = play(store, "training", "model", duration_s=400.0)

    spells = [each for each in governed.load.spells if each.phase == "communication"]
    (phase,) = (
        each for each in governed.governor.recogniser.phases if each.signature.label == "light"
    )
    assert phase.reference.last_s > 150.0  # it was looked at since it was first seen
    late_s = [
        at_s - spell.start_s
        for spell in spells
        for at_s in changes_s
        if 120.0 < spell.start_s + 0.3 < at_s < spell.stop_s
    ]
    assert late_s == []


def test_a_phase_that_the_power_limit_holds_is_given_a_clock_right_above_where_it_is_held(store):
    """The limit lowered the driver's own clock step by step, 0.14 s beyond the change."""
    governed = play(store, "training", "model", duration_s=120.0)

    phases = governed.governor.recogniser.phases
    (prefill,) = (phase for phase in phases if phase.signature.label == "prefill")
    chosen_mhz = governed.governor.chooser.chosen[prefill.number].sm_clock_mhz
    assert prefill.is_capped
    assert 0 < chosen_mhz - prefill.reference.sm_clock_mhz.mean <= 60


def test_a_load_of_one_phase_that_the_power_limit_holds_is_left_to_the_driver(store):
    governed = play(store, "prefill", "model")

    assert governed.governor.recogniser.phases[0].is_capped
    assert governed.governor.num_changes == 0


@pytest.mark.parametrize("least_s", [0.0, 0.099])
def test_the_look_after_a_window_of_no_phase_comes_as_soon_as_the_driver_lets_it(
    store, monkeypatch, least_s
):
    """Half a period later; where activity is counted over a tenth of a second, after that."""
    look, note, after_mixed_s = Observer.look, Governor._note, []

    def patient(observer, expected):
        is_soon = observer._device.clock.now_s() - observer.start_s < least_s
        return None if is_soon else look(observer, expected)

    def noted(governor, seen):
        if len(governor._pending) == 1:
            after_mixed_s.append(seen.duration_s)
        note(governor, seen)

    monkeypatch.setattr(Observer, "look", patient)
    monkeypatch.setattr(Governor, "_note", noted)

    play(store, "training", "model", duration_s=60.0)

    assert len(after_mixed_s) > 10
    expected_s = [max(0.05, round(least_s, 1))] * len(after_mixed_s)
    assert after_mixed_s == pytest.approx(expected_s, abs=0.006)


def test_times_are_over_those_at_the_drivers_clock_as_the_power_limit_has_it_now(tmp_path):
    """It was kept as it was on the cold board, 1 % higher: all clocks seemed 1 % slower."""
    device = SimulatedDevice(DriverStore(tmp_path).create("a100_sxm", 1))
    driver = DriverStore(tmp_path).create("a100_sxm", 1)
    board = Board.of(driver.seed, driver.spec)
    load, rules = SimulatedLoad(device, LOADS["prefill"], board=board), rules_of(off_share=0.0)
    with Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules) as governor:
        load.play(120.0)

    (phase,) = governor.recogniser.phases
    curves, (clocks_mhz, times, _) = governor.chooser._kept(phase), _curve(load, "prefill")
    true = np.interp(curves.sm_clock_mhz[1:20], clocks_mhz[::-1], times[::-1])
    assert curves.time[1:20] == pytest.approx(true, rel=0.008)


def test_a_choice_stands_until_there_is_more_to_go_by(store, monkeypatch):
    """What every look would cost again is done as a phase begins, and seldom while it goes on."""
    asked_s, drawn_s = [], []
    choose, curves = Model.choose, Outlook.curves

    def asked(strategy, situation):
        asked_s.append((situation.now_s, situation.phase.name))
        return choose(strategy, situation)

    def drawn(outlook, phase):
        drawn_s.append(phase.name)
        return curves(outlook, phase)

    monkeypatch.setattr(Model, "choose", asked)
    monkeypatch.setattr(Outlook, "curves", drawn)

    played = play(store, "chat", "model", duration_s=120.0)

    num_looks = sum(phase.num_windows for phase in played.governor.recogniser.phases)
    assert len(asked_s) < 0.5 * num_looks
    assert len(drawn_s) < 0.09 * num_looks
    long = [s for s in played.load.spells if s.start_s > 60 and s.stop_s - s.start_s > 1.0]
    assert long
    for spell in long:
        assert any(spell.start_s < at_s < spell.start_s + 0.3 for at_s, _ in asked_s)
