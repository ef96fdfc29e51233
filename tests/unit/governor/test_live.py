"""What a governor says while it runs, in virtual time."""

from collections import Counter
from itertools import pairwise

import pytest
from fake_gpu import FOREIGN_PID
from governed import rules_of

from joulelab.devices.control import OwnControl
from joulelab.devices.simulated import DriverStore, Fault, SimulatedDevice
from joulelab.governor import STRATEGIES
from joulelab.governor.governor import Governor
from joulelab.governor.loads import SimulatedLoad, stages_of
from joulelab.governor.observing import Tenants
from joulelab.governor.report import AGAIN_S, Live
from joulelab.governor.session import govern_load
from joulelab.governor.strategy import Rules
from joulelab.monitor.sensors import OwnProcesses


def told(folder, load, *, strategy="model", faults=(), sets=True, duration_s=60.0, say=None):
    """Return what is said while a load is played, line by line, and the governor."""
    driver = DriverStore(folder).create("h200_sxm", 0)
    driver.inject(*faults)
    device = SimulatedDevice(driver)
    played = SimulatedLoad(device, stages_of(load), seed=1)
    rules = Rules(off_share=0.0, cpu_budget=1.0)  # however loaded this machine is
    tenants = Tenants(device, OwnProcesses())
    control = OwnControl(device) if sets else None
    governor = Governor(device, control, STRATEGIES[strategy](rules), rules, tenants)
    lines: list[str] = []
    with governor, Live(governor, say or lines.append):
        played.play(duration_s)
    governor.raise_if_failed()
    return [line.partition(" s  ")[2] for line in lines], governor


def test_every_phase_is_told_with_what_is_set_for_it_in_the_end(tmp_path):
    lines, governor = told(tmp_path, "serving")

    last = {line.partition(" (")[0].partition(":")[0]: line for line in lines}
    chosen = governor.chooser.chosen
    assert set(last) == {phase.name for phase in governor.recogniser.phases}
    decode = next(p for p in governor.recogniser.phases if p.signature.label == "decode")
    assert "MHz): " in last[decode.name]
    assert chosen[decode.number].label in [line.rpartition(": ")[2] for line in lines]


@pytest.mark.parametrize("strategy", ["model", "bandit"])
def test_a_phase_is_told_anew_only_now_and_then_and_never_the_same_twice(tmp_path, strategy):
    """A bandit tries another point every second; phases of a chat come every other one."""
    lines, _ = told(tmp_path, "chat", strategy=strategy)

    by_phase = Counter(line.partition(" (")[0].partition(":")[0] for line in lines)
    assert by_phase
    assert max(by_phase.values()) <= 60.0 / AGAIN_S + 1
    for name in by_phase:
        said = [line.rpartition(": ")[2] for line in lines if line.startswith(name)]
        assert all(one != other for one, other in pairwise(said))


def test_another_process_is_told_when_it_comes_and_when_it_has_gone(tmp_path):
    fault = Fault(kind="foreign_process", pid=FOREIGN_PID, at_s=20.0, until_s=40.0)
    lines, _ = told(tmp_path, "decode", faults=[fault])

    came = next(i for i, line in enumerate(lines) if f"pid {FOREIGN_PID}" in line)
    gone = next(i for i, line in enumerate(lines) if "has gone" in line)
    assert came < gone


def test_a_governor_that_only_observes_says_why_once(tmp_path):
    lines, _ = told(tmp_path, "decode", sets=False, duration_s=20.0)

    assert lines.count("Nothing is set: it was asked to observe only") == 1


def test_governing_goes_on_when_nobody_reads_any_more(tmp_path):
    def say(line):
        raise BrokenPipeError

    _, governor = told(tmp_path, "decode", duration_s=30.0, say=say)

    assert governor.num_changes > 0
    assert governor.watched_s == pytest.approx(30.0, abs=1.0)


def test_a_load_that_is_interrupted_is_reported_as_far_as_it_was_played(tmp_path):
    """Ctrl-C threw away all of it, and what governs a program in real time reported."""

    class Interrupted(SimulatedLoad):
        def play(self, duration_s):
            super().play(duration_s)
            raise KeyboardInterrupt

    device = SimulatedDevice(DriverStore(tmp_path).create("h200_sxm", 0))
    rules = rules_of()
    governor = Governor(device, OwnControl(device), STRATEGIES["model"](rules), rules)

    found = govern_load(governor, Interrupted(device, stages_of("decode")), 20.0)

    assert found.duration_s == pytest.approx(20.0, abs=0.2)
    assert [phase.name for phase in found.phases] == ["decode 1"]
