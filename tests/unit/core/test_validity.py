from dataclasses import replace

import numpy as np
import pytest

from joulelab.core.device import DeviceState, EventReason, Look
from joulelab.core.energy import EnergyWindow
from joulelab.core.measurement import Observed
from joulelab.core.point import OperatingPoint
from joulelab.core.record import Verdict
from joulelab.core.trace import PowerTrace
from joulelab.core.validity import (
    agreement_findings,
    conduct_findings,
    conduct_of,
    process_findings,
    trace_findings,
    trend_findings,
)

LOCKED = OperatingPoint(sm_clock_mhz=1410)


def looks_of(**columns):
    """One look every 0.1 s from -1 to 7 s; a column is a constant or a function of time."""
    plain = {"sm_clock_mhz": 1410, "mem_clock_mhz": 3201, "temperature_c": 60.0}
    columns = {**plain, **columns}
    return [
        Look(
            at_s=t_s,
            state=DeviceState(
                **{name: v(t_s) if callable(v) else v for name, v in columns.items()}
            ),
        )
        for t_s in np.round(np.arange(-1, 7, 0.1), 6).tolist()
    ]


def reasons_of(point=LOCKED, **columns):
    conduct = conduct_of(looks_of(**columns), point, 0.0, 6.0)
    return [finding.reason for finding in conduct_findings(conduct, point)]


def window_of(energy_j, u_j=0.1, source="counter", work=1.0):
    return EnergyWindow(
        start_s=0.0, duration_s=1.0, energy_j=energy_j, energy_u_j=u_j, source=source, work=work
    )


@pytest.mark.parametrize(
    ("used_b", "most_b"),
    [
        (lambda t_s: int(1e9 if t_s < 3 else 2e9), 2_000_000_000),
        (lambda t_s: 3_000_000_000 if t_s in (-0.5, 6.5) else None, 3_000_000_000),
        (lambda t_s: int(9e9 if t_s < -0.5 or t_s > 6.5 else 1e9), 1_000_000_000),
        (None, None),
    ],
    ids=["most of the looks", "looks next to the windows", "not of others", "unread"],
)
def test_memory_is_the_most_that_was_in_use(used_b, most_b):
    conduct = conduct_of(looks_of(memory_used_b=used_b), LOCKED, 0.0, 6.0)

    assert conduct.observed.memory_used_b == most_b


def test_a_clock_that_held_is_valid():
    assert reasons_of() == []


@pytest.mark.parametrize(("clock_mhz", "found"), [(1425, []), (1440, ["clock_not_held"])])
def test_the_clock_may_be_off_by_one_step(clock_mhz, found):
    assert reasons_of(sm_clock_mhz=clock_mhz) == found


@pytest.mark.parametrize(("low_s", "found"), [(0.2, []), (0.5, ["clock_not_held"])])
def test_the_clock_must_hold_in_95_percent_of_the_looks(low_s, found):
    assert reasons_of(sm_clock_mhz=lambda t_s: 1200 if 2 < t_s <= 2 + low_s else 1410) == found


def test_a_clock_that_held_in_just_95_percent_of_the_looks_is_valid():
    conduct = conduct_of(looks_of(), LOCKED, 0.0, 6.0)
    at_limit = replace(conduct, observed=replace(conduct.observed, clock_residency=0.95))

    assert not conduct_findings(at_limit, LOCKED)


def test_a_memory_clock_that_did_not_hold_is_found():
    point = OperatingPoint(mem_clock_mhz=2201)

    assert reasons_of(point) == ["clock_not_held"]


def test_a_clock_that_the_power_cap_holds_down_is_capped_not_lost():
    found = reasons_of(sm_clock_mhz=1200, power_cap_s=lambda t_s: 0.5 * t_s + 1)

    assert found == ["power_capped"]


def test_throttling_does_not_explain_a_clock_that_is_too_high():
    found = reasons_of(sm_clock_mhz=1700, power_cap_s=lambda t_s: t_s + 1)

    assert found == ["power_capped", "clock_not_held"]


def test_event_reasons_stand_in_for_a_missing_throttle_counter():
    found = reasons_of(event_reasons=EventReason.SW_POWER_CAP)

    assert found == ["power_capped"]


@pytest.mark.parametrize(
    ("reasons", "found"),
    [
        (EventReason.SW_POWER_CAP, "power_capped"),
        (EventReason.HW_POWER_BRAKE, "power_capped"),
        (EventReason.SW_THERMAL, "throttled"),
        (EventReason.HW_THERMAL, "throttled"),
    ],
)
def test_software_and_hardware_hold_clocks_down_alike(reasons, found):
    assert reasons_of(event_reasons=reasons) == [found]


@pytest.mark.parametrize(("share", "found"), [(0.009, []), (0.02, ["power_capped"])])
def test_one_percent_of_throttle_time_is_allowed(share, found):
    assert reasons_of(power_cap_s=lambda t_s: share * (t_s + 1)) == found


