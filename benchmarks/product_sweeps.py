"""Public clock sweeps of products, by application and family, and power by the catalogue's law.

A family holds applications that compute alike: who has seen one has seen some of the others. Where
a table holds one model alone, each application is a family.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from smoothing import smoothed_logs

from joulelab.core.power_law import board_w, height, voltage
from joulelab.csv_table import read_csv_table
from joulelab.hardware import GpuSpec
from joulelab.power_models.decision import Sweep

NAMES = (
    *("ridge_mhz", "slope_per_ghz", "curvature_per_ghz2", "constant_w", "clock_tree_w_per_ghz"),
    *("sm_w_per_ghz", "fp64_w_per_ghz", "tensor_fp64_w_per_ghz", "crossbar_j_per_b"),
    "dram_j_per_b",
)
_BEFORE = {"a100_sxm": (1036.0, 0.685, 1.092, 60.7, 7.0, 38.1, 60.0, 110.0, 1e-11, 3.23e-11)}
"""What the catalogue had before it was fitted to these sweeps: a pull towards what it has now would
show a fit what is held out of it. Some units were read off six of the programs even then.
"""
OF_EVERY_SWEEP = 4
"""How many of these sweeps without counters tell of."""
_COUNTERS = ("sm_active", "fp_active", "tensor_active", "dram_active")
_ALL = slice(None)
_COLD = 3
"""First runs of a study of inference, which load the model meanwhile."""
_FAMILIES = {
    "dense": ("dgemm", "lud", "ge"),
    "sparse": ("spmv",),
    "grid": ("stencil", "lbm", "hotspot", "srad", "cfd"),
    "spectral": ("fft",),
    "particles": ("lavamd", "cutcp", "tpacf", "mriq"),
    "graph": ("bfs", "bplustree"),
    "sequence": ("nw",),
    "statistics": ("kmeans", "histo"),
    "image": ("heartwall",),
    "stream": ("stream",),
    "gpt3": tuple(f"gpt3-175b-stage{n}-{way}" for n in (0, 7) for way in ("forward", "backward")),
    "bloom": tuple(f"bloom-stage{n}-{way}" for n in (0, 7) for way in ("forward", "backward")),
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names}
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Rows of one GPU in a table; above ``held_mhz`` its power limit took the clock away."""

    table: str
    gpu: str
    has_counters: bool = False
    held_mhz: float = np.inf


