"""What must be right before a number is believed, checked on one device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from joulelab.analysis.quantities import PLUS_MINUS
from joulelab.cli.devices import clocks_in_words, duration_in_words, tick_in_words
from joulelab.core.device import Capabilities, DeviceAddress, EventReason
from joulelab.core.point import OperatingPoint
from joulelab.core.settings import wrong_settings
from joulelab.devices.base import Device
from joulelab.devices.nvml_errors import HOW_TO_GET_PERMISSION
from joulelab.errors import JouleLabError
from joulelab.guard import GuardClient, default_socket_path
from joulelab.guard.observer import owed_on
from joulelab.sampling.calibration import (
    measure_latencies,
    measure_observer_effect,
    measure_sample_buffer,
    measure_tick,
)

Status = Literal["ok", "warn", "fail"]

SLOWEST_TICK_S = 0.2
SLOWEST_READ_S = 0.05
LARGEST_EFFECT_W = 1.0
LARGEST_SAMPLER_SHARE = 0.02
_HEAT = EventReason.SW_THERMAL | EventReason.HW_THERMAL | EventReason.HW_SLOWDOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the preflight.

    Attributes:
        what: What was looked at.
        status: ``"fail"`` means that results would be wrong, ``"warn"`` that they could be better.
        found: What was found.
        advice: What to do about it; empty where nothing need be done.
    """

    what: str
    status: Status
    found: str
    advice: str = ""


def check_device(device: Device, address: DeviceAddress) -> Iterator[Check]:
    """Run every check on an idle device; one that cannot be made fails and the rest go on."""
    for what, check in _CHECKS.items():
        try:
            yield check(what, device, address)
        except JouleLabError as error:
            yield Check(what=what, status="fail", found=str(error), advice="Mend this first.")


def _check_processes(what: str, device: Device, address: DeviceAddress) -> Check:
    pids = [str(process.pid) for process in device.read_processes()]
    if not pids:
        return Check(what=what, status="ok", found="nobody else computes on it")
    return Check(
        what=what,
        status="fail",
        found=f"processes {', '.join(pids)} compute on it",
        advice="Wait for them or choose another GPU: their energy would be counted as yours.",
    )


def _check_mig(what: str, device: Device, address: DeviceAddress) -> Check:
    mode = device.identity().mig_enabled
    if mode:
        advice = "Energy and power are told of the whole GPU only: choose one without MIG."
        return Check(what=what, status="fail", found="on", advice=advice)
    return Check(what=what, status="ok", found="none" if mode is None else "off")


def _check_ecc(what: str, device: Device, address: DeviceAddress) -> Check:
    found = {True: "on", False: "off", None: "this board has none"}[device.identity().ecc_enabled]
    return Check(what=what, status="ok", found=f"{found}; recorded with every result")


def _check_persistence(what: str, device: Device, address: DeviceAddress) -> Check:
    mode = device.identity().persistence_mode
    if mode is False:
        return Check(
            what=what,
            status="warn",
            found="off: without clients the driver unloads and forgets limits and counters",
            advice="`nvidia-smi -pm 1` as root keeps it loaded.",
        )
    return Check(what=what, status="ok", found="on" if mode else "none")


def _check_guard(what: str, device: Device, address: DeviceAddress) -> Check:
    entry = owed_on(address)
    if entry is not None:
        point = "" if entry.requested is None else f" at {entry.requested.label}"
        return Check(
            what=what,
            status="fail",
            found=f"its journal says that pid {entry.pid} set it{point} at {entry.time}, and not "
            "that it was restored",
            advice="Wait until that study ends; if it has, `joulelab guard --restore`.",
        )
    socket_path = default_socket_path(address)
    if not socket_path.exists():
        return Check(what=what, status="ok", found="owes nothing; one starts when it is needed")
    status = GuardClient(socket_path, start=False).status()
    return Check(what=what, status="ok", found=f"guard {status.pid} answers and owes nothing")


def _check_settings(what: str, device: Device, address: DeviceAddress) -> Check:
    state, capabilities = device.read_state(), device.capabilities()
    wrong = wrong_settings(state, OperatingPoint(), capabilities)
    if wrong:
        return Check(
            what=what,
            status="fail",
            found="; ".join(wrong),
            advice="Somebody left it so: have it reset. A power limit that is the site's policy is "
            "named in every study: --procedure.power-limit-w.",
        )
    if state.held is not None:
        return Check(what=what, status="ok", found="the driver's defaults")
    told = "a lock would show under load"
    if capabilities.unlocked_sm_clock_mhz is None:
        told = "whether clocks are locked, this driver and board do not tell"
    return Check(what=what, status="ok", found=f"default power limit; {told}")


