"""What must be right before a number is believed, checked on one device."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from joulelab.analysis.quantities import PLUS_MINUS
from joulelab.cli.devices import clocks_in_words, duration_in_words, tick_in_words
from joulelab.core.check import Check, CheckOutcome, run_checks
from joulelab.core.device import Capabilities, DeviceAddress, EventReason
from joulelab.core.point import OperatingPoint
from joulelab.core.settings import wrong_settings
from joulelab.devices.base import Device
from joulelab.devices.nvml_library import HOW_TO_GET_PERMISSION
from joulelab.guard import default_socket_path
from joulelab.guard.control import owed_on
from joulelab.guard.inquiry import HOW_TO_OUTLIVE, outlives_job, pid_of_guard
from joulelab.sampling import calibration

SLOWEST_TICK_S = 0.2
SLOWEST_READ_S = 0.05
LARGEST_EFFECT_W = 1.0
LONGEST_SILENCE_S = 5.0
LARGEST_SAMPLER_SHARE = 0.02
_HEAT = EventReason.SW_THERMAL | EventReason.HW_THERMAL | EventReason.HW_SLOWDOWN


def check_device(device: Device, address: DeviceAddress) -> Iterator[Check]:
    """Run every check on an idle device."""
    yield from run_checks(
        {
            "foreign processes": partial(_check_processes, device),
            "MIG": partial(_check_mig, device),
            "ECC": partial(_check_ecc, device),
            "persistence mode": partial(_check_persistence, device),
            "clock guard": partial(_check_guard, address),
            "settings": partial(_check_settings, device),
            "SLURM": _check_slurm,
            "heat": partial(_check_heat, device),
            "energy counter": partial(_check_counter, device),
            "power samples": partial(_check_samples, device),
            "call latency": partial(_check_latency, device),
            "observer effect": partial(_check_observer, device),
            "permissions": partial(_check_permission, device),
        }
    )


def _check_processes(device: Device) -> CheckOutcome:
    pids = [str(process.pid) for process in device.read_processes()]
    if not pids:
        return "ok", "nobody else computes on it", ""
    advice = "Wait for them or choose another GPU: their energy would be counted as yours."
    return "fail", f"processes {', '.join(pids)} compute on it", advice


def _check_mig(device: Device) -> CheckOutcome:
    mode = device.identity().mig_enabled
    if mode:
        return (
            "fail",
            "on",
            "Energy and power are known of the whole GPU only: choose one without MIG.",
        )
    return "ok", "none" if mode is None else "off", ""


def _check_ecc(device: Device) -> CheckOutcome:
    found = {True: "on", False: "off", None: "this board has none"}[device.identity().ecc_enabled]
    return "ok", f"{found}; recorded with every result", ""


def _check_persistence(device: Device) -> CheckOutcome:
    mode = device.identity().persistence_mode
    if mode is False:
        found = "off: without clients the driver unloads and forgets limits and counters"
        return "warn", found, "`nvidia-smi -pm 1` as root keeps it loaded."
    return "ok", "on" if mode else "none", ""


def _check_guard(address: DeviceAddress) -> CheckOutcome:
    entry = owed_on(address)
    if entry is None:
        status, found, advice = who_guards(default_socket_path(address))
        return status, f"owes nothing; {found}", advice
    point = "" if entry.requested is None else f" at {entry.requested.label}"
    found = (
        f"its journal says that pid {entry.pid} set it{point} at {entry.time}, and not that it was "
        "restored"
    )
    return "fail", found, "Wait until that study ends; if it has, `joulelab guard --restore`."


def who_guards(socket_path: Path) -> CheckOutcome:
    """Say which clock guard answers, or that one starts when it is needed, and if a job ends it.

    Raises GuardError if one listens and does not answer, or none does and only root may start it.
    """
    pid = pid_of_guard(socket_path, LONGEST_SILENCE_S)
    found = f"guard {pid} answers at {socket_path}"
    if pid is None:
        found = (
            f"none listens at {socket_path}; one starts when it is needed, with the rights of "
            "whoever needs it"
        )
    outlives = outlives_job(pid, socket_path)
    if outlives is None:
        return "ok", found, ""
    if outlives:
        return "ok", f"{found}; it outlives this SLURM job", ""
    return "warn", f"{found}; it ends with this SLURM job", HOW_TO_OUTLIVE


def _check_settings(device: Device) -> CheckOutcome:
    state, capabilities = device.read_state(), device.capabilities()
    wrong = wrong_settings(state, OperatingPoint(), capabilities)
    if wrong:
        advice = (
            "Somebody left it so: have it reset. A power limit that is the site's policy is named "
            "in every study: --procedure.power-limit-w."
        )
        return "fail", "; ".join(wrong), advice
    if state.held is not None:
        return "ok", "the driver's defaults", ""
    locks = "a lock would show under load"
    if capabilities.unlocked_sm_clock_mhz is None:
        locks = "whether clocks are locked, this driver and board do not tell"
    return "ok", f"default power limit; {locks}", ""


def _check_slurm() -> CheckOutcome:
    asked = os.environ.get("SLURM_GPU_FREQ")
    if not asked:
        return "ok", "sets no clocks of this job", ""
    advice = (
        "SLURM sets these at every step, and the highest at the job's end, whoever has locked "
        "others: submit the job without, and name clocks to the study."
    )
    return "fail", f"sets clocks of this job: --gpu-freq={asked}", advice


def _check_heat(device: Device) -> CheckOutcome:
    state = device.read_state()
    if state.event_reasons & _HEAT:
        held = ", ".join(str(flag.name) for flag in state.event_reasons & _HEAT)
        advice = "Let it cool, and look at its fans and inlet."
        return "fail", f"throttled at rest by {held}", advice
    warmth = "" if state.temperature_c is None else f"{state.temperature_c:g} C, "
    return "ok", f"{warmth}not throttled by heat", ""


def _check_counter(device: Device) -> CheckOutcome:
    if not device.capabilities().has_energy_counter:
        return "warn", "none", "Energy comes from sampled power: use windows of 10 s and more."
    tick = calibration.measure_tick(device)
    if tick.period_s is None or tick.period_s <= SLOWEST_TICK_S:
        return "ok", tick_in_words(tick), ""
    return "warn", tick_in_words(tick), f"Use windows of {50 * tick.period_s:.0f} s and more."


def _check_samples(device: Device) -> CheckOutcome:
    if not device.capabilities().has_power_samples:
        advice = "Power is polled; the counter has nothing finer to be checked against."
        return "warn", "no buffer", advice
    buffer = calibration.measure_sample_buffer(device)
    period = duration_in_words(buffer.period_s)
    return "ok", f"{buffer.num_samples}, one every {period}, {buffer.span_s:.1f} s in all", ""


def _check_latency(device: Device) -> CheckOutcome:
    latencies = calibration.measure_latencies(device)
    slowest_s = max(latency.p95_s for latency in latencies)
    each = ", ".join(
        f"{one.call.removeprefix('read_')} {duration_in_words(one.median_s)}" for one in latencies
    )
    found = f"{each}; at most {duration_in_words(slowest_s)} (p95)"
    if slowest_s > SLOWEST_READ_S:
        return "warn", found, "Reads this slow blur the edges of windows: use longer ones."
    return "ok", found, ""


def _check_observer(device: Device) -> CheckOutcome:
    if not device.capabilities().has_energy_counter:
        return "warn", "unknown: it takes an energy counter", ""
    effect = calibration.measure_observer_effect(device)
    found = (
        f"{effect.difference_w:+.2f} {PLUS_MINUS} {effect.difference_u_w:.2f} W on "
        f"{effect.quiet_power_w:.1f} W at rest; {100 * effect.sampler_share:.2f} % of a core"
    )
    disturbs = effect.difference_w > max(3 * effect.difference_u_w, LARGEST_EFFECT_W)
    if disturbs or effect.sampler_share > LARGEST_SAMPLER_SHARE:
        return "warn", found, "Sample less often (--procedure.sample-period-s)."
    return "ok", found, ""


def _check_permission(device: Device) -> CheckOutcome:
    capabilities = device.capabilities()
    found = _matrix(capabilities)
    if capabilities.can_set_clocks:
        return "ok", found, ""
    return "warn", found, HOW_TO_GET_PERMISSION


def _matrix(capabilities: Capabilities) -> str:
    answers = {True: "yes", False: "no", None: "only a try would tell"}
    reads = {
        "energy": capabilities.has_energy_counter,
        "samples": capabilities.has_power_samples,
        "memory power": capabilities.has_memory_power,
        "activity": capabilities.has_activity,
    }
    read = ", ".join(f"{name} {answers[able]}" for name, able in reads.items())
    if capabilities.activity_source is not None:
        read = f"{read} through {capabilities.activity_source}"
    may = answers[capabilities.can_set_clocks]
    knobs = {
        "SM clock": capabilities.sm_clocks_mhz,
        "memory clock": capabilities.mem_clocks_mhz,
        "power limit": capabilities.power_limits_w,
    }
    sets = ", ".join(f"{name} {may if knob else 'no such knob'}" for name, knob in knobs.items())
    return f"read: {read}; set: {sets} ({clocks_in_words(capabilities.sm_clocks_mhz)})"
