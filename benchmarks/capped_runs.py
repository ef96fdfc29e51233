"""How far models are off under power limits, from one run at the board's own.

Usage: python benchmarks/capped_runs.py [--data FOLDER]

Throughput under a limit over that at the board's own, from a run there, is asked of models of all
tables of ../shared/data that tell clocks: of public runs of training on a V100 and a Quadro RTX
6000, and of simulated runs on eight H200 at 350 to 500 W, which want 600 to 1100 W at 700. Beside
them stands a constant, the median of all ratios. Simulated boards depart from the catalogue by some
12 %. Then come clocks of runs that a limit held: as usual on an H100 and an H200, where they were
read, and of simulated boards, with the errors of what was predicted from them.
"""

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from model_transfer import joined
from power_models import DATA_SETS
from recommended_model import by_member

from joulelab.core.power_law import CAP_SHARE, board_w, height, relative_time, roofline, voltage
from joulelab.csv_table import read_csv_table
from joulelab.hardware import GPUS
from joulelab.power_models.calibration import SECOND_POINT
from joulelab.power_models.decision import measured_sweep, regret
from joulelab.power_models.members.stacked import StackedModel
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import Profile, queries_of, sweep
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.runs import NEAR_CAP, Array, Runs, usual_held_mhz
from joulelab.power_models.validation import WARM

_ROOT = Path(__file__).parents[1]
_DATA = _ROOT.parent / "shared" / "data"
_PUBLIC = {"V100": "v100_pcie", "RTX6000": "quadro_rtx_6000"}
_WITHIN = 0.08
_CLOCKS_READ = {"h100_sxm": "h100_*", "h200_sxm": "h200_*"}
_NAMES = ("network", "name", "case", "workload")
_SIMULATED = (
    *("a100_pcie", "v100_pcie", "v100_sxm2", "h200_sxm", "h100_sxm", "quadro_rtx_6000"),
    *("h100_nvl", "l4"),
)
_CAPS_W = (350.0, 400.0, 450.0, 500.0)
Job = Mapping[float, tuple[float, float]]
"""Power in W and time in s by power limit in W."""


def main(folder: Path) -> None:
    """Print ratios within eight points, held clocks, and errors on capped simulated boards."""
    tables = [data.read(folder) for data in DATA_SETS]
    model = OperatingModel(power=StackedModel(), time=StackedModel("time_s")).fit(joined(*tables))
    for gpu, board in _PUBLIC.items():
        _print_ratios(f"{gpu}, public", model, board, list(_public_jobs(folder, gpu).values()))
    _print_ratios("8 x H200, simulated", model, "h200_sxm", _simulated_jobs())
    for board, pattern in _CLOCKS_READ.items():
        _print_clocks_read(board, pattern)
    on_a100 = joined(tables[0], tables[1].select(tables[1].gpu != "A40"))
    model = OperatingModel(power=StackedModel(), time=StackedModel("time_s")).fit(on_a100)
    for ratios in (WARM, (1.0, SECOND_POINT)):
        found = np.array([_scores(model, board, ratios) for board in _SIMULATED])
        print(f"simulated boards at their limits, measured at {ratios}:", _percents(found.mean(0)))
        for board, row in zip(_SIMULATED, found, strict=True):
            print(f"  {board}:", _percents(row))


def _percents(row: Array) -> str:
    names = ("power", "time", "EDP regret", "held clock")
    return ", ".join(f"{n} {100 * value:.1f} %" for n, value in zip(names, row, strict=True))


def _public_jobs(folder: Path, gpu: str) -> dict[tuple[str, str], Job]:
    jobs: dict[tuple[str, str], dict[float, tuple[float, float]]] = {}
    for row in read_csv_table(folder / "power_limit_batch_training.csv"):
        if row["gpu"] == gpu:
            own = jobs.setdefault((row["app"], row["batch"]), {})
            own[float(row["power_limit_w"])] = float(row["power_w"]), float(row["time_s"])
    return dict(jobs)


def _print_ratios(name: str, model: OperatingModel, board: str, jobs: Sequence[Job]) -> None:
    measured = [job[max(job)][1] / job[w][1] for job in jobs for w in job if w < max(job)]
    usual = float(np.median(measured))
    _print_within(name, f"a constant {usual:.2f}, the median of all", np.array(measured) - usual)
    for who, one in by_member(model).items():
        ratios = [ratio for job in jobs for ratio in _ratios(one, board, job)]
        _print_within(name, who, np.array(ratios) - np.array(measured))


