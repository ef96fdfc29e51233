"""Recordings of power with what ran meanwhile: of an H200, and of simulated boards that serve."""

import csv
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from joulelab.core.cost import KernelCost, PhaseCost
from joulelab.core.trace import PowerTrace
from joulelab.devices.simulated import DriverStore, SimulatedDevice
from joulelab.hardware import GPUS
from joulelab.power_models.traces.load_trace import LoadTrace, Schedule, step_means

STEP_S = 0.1
TOP_MHZ, LIMIT_W = 1980.0, 700.0
GEMM_FLOP = 2.0 * 4096**3
"""Of one product of the duty cycles."""
KERNELS = {
    "idle": "idle",
    "bf16_8192": "gemm",
    "bf16_2048": "gemm",
    "bf16_1024": "gemm",
    "fp32_8192": "fp32",
    "copy": "copy",
}


def rows_of(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def steady(name: str, phase: str, power_w: np.ndarray, **inputs: float) -> LoadTrace:
    """Return a recording of one load."""
    schedule = Schedule(
        step_s=STEP_S,
        phase=np.full(len(power_w), phase),
        inputs={key: np.full(len(power_w), min(1.0, value)) for key, value in inputs.items()},
    )
    return LoadTrace(name=name, schedule=schedule, power_w=power_w)


def duty_cycles(data: Path) -> list[LoadTrace]:
    """Read the duty cycles: means over 1.5 s of GEMMs between pauses."""
    spec = GPUS["h200_sxm"]
    found = []
    for row in rows_of(data / "h200_duty_cycle.csv"):
        clock_mhz = float(row["clock_mhz"])
        rate = float(row["gemms_per_s"]) * GEMM_FLOP
        phase = "gemm of zeros" if row["zeros"] == "1" else "gemm"
        found.append(
            steady(
                f"duty {phase} {row['sleep_cycles']}",
                phase,
                np.full(15, float(row["power_samples_w"])),
                tensor_active=rate / spec.peak_flop_per_s("tensor_bf16", int(clock_mhz)),
                dram_active=0.0,
                fp32_active=0.0,
                clock_ratio=clock_mhz / TOP_MHZ,
            )
        )
    return found


def kernels(data: Path) -> dict[str, tuple[float, dict[str, float]]]:
    """Read power and activities of the kernels."""
    return {
        row["kernel"]: (
            float(row["power_w"]),
            {
                "tensor_active": float(row["any_tensor_util_pct"]) / 100,
                "dram_active": float(row["dram_bw_util_pct"]) / 100,
                "fp32_active": float(row["fp32_util_pct"]) / 100,
                "clock_ratio": float(row["sm_clock_mhz"]) / TOP_MHZ,
            },
        )
        for row in rows_of(data / "h200_kernels.csv")
    }


def step_response(data: Path, load: dict[str, float], idle: dict[str, float]) -> LoadTrace:
    """Read half a second on, half a second off, from the ticks of the energy counter."""
    rows = rows_of(data / "h200_step_response.csv")
    at_s = np.array([float(row["time_s"]) for row in rows])
    energy_j = np.array([float(row["energy_counter_mj"]) for row in rows]) / 1e3
    clock = np.array([float(row["sm_clock_mhz"]) for row in rows]) / TOP_MHZ
    ticks = np.flatnonzero(np.diff(energy_j) > 0) + 1
    edges_s = np.arange(0.1, 4.4, STEP_S)
    power_w = np.diff(np.interp(edges_s, at_s[ticks], energy_j[ticks])) / STEP_S
    middle_s = edges_s[:-1] + STEP_S / 2
    ons = np.array([0.500, 1.505, 2.513, 3.513])
    offs = np.array([1.005, 2.012, 3.013, 4.014])
    busy = ((middle_s[:, None] > ons) & (middle_s[:, None] < offs)).any(axis=1)
    inputs = {name: np.where(busy, load[name], idle[name]) for name in load}
    inputs["clock_ratio"] = np.minimum(1.0, np.interp(middle_s, at_s, clock))
    schedule = Schedule(step_s=STEP_S, phase=np.where(busy, "gemm", "idle"), inputs=inputs)
    return LoadTrace(name="steps", schedule=schedule, power_w=power_w)


def steady_load(data: Path, size: int, inputs: dict[str, float]) -> LoadTrace:
    """Read 15 s of a steady GEMM from the driver's 20-ms samples."""
    rows = rows_of(data / f"h200_steady_bf16_{size}_samples.csv")
    at_s, power_w = np.array(
        [(float(row["time_s"]), float(row["power_sample_mw"]) / 1e3) for row in rows]
    ).T
    first = np.append(True, np.diff(at_s) > 0)
    power_w = step_means(PowerTrace(at_s[first], power_w[first]), 0.5, 150, STEP_S)
    return steady(f"steady gemm {size}", "gemm", power_w, **inputs)


def measured_traces(data: Path) -> list[LoadTrace]:
    """Read all recordings of an H200."""
    known = kernels(data)
    found = [
        steady(f"kernel {name}", KERNELS[name], np.full(15, power_w), **inputs)
        for name, (power_w, inputs) in known.items()
    ]
    found += duty_cycles(data)
    found += [steady_load(data, size, known[f"bf16_{size}"][1]) for size in (1024, 8192)]
    return [*found, step_response(data, known["bf16_8192"][1], known["idle"][1])]


def by_experiment(traces: list[LoadTrace]) -> list[LoadTrace]:
    """Name recordings by the experiment, all of which is then held out: no neighbours are left."""
    return [replace(trace, name=trace.name.rsplit(" ", 1)[0]) for trace in traces]


def phase_of(name: str, *, flop: float, num_b: float, wait_s: float = 0.0) -> PhaseCost:
    """Return one execution of a phase: matrix products and a stream, then a pause."""
    gemm = KernelCost(name="gemm", pipe="tensor_bf16", flop=flop, dram_b=num_b)
    return PhaseCost(phase=name, work=1.0, kernels=(gemm,), wait_s=wait_s)


def drawn_phase(random: np.random.Generator) -> tuple[str, PhaseCost | None, float]:
    """Draw what a server does next, and for how long."""
    name = str(random.choice(["prefill", "decode", "idle"], p=[0.35, 0.45, 0.2]))
    if name == "idle":
        return name, None, random.uniform(0.3, 2.0)
    if name == "prefill":
        wait_s = 0.02 * random.uniform(0.0, 0.8)
        phase = phase_of(name, flop=1.2e13 * random.uniform(0.3, 1.0), num_b=1.5e10, wait_s=wait_s)
        return name, phase, random.uniform(0.2, 1.5)
    batch = random.uniform(1.0, 64.0)
    phase = phase_of(name, flop=batch * 1.4e10, num_b=1.4e10 + batch * 2e8, wait_s=0.001)
    return name, phase, random.uniform(0.5, 4.0)


def simulated_traces(num: int, *, key: str = "h200_sxm", duration_s: float = 20.0) -> list:
    """Record simulated boards that serve, each another one."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(num):
            device = SimulatedDevice(DriverStore(Path(folder)).create(key, number))
            found.append(simulated_trace(device, f"serving {number:02d}", number, duration_s))
    return found


def simulated_trace(device: SimulatedDevice, name: str, seed: int, duration_s: float) -> LoadTrace:
    """Record power samples, activities and clock of one board."""
    random = np.random.default_rng(seed)
    top_mhz = max(device.capabilities().sm_clocks_mhz)
    device.clock.sleep_s(1.0)
    probe = device.activity()
    start_s = device.clock.now_s()
    phases, steps, samples = [], [], {}
    left_s = 0.0
    while device.clock.now_s() - start_s < duration_s:
        if left_s <= 0:
            what, phase, left_s = drawn_phase(random)
            device.stop() if phase is None else device.play(phase)
        device.clock.sleep_s(STEP_S)
        left_s -= STEP_S
        seen, state = probe.read(), device.read_state()
        phases.append(what)
        clock = state.sm_clock_mhz / top_mhz
        steps.append((seen.sm_active, seen.tensor_active, seen.dram_active, clock))
        new = device.read_power_samples()
        samples.update(zip(new.t_s.tolist(), new.power_w.tolist(), strict=True))
    device.clock.sleep_s(2 * STEP_S)
    new = device.read_power_samples()
    samples.update(zip(new.t_s.tolist(), new.power_w.tolist(), strict=True))
    # A sample stands for the 20 ms before it.
    at_s = np.array(sorted(samples))
    trace = PowerTrace(at_s - 0.01, np.array([samples[each] for each in at_s]))
    names = ("sm_active", "tensor_active", "dram_active", "clock_ratio")
    columns = np.clip(np.array(steps, dtype=float), 0.0, 1.0).T
    schedule = Schedule(
        step_s=STEP_S, phase=np.array(phases), inputs=dict(zip(names, columns, strict=True))
    )
    power_w = step_means(trace, start_s, len(phases), STEP_S)
    return LoadTrace(name=name, schedule=schedule, power_w=power_w)
