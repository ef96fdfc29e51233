"""A simulated device's readings as files, for programs that read it as they would a driver."""

import time

from joulelab.core.clock import Ticker
from joulelab.devices.base import ActivityProbe, Device
from joulelab.devices.simulated.device import SimulatedDevice, _Probe
from joulelab.devices.simulated.engine import UNITS
from joulelab.devices.simulated.store import DriverState
from joulelab.errors import DeviceLostError, DeviceUnsupportedError, MeasurementError


def publish(device: SimulatedDevice, period_s: float = 0.02) -> Ticker:
    """Write the readings into the driver's store every ``period_s``, until stopped.

    A lost device publishes nothing more, as a lost GPU answers nothing.
    """
    probe = _Probe(device.machine)
    return device.clock.every(period_s, lambda: _write(device, device._driver, probe))


def _write(device: Device, driver: DriverState, probe: ActivityProbe) -> None:
    """Write the readings, samples and processes of ``device`` into ``driver``."""
    try:
        readings = _readings(device, probe)
        samples = device.read_power_samples()
        processes = device.read_processes()
    except DeviceLostError:
        return
    to_real_us = (time.time() - device.clock.now_s()) * 1e6
    pairs = zip(samples.t_s.tolist(), samples.power_w.tolist(), strict=True)
    driver.write("readings", "\n".join(f"{key} {value}" for key, value in readings.items()))
    driver.write("samples", "\n".join(_sample(t, p, to_real_us) for t, p in pairs))
    driver.write("processes", "\n".join(f"{p.pid} {p.memory_b}" for p in processes))


def _readings(device: Device, probe: ActivityProbe) -> dict[str, str | int]:
    state = device.read_state()
    power_mw = round(device.read_power_w() * 1000)
    readings: dict[str, str | int] = {
        "time_s": f"{device.clock.now_s():.6f}",
        "power_mw": power_mw,
        "average_power_mw": power_mw,
        "energy_mj": round(device.read_energy_j() * 1000),
        "sm_clock_mhz": state.sm_clock_mhz,
        "event_reasons": state.event_reasons.value,
        "power_cap_ns": round((state.power_cap_s or 0.0) * 1e9),
        "thermal_ns": round((state.thermal_s or 0.0) * 1e9),
    }
    for key in ("mem_clock_mhz", "temperature_c", "memory_temperature_c", "memory_used_b"):
        if (value := getattr(state, key)) is not None:
            readings[key] = int(value)
    try:
        readings["average_power_mw"] = round(device.read_average_power_w() * 1000)
        readings["memory_power_mw"] = round(device.read_memory_power_w() * 1000)
    except DeviceUnsupportedError:
        pass  # boards without them answer "not supported", by the absence of the key
    return readings | _activity(probe)


def _activity(probe: ActivityProbe) -> dict[str, str | int]:
    try:
        activity = probe.read()
    except MeasurementError:
        return {}  # no time has passed since the last look
    return {unit: f"{getattr(activity, unit) or 0.0:.4f}" for unit in UNITS}


def _sample(t_s: float, power_w: float, to_real_us: float) -> str:
    return f"{round(t_s * 1e6 + to_real_us)} {round(power_w * 1000)}"