PUBLIC = Path(__file__).parent / "public"
STAGES = "llm_stage_dvfs.csv"
INFERENCE = "inference_dvfs_runs.csv"
SOURCES: Mapping[str, tuple[Source, ...]] = {
    "a100_sxm": (
        Source(table="a100_hpc_dvfs.csv", gpu="A100(GA100)", has_counters=True),
        # From 1305 MHz on they draw more than the 400 W of the limit, and time falls less and less.
        Source(table=STAGES, gpu="A100-SXM4-80GB", held_mhz=1290.0),
    ),
    # Power flattens towards the limit of 300 W, which peaks within a stage meet earlier.
    "a40": (Source(table=STAGES, gpu="A40", held_mhz=1250.0),),
    "a100_pcie_40gb": (Source(table=INFERENCE, gpu="A100"),),
    "h100_nvl": (Source(table=INFERENCE, gpu="H100"),),
    "v100_pcie": (Source(table=INFERENCE, gpu="V100"),),
    "v100_sxm2": (Source(table=str(PUBLIC / "gpu_dvfs.csv"), gpu="V100 SXM2"),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A sweep of one application by rising clock; ``counters`` are of shape ``(n, 4)``.

    ``smooth`` is the sweep without its scatter.
    """

    name: str
    family: str
    sweep: Sweep
    smooth: Sweep
    counters: Array | None

    def power_w(self, board: Array, bandwidth_b_per_s: float, *, is_known: bool = False) -> Array:
        """Return its power at its clocks, by its counters where it has some.

        Without them its own part is that of its lowest and highest clock.

        Args:
            board: Coefficients as :data:`NAMES`.
            bandwidth_b_per_s: Peak bandwidth, of which the counter of the memory is a share.
            is_known: Whether power at the highest clock is known, and with it how much more the
                application does than its counters show.
        """
        if self.counters is None:
            return self.own_w(board, [0, -1])
        ghz, squared = self._clock(board)
        sm, fp, tensor, dram = self.counters.T
        clocked = board[5] * sm + board[6] * fp + board[7] * tensor
        moved_b = dram * bandwidth_b_per_s
        waiting_w = board_w(board[3], squared, ghz * board[4])
        working_w = squared * (ghz * clocked + board[8] * moved_b) + board[9] * moved_b
        more = (self.smooth.power_w[-1] - waiting_w[-1]) / working_w[-1] if is_known else 1.0
        return np.asarray(waiting_w + max(0.0, more) * working_w)

    def own_w(self, board: Array, rows: list[int] | slice = _ALL) -> Array:
        """Return its power where curve and constant are the board's, the rest fitted to rows."""
        ghz, squared = self._clock(board)
        rate = self.smooth.time_s[-1] / self.smooth.time_s
        columns = np.stack([squared * ghz, squared * rate, rate], axis=1)
        measured_w = self.smooth.power_w[rows]
        part, _ = nnls(columns[rows] / measured_w[:, None], 1.0 - board[3] / measured_w)
        return np.asarray(board[3] + columns @ part)

    def _clock(self, board: Array) -> tuple[Array, Array]:
        ghz = self.sweep.sm_clock_mhz / 1e3
        return ghz, voltage(height(ghz, board[0] / 1e3, 1.0), *board[1:3]) ** 2


def coefficients_of(spec: GpuSpec) -> Array:
    """Return the catalogue's coefficients, as :data:`NAMES`."""
    curve, power = spec.voltage, spec.power
    pipes = [power.pipe_w_per_ghz.get(pipe, 0.0) for pipe in ("fp64", "tensor_fp64")]
    return np.array(
        [curve.ridge_mhz, curve.slope_per_ghz, curve.curvature_per_ghz2, power.constant_w,
         power.clock_tree_w_per_ghz, power.sm_w_per_ghz, *pipes, power.crossbar_j_per_b,
         power.dram_j_per_b]
    )  # fmt: skip


def prior_of(spec: GpuSpec) -> Array:
    """Return the coefficients from which a fit starts, and towards which it is pulled."""
    before = _BEFORE.get(spec.key)
    return coefficients_of(spec) if before is None else np.array(before)


def read(folder: Path, source: Source) -> list[Program]:
    """Return the sweeps of a source; an empty counter is one of an unused pipe."""
    columns = ("sm_clock_mhz", "power_w", "time_s", *(_COUNTERS if source.has_counters else ()))
    rows: defaultdict[str, list[list[float]]] = defaultdict(list)
    for row in read_csv_table(folder / source.table):
        is_cold = int(row.get("run_seq") or _COLD + 1) <= _COLD
        values = [float(row[name] or 0.0) for name in columns]
        if row["gpu"] == source.gpu and values[0] <= source.held_mhz and not is_cold:
            rows[row["app"]].append(values)
    alone = len({_FAMILY_OF.get(name) for name in rows}) == 1
    family_of = {} if alone else _FAMILY_OF
    return [_program(name, family_of.get(name, name), values) for name, values in rows.items()]


def _program(name: str, family: str, values: Sequence[Sequence[float]]) -> Program:
    """Return what was measured at each clock, the median of its repeats."""
    by_clock: defaultdict[float, list[Sequence[float]]] = defaultdict(list)
    for row in sorted(values):
        by_clock[row[0]].append(row)
    table = np.array([np.median(rows, axis=0) for rows in by_clock.values()])
    mhz, power_w, time_s = table[:, :3].T
    smooth_w, smooth_s = (np.exp(smoothed_logs(mhz, np.log(one))) for one in (power_w, time_s))
    return Program(
        name=name,
        family=family,
        sweep=Sweep(sm_clock_mhz=mhz, power_w=power_w, time_s=time_s),
        smooth=Sweep(sm_clock_mhz=mhz, power_w=smooth_w, time_s=smooth_s),
        counters=table[:, 3:] if table.shape[1] > 3 else None,
    )