def _check_heat(what: str, device: Device, address: DeviceAddress) -> Check:
    state = device.read_state()
    if state.event_reasons & _HEAT:
        held = ", ".join(str(flag.name) for flag in state.event_reasons & _HEAT)
        advice = "Let it cool, and look at its fans and inlet."
        return Check(what=what, status="fail", found=f"held down at rest by {held}", advice=advice)
    warmth = "" if state.temperature_c is None else f"{state.temperature_c:g} C, "
    return Check(what=what, status="ok", found=f"{warmth}not held down by heat")


def _check_counter(what: str, device: Device, address: DeviceAddress) -> Check:
    if not device.capabilities().has_energy_counter:
        advice = "Energy comes from sampled power: use windows of 10 s and more."
        return Check(what=what, status="warn", found="none", advice=advice)
    tick = measure_tick(device)
    slow = tick.period_s is not None and tick.period_s > SLOWEST_TICK_S
    return Check(
        what=what,
        status="warn" if slow else "ok",
        found=tick_in_words(tick),
        advice=f"Use windows of {50 * (tick.period_s or 0):.0f} s and more." if slow else "",
    )


def _check_samples(what: str, device: Device, address: DeviceAddress) -> Check:
    if not device.capabilities().has_power_samples:
        advice = "Power is polled; the counter has nothing finer to be checked against."
        return Check(what=what, status="warn", found="no buffer", advice=advice)
    buffer = measure_sample_buffer(device)
    period = duration_in_words(buffer.period_s)
    found = f"{buffer.num_samples}, one every {period}, {buffer.span_s:.1f} s in all"
    return Check(what=what, status="ok", found=found)


def _check_latency(what: str, device: Device, address: DeviceAddress) -> Check:
    latencies = measure_latencies(device)
    slowest = max(latencies, key=lambda latency: latency.p95_s)
    slow = slowest.p95_s > SLOWEST_READ_S
    told = [
        f"{each.call.removeprefix('read_')} {duration_in_words(each.median_s)}"
        for each in latencies
    ]
    return Check(
        what=what,
        status="warn" if slow else "ok",
        found=f"{', '.join(told)}; at most {duration_in_words(slowest.p95_s)} (p95)",
        advice="Reads this slow blur the edges of windows: use longer ones." if slow else "",
    )


def _check_observer(what: str, device: Device, address: DeviceAddress) -> Check:
    if not device.capabilities().has_energy_counter:
        return Check(what=what, status="warn", found="unknown: it takes an energy counter")
    effect = measure_observer_effect(device)
    found = (
        f"{effect.difference_w:+.2f} {PLUS_MINUS} {effect.difference_u_w:.2f} W on "
        f"{effect.quiet_power_w:.1f} W at rest; {100 * effect.sampler_share:.2f} % of a core"
    )
    disturbs = effect.difference_w > max(3 * effect.difference_u_w, LARGEST_EFFECT_W)
    costs = effect.sampler_share > LARGEST_SAMPLER_SHARE
    return Check(
        what=what,
        status="warn" if disturbs or costs else "ok",
        found=found,
        advice="Sample less often (--procedure.sample-period-s)." if disturbs or costs else "",
    )


def _check_permission(what: str, device: Device, address: DeviceAddress) -> Check:
    capabilities = device.capabilities()
    found = _matrix(capabilities)
    if capabilities.can_set_clocks:
        return Check(what=what, status="ok", found=found)
    return Check(what=what, status="warn", found=found, advice=HOW_TO_GET_PERMISSION)


def _matrix(capabilities: Capabilities) -> str:
    said = {True: "yes", False: "no", None: "only a try would tell"}
    reads = {
        "energy": capabilities.has_energy_counter,
        "samples": capabilities.has_power_samples,
        "memory power": capabilities.has_memory_power,
        "activity": capabilities.has_activity,
    }
    read = ", ".join(f"{name} {said[able]}" for name, able in reads.items())
    may = said[capabilities.can_set_clocks]
    knobs = {
        "SM clock": capabilities.sm_clocks_mhz,
        "memory clock": capabilities.mem_clocks_mhz,
        "power limit": capabilities.power_limits_w,
    }
    sets = ", ".join(f"{name} {may if knob else 'no such knob'}" for name, knob in knobs.items())
    return f"read: {read}; set: {sets} ({clocks_in_words(capabilities.sm_clocks_mhz)})"


_CHECKS: dict[str, Callable[[str, Device, DeviceAddress], Check]] = {
    "foreign processes": _check_processes,
    "MIG": _check_mig,
    "ECC": _check_ecc,
    "persistence mode": _check_persistence,
    "clock guard": _check_guard,
    "settings": _check_settings,
    "heat": _check_heat,
    "energy counter": _check_counter,
    "power samples": _check_samples,
    "call latency": _check_latency,
    "observer effect": _check_observer,
    "permissions": _check_permission,
}
