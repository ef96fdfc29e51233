"""What a search goes on from, whatever its earlier runs left."""

from dataclasses import replace

import pytest
from actor_fixtures import gemm

from joulelab.core.configuration import Configuration
from joulelab.core.device import DeviceIdentity
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Finding, Observed
from joulelab.core.record import Session, Verdict, record_of
from joulelab.core.trial import Trial
from joulelab.provenance import collect_provenance
from joulelab.study.events import spent_j
from joulelab.study.resume import history_of, trial_name

DEVICE = DeviceIdentity(uuid="GPU-a", name="a", backend="simulated", driver_version="1")
PROVENANCE = collect_provenance()
WINDOW = EnergyWindow(
    start_s=0.0, duration_s=10.0, energy_j=2000.0, energy_u_j=4.0, source="counter", work=100.0
)


def measurement(number, *, attempt=0, reason=None, clock_mhz=990, repeat=0, **changes):
    configuration = changes.pop("configuration", gemm(clock_mhz))
    trial = Trial(
        study="s",
        name=trial_name(number, configuration, repeat),
        configuration=configuration,
        repeat=repeat,
        attempt=attempt,
        sentinel=changes.pop("sentinel", False),
    )
    findings = () if reason is None else (Finding(reason=reason, detail="as seen"),)
    phase, idle = changes.pop("phase", "gemm"), changes.pop("idle", None)
    device = changes.pop("device", DEVICE)
    session = Session(trial=trial, unit="TFLOP", device=device, provenance=PROVENANCE, idle=idle)
    verdict = Verdict(windows=(WINDOW,), findings=findings, **changes)
    return record_of(session, phase, verdict).measurement


def test_an_empty_folder_is_no_history():
    history = history_of([])

    assert (history.trials, history.unfinished, history.next_number) == ((), (), 0)


def test_a_trial_that_only_the_machinery_failed_is_tried_again():
    history = history_of([measurement(3, reason="actor_died")])

    [trial] = history.unfinished
    assert history.outcomes == ()
    assert trial.attempt == 1
    assert trial.name.startswith("00003-990MHz")
    assert history.next_number == 4


def test_the_attempt_that_speaks_of_the_configuration_counts_whatever_came_before_or_after():
    died, held = measurement(0, reason="actor_died"), measurement(0, attempt=1)
    lost = measurement(0, attempt=2, reason="device_lost")

    history = history_of([lost, held, died])

    [outcome] = history.outcomes
    assert history.unfinished == ()
    assert outcome.figures.energy_j == 20.0
    assert outcome.figures.time_s == 0.1


def test_an_invalid_trial_has_ended_with_its_reason():
    history = history_of(
        [measurement(0, reason="power_capped"), measurement(1, reason="throttled")]
    )

    capped, throttled = history.outcomes
    assert (capped.capped, throttled.capped) == (True, False)
    assert throttled.reason == "throttled: as seen"
    assert throttled.figures is None


def test_an_attempt_with_a_phase_missing_has_not_ended():
    llama = Configuration.of("llama")
    both = [measurement(0, configuration=llama, phase=phase) for phase in ("prefill", "decode")]

    [whole], [half] = history_of(both).outcomes, history_of(both[:1]).unfinished

    assert whole.figures.energy_j == pytest.approx(20.0)  # a token of either kind took as much
    assert half.attempt == 1


def test_a_phase_that_was_measured_twice_in_one_attempt_counts_once():
    """A trial's figures are the sum of its phases: they had been twice as high."""
    once, twice = history_of([measurement(0)]), history_of([measurement(0), measurement(0)])

    assert twice.outcomes == once.outcomes
    assert twice.energy_j == 2 * once.energy_j  # it was spent


def test_trials_come_in_the_order_of_their_numbers():
    history = history_of([measurement(n, clock_mhz=990 - 15 * n) for n in (2, 0, 1)])

    assert [t.configuration.point.sm_clock_mhz for t in history.trials] == [990, 975, 960]


def test_a_repeat_whose_forerunner_a_kill_cut_short_is_not_numbered_like_the_next():
    """Repeats were counted, so the next one once got the number of the one that was there."""
    history = history_of([measurement(7, repeat=1)])

    assert history.repeats[gemm(990)] == 2


def test_every_gpu_goes_on_counting_from_its_last_sentinel():
    """Every GPU of a search that was resumed once began with a sentinel again."""
    other, third = replace(DEVICE, uuid="GPU-b"), replace(DEVICE, uuid="GPU-c")
    history = history_of(
        [
            measurement(0, sentinel=True),
            measurement(1, sentinel=True, device=other),
            measurement(2, device=other),
            measurement(3),
            measurement(4, device=other),
            measurement(5, sentinel=True, repeat=1),
            measurement(6, device=third),
        ]
    )

    assert history.since_sentinel == {"GPU-a": 0, "GPU-b": 2}


def test_energy_spent_counts_warm_up_and_idle():
    idle = EnergyWindow(
        start_s=0.0, duration_s=2.0, energy_j=150.0, energy_u_j=1.0, source="counter", work=0.0
    )
    warmed = measurement(0, idle=idle, observed=Observed(warmup_s=5.0))

    # 2000 J in 10 s, as much again for half that time, and 150 J idle
    assert spent_j(warmed) == 2000 + 1000 + 150
    assert history_of([warmed, measurement(1)]).energy_j == 3150 + 2000