def _print_within(name: str, who: str, errors: Array) -> None:
    share = (np.abs(errors) <= _WITHIN).sum()
    print(
        f"{name}: {who}: {share} of {len(errors)} ratios within {100 * _WITHIN:.0f} points, mean "
        f"{100 * np.abs(errors).mean():.1f}"
    )


def _ratios(model: OperatingModel, board: str, job: Job) -> list[float]:
    """Return predicted throughput over that at the highest limit, by lower limit."""
    top_w, default_mhz = max(job), float(GPUS[board].default_clock_mhz)
    power_w, time_s = job[top_w]
    stock = {"sm_clock_mhz": default_mhz, "power_w": power_w, "time_s": time_s}
    warm = model.adapt(runs_of_rows([stock | {"application": "job", "gpu": board}]))
    known = {"application": "job", "gpu": board, "board": board, "clock_mhz": default_mhz}
    found = []
    for limit_w in job:
        if limit_w < top_w:
            profile = Profile(**known, activity={}, time_s=time_s, power_limit_w=limit_w)
            queries = sweep(profile, [default_mhz])
            found.append(float(time_s / warm.predict(queries, "time_s")[0]))
    return found


def _print_clocks_read(board: str, pattern: str) -> None:
    spec = GPUS[board]
    top_mhz, limit_w = float(spec.default_clock_mhz), float(spec.default_power_limit_w)
    clocks: dict[tuple[str, str], list[float]] = {}
    for path in sorted((_ROOT / "experiments" / "results").glob(f"{pattern}/*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if not row.get("power_w") or not row.get("sm_clock_mhz"):
                    continue
                if abs(float(row["power_w"]) / limit_w - 1.0) <= NEAR_CAP:
                    name = next((row[n] for n in _NAMES if row.get(n)), "")
                    own = clocks.setdefault((path.parent.name, name), [])
                    own.append(float(row["sm_clock_mhz"]))
    read = np.array([np.median(each) for each in clocks.values()])
    usual_mhz = usual_held_mhz(spec, top_mhz, limit_w)
    for label, taken_mhz in (("asked for", top_mhz), ("usual", usual_mhz)):
        off = np.abs(np.log(read / taken_mhz)).mean()
        print(f"{board}: {len(read)} held at the limit: {label} {taken_mhz:.0f} MHz, off {off:.1%}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """A load on a simulated board that departs from the catalogue; clocks are in MHz."""

    board: str
    constant_w: float
    ridge_mhz: float
    steeper: float  # slope and curvature of the voltage over the catalogue's
    core_w_per_ghz: float  # at the least voltage
    memory_w: float  # at the highest clock
    parts: tuple[float, float]  # as of core.power_law.relative_time

    @property
    def top_mhz(self) -> float:
        return float(GPUS[self.board].default_clock_mhz)

    def time(self, mhz: Array) -> Array:
        """Return time over that at the highest clock."""
        knee = GPUS[self.board].timing.memory_knee_mhz / self.top_mhz
        parts = np.tile(self.parts, (len(mhz), 1))
        return relative_time(mhz / self.top_mhz, parts, np.full(len(mhz), knee))

    def power_w(self, mhz: Array) -> Array:
        """Return power without a limit."""
        curve = GPUS[self.board].voltage
        knee = GPUS[self.board].timing.memory_knee_mhz / self.top_mhz
        memory = np.exp(self.parts[1])
        slowed = roofline(mhz / self.top_mhz, memory, knee) / roofline(1.0, memory, knee)
        slope, bend = curve.slope_per_ghz, curve.curvature_per_ghz2
        above = height(mhz, self.ridge_mhz, 1000.0)
        squared = voltage(above, self.steeper * slope, self.steeper * bend) ** 2
        core_w = self.core_w_per_ghz * self.top_mhz / 1e3 / slowed
        return board_w(self.constant_w, squared, core_w, self.memory_w / slowed)

    def held_mhz(self, limit_w: float) -> float:
        """Return the highest clock within the limit, and the lowest where none is."""
        clocks = np.array(sorted(GPUS[self.board].sm_clocks_mhz), dtype=float)
        fits = clocks[(self.power_w(clocks) <= CAP_SHARE * limit_w) & (clocks <= self.top_mhz)]
        return float(fits.max(initial=clocks[0]))


def _loads(board: str, most: float, number: int = 12) -> Iterator[_Load]:
    """Yield loads that want up to ``most`` times the limit at the highest clock."""
    random = np.random.default_rng([len(board), *map(ord, board)])
    spec = GPUS[board]
    constant_w = spec.power.constant_w * np.exp(0.12 * random.standard_normal())
    ridge_mhz = spec.voltage.ridge_mhz * np.exp(0.06 * random.standard_normal())
    steeper = np.exp(0.12 * random.standard_normal())
    peak_w = spec.power.dram_j_per_b * spec.memory_bandwidth_b_per_s
    for _ in range(number):
        memory = random.uniform(-2.5, 0.5)
        load = _Load(
            board=board, constant_w=constant_w, ridge_mhz=ridge_mhz, steeper=steeper,
            core_w_per_ghz=1.0, memory_w=peak_w * min(1.0, float(np.exp(memory))),
            parts=(random.normal(2.5, 1.0), memory),
        )  # fmt: skip
        wanted_w = spec.default_power_limit_w * random.uniform(1.02, most)
        top = np.array([load.top_mhz])
        rest_w = float(load.power_w(top)[0]) - constant_w - load.memory_w
        share = max(wanted_w - constant_w - load.memory_w, 0.1 * wanted_w) / rest_w
        yield _Load(**{n: getattr(load, n) for n in load.__slots__} | {"core_w_per_ghz": share})


def _simulated_jobs() -> list[Job]:
    limits_w = (*_CAPS_W, float(GPUS["h200_sxm"].default_power_limit_w))
    jobs = []
    for load in _loads("h200_sxm", 1.5):
        clocks = {limit_w: np.array([load.held_mhz(limit_w)]) for limit_w in limits_w}
        jobs.append(
            {w: (float(load.power_w(f)[0]), float(load.time(f)[0])) for w, f in clocks.items()}
        )
    return jobs


def _scores(model: OperatingModel, board: str, ratios: tuple[float, ...]) -> tuple[float, ...]:
    """Return mean errors of power, time, choice and held clock on one board at its limit."""
    spec, loads = GPUS[board], list(_loads(board, 1.3))
    held = {f"load {n}": load.held_mhz(spec.default_power_limit_w) for n, load in enumerate(loads)}
    runs = _sweeps(board, loads, list(held.values()))
    queries = queries_of(runs)
    anchored = queries.nearest(ratios)
    warm = model.adapt(runs.select(anchored), profiled=runs)
    errors = [
        np.abs(warm.predict(queries, name) / getattr(runs, name) - 1.0)[~anchored].mean()
        for name in ("power_w", "time_s")
    ]
    regrets = []
    for _, rows in runs.by_pair():
        one = runs.select(rows)
        chosen = warm.choose(queries_of(one), "edp").row
        regrets.append(regret(measured_sweep(one), float(one.sm_clock_mhz[chosen]), "edp"))
    taken, asked_mhz = warm.power.held_mhz, spec.default_clock_mhz
    off = np.mean([abs(taken.get(("board", n), asked_mhz) / mhz - 1.0) for n, mhz in held.items()])
    return (*errors, float(np.mean(regrets)), float(off))


def _sweeps(board: str, loads: Sequence[_Load], held_mhz: Sequence[float]) -> Runs:
    spec = GPUS[board]
    clocks = sorted(c for c in spec.sm_clocks_mhz if 0.48 <= c / spec.default_clock_mhz <= 1.0)
    asked = np.array(clocks[:: -max(1, len(clocks) // 40)][::-1], dtype=float)
    rows = []
    for number, (load, highest_mhz) in enumerate(zip(loads, held_mhz, strict=True)):
        ran = np.minimum(asked, highest_mhz)
        figures = zip(asked, load.power_w(ran), load.time(ran), strict=True)
        rows += [
            {"application": f"load {number}", "gpu": "board", "sm_clock_mhz": mhz}
            | {"power_w": power_w, "time_s": 10.0 * time}
            for mhz, power_w, time in figures
        ]
    return runs_of_rows(rows, boards={"board": board})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=_DATA, help="folder of measured tables")
    main(parser.parse_args().data)