def test_the_power_cap_may_bind_at_the_drivers_own_clocks():
    assert reasons_of(OperatingPoint(), power_cap_s=lambda t_s: t_s + 1) == []


def test_the_power_cap_may_bind_where_it_was_asked_for():
    point = OperatingPoint(sm_clock_mhz=1410, power_limit_w=300.0)

    assert reasons_of(point, power_cap_s=lambda t_s: t_s + 1, sm_clock_mhz=1200) == []


@pytest.mark.parametrize("point", [OperatingPoint(), LOCKED])
def test_heat_may_never_hold_the_clocks_down(point):
    assert reasons_of(point, thermal_s=lambda t_s: 0.1 * (t_s + 1)) == ["throttled"]


@pytest.mark.parametrize(
    ("rise_c", "found"),
    [(4.9, []), (5.5, ["thermal_drift"]), (-4.9, []), (-5.5, ["thermal_drift"])],
)
def test_temperature_may_move_five_degrees(rise_c, found):
    assert reasons_of(temperature_c=lambda t_s: 60 + rise_c * max(0, t_s) / 6) == found


@pytest.mark.parametrize(("from_s", "to_s"), [(2.0, 4.0), (-2.0, 2.0), (4.0, 8.0)])
def test_a_gap_between_looks_is_found(from_s, to_s):
    looks = [look for look in looks_of() if not from_s < look.at_s < to_s]
    conduct = conduct_of(looks, LOCKED, 0.0, 6.0)

    (finding,) = conduct_findings(conduct, LOCKED)

    assert finding.reason == "sample_gap"


def test_no_look_in_the_windows_is_no_conduct_at_all():
    assert conduct_of(looks_of(), LOCKED, 6.91, 6.99) is None


def test_samples_that_stop_before_the_end_are_a_gap():
    t_s = np.arange(-1, 4, 0.02)

    (finding,) = trace_findings(PowerTrace(t_s=t_s, power_w=300 + 0 * t_s), 0.0, 6.0)

    assert finding.reason == "sample_gap"
    assert "they begin at -1.00 and end at 3.98 s" in finding.detail


def test_samples_that_begin_after_the_windows_are_said_to():
    """A program that ended before the sampler had begun was told that samples end after it did."""
    t_s = np.arange(4.0, 8.0, 0.02)

    (finding,) = trace_findings(PowerTrace(t_s=t_s, power_w=300 + 0 * t_s), 0.0, 2.0)

    assert "must span 0.00 to 2.00 s, but they begin at 4.00" in finding.detail


@pytest.mark.parametrize("hole_s", [2.0, -0.25, 5.75], ids=["within", "at start", "at stop"])
def test_a_hole_in_the_samples_is_a_gap(hole_s):
    t_s = np.concatenate((np.arange(-1, hole_s, 0.02), np.arange(hole_s + 0.5, 7, 0.02)))

    (finding,) = trace_findings(PowerTrace(t_s=t_s, power_w=300 + 0 * t_s), 0.0, 6.0)

    assert finding.reason == "sample_gap"


def test_sources_may_differ_by_two_percent():
    assert agreement_findings([(window_of(300), window_of(305.5, source="samples"))]) == ()


def test_sources_that_differ_by_more_disagree():
    pairs = [(window_of(300), window_of(to_j, source="samples")) for to_j in (300, 310, 320, 311)]

    (finding,) = agreement_findings(pairs)

    assert finding.reason == "sources_disagree"
    assert "320.0" in finding.detail


@pytest.mark.parametrize(("energy_j", "agree"), [(315.9, True), (316.1, False)])
def test_few_samples_are_not_held_against_the_counter(energy_j, agree):
    """Two percent are 6 J, and two standard uncertainties 10 J."""
    unsure = window_of(energy_j, u_j=4.0, source="samples")

    assert (agreement_findings([(window_of(300, u_j=3.0), unsure)]) == ()) is agree


def test_a_process_that_is_not_ours_is_named():
    (finding,) = process_findings(frozenset({7, 4711}), frozenset({7}))

    assert finding.reason == "foreign_process"
    assert "4711" in finding.detail


def test_windows_that_trend_are_not_steady():
    (finding,) = trend_findings([window_of(300), window_of(310), window_of(320)])

    assert finding.reason == "not_steady"


def test_what_was_in_use_before_a_program_is_none_of_its_memory():
    used = Verdict(observed=Observed(memory_used_b=5_000))

    assert used.without_memory(2_000).observed.memory_used_b == 3_000
    assert Verdict().without_memory(2_000) == Verdict()


def test_a_cap_that_was_asked_for_is_named_only_if_it_acts():
    """A clock below the one asked for needs a reason; a limit that never acts is none."""
    capped = OperatingPoint(sm_clock_mhz=1410, power_limit_w=300.0)

    assert reasons_of(capped, sm_clock_mhz=1200) == ["clock_not_held"]
