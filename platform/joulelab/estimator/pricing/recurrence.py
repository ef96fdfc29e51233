"""What a recurrent layer takes on a GPU: step after step in time, each of a few kernels.

cuDNN multiplies the inputs of many steps at once. Each step then multiplies the state by weights
that it reads anew, and a kernel of the cells goes on from there. Backward, a step multiplies the
gates' gradients in parts, sums these up and has its kernel of the cells; gradients of inputs and
weights are products of many steps. Layers of few cells run all steps in one kernel, but in bf16. So
does cuDNN 9.19 on H200s (62 cases of LSTMs; experiments/results/h200_recurrent). GRUs and plain
recurrent layers are taken to run so, too, each by its own gates; none of them was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from joulelab.estimator.pricing.kernel_class import RECURRENT, RECURRENT_BACKWARD
from joulelab.estimator.pricing.occupancy import utilisation
from joulelab.estimator.pricing.table import Array, Flags, Index, Shapes, WorkTable
from joulelab.hardware.processor import Processor
from joulelab.tracing.program import MatrixShape, Operator

_KERNELS = {RECURRENT: 2, RECURRENT_BACKWARD: 3}
"""Kernels of a step, of which one multiplies; the few of all steps together are left out."""
_ON_CPU = {3: 13, 1: 3}
"""Kernels of a step of a GRU and of a plain layer, by their gates, on CPUs: PyTorch has one kernel
there for LSTMs alone."""
_VALUES = 5
"""Values that a cell's kernel moves beside the gates of two products, as counted: 13 in all of an
LSTM, with biases, states and results."""
_CELLS_SHARE = 0.125
"""Share of the last cache's bandwidth at which it does, fitted: 1.0 TB/s on an H200."""
_STAYS = 0.5
"""Share of the last cache up to which weights stay there from one step to the next: it has two
halves, each of which keeps what its own units read. 18.9 MB stay on an H200, 33.6 do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Persistent:
    """A kernel of all steps: its blocks keep samples, and the weights as far as they have room."""

    step_s: float  # of 64 cells and up to 64 samples
    by_cells: float  # exponent of cells over 64
    by_samples: float  # exponent of samples over 64 where there are more
    block: float  # samples of a block

    def time_s(self, shape: MatrixShape) -> float:
        """Return the time of all steps of ``shape``."""
        cells, samples = shape.n / shape.gates / 64, max(1.0, shape.m / 64)
        step_s: float = self.step_s * cells**self.by_cells * samples**self.by_samples
        return shape.batch * step_s

    def fill(self, shape: MatrixShape, num_cores: float) -> float:
        """Return the share of units that have blocks, 0..1."""
        return min(1.0, shape.m / self.block / num_cores)


_PERSISTENT = {
    "float16": _Persistent(step_s=1.0e-6, by_cells=1.6, by_samples=0.12, block=8),
    "float32": _Persistent(step_s=0.42e-6, by_cells=2.76, by_samples=0.8, block=1),
}
"""Of eight cases of 64 and 192 cells on an H200, with 64 and 1,024 samples."""
_PERSISTENT_CELLS = 192


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentWork:
    """What each group takes beside the products of a recurrent layer; zeros for other groups."""

    fixed_s: Array  # least time of the kernels of all steps
    turns_s_mhz: Array  # time at a core clock of 1 MHz in which units work on cells, or all steps
    cache_b: Array  # bytes of the last cache: of cells, and of weights from the second step on
    memory_b: Array  # of them, those that come from the main memory


def step_kernels(operator: Operator, found: str) -> float:
    """Return how many kernels all steps of ``operator``, of class ``found``, launch on a GPU."""
    if found not in _KERNELS:
        return 0.0
    if _persistent(operator, found):
        return _KERNELS[found]
    return _KERNELS[found] * _steps(operator, found)


def cpu_kernels(operator: Operator, found: str) -> float:
    """Return how many kernels a CPU runs for all steps of ``operator``, of class ``found``."""
    if found not in _KERNELS or operator.shape is None:
        return 1.0
    of_step = _ON_CPU.get(operator.shape.gates)
    return 1.0 if of_step is None else max(1.0, of_step * float(operator.shape.batch))


def _persistent(operator: Operator, found: str) -> _Persistent | None:
    shape = operator.shape
    if found != RECURRENT or shape is None or shape.n > shape.gates * _PERSISTENT_CELLS:
        return None
    return _PERSISTENT.get(operator.dtype)


def _gates(operators: Sequence[Operator]) -> Array:
    return np.array([one.shape.gates if one.shape else 1 for one in operators], dtype=float)


def _steps(operator: Operator, found: str) -> float:
    """Return the steps in time: a step's gradients count as two products of its shape."""
    times = operator.shape.batch if operator.shape else 1.0
    return times / 2 if found == RECURRENT_BACKWARD else times


def is_recurrent(table: WorkTable, processor: Processor) -> Flags:
    """Return which operator rows run as is said here: none off GPUs."""
    is_gpu = processor.family == "gpu"
    return np.array([is_gpu and found in _KERNELS for found in table.classes], dtype=bool)


def recurrent_work(table: WorkTable, processor: Processor) -> RecurrentWork:
    """Return what recurrent layers take beside their products."""
    rows, timing, cache = table.main, processor.timing, processor.last_cache
    applies = is_recurrent(table, processor)[rows]
    named = [(table.operators[row], table.classes[row]) for row in rows]
    persistent_s, fill = _persistent_work(named, processor.num_cores)
    launched = applies & (persistent_s == 0)  # step by step
    steps = launched * np.array([_steps(*one) for one in named])
    others = launched * np.array([step_kernels(*one) for one in named]) - steps
    persistent_s *= applies
    gates, element_b = _gates([operator for operator, _ in named]), table.element_b[rows]
    cells = table.shapes.n[rows] / gates
    weights_b = gates * cells * cells * element_b
    again_b = np.maximum(0.0, steps - 1) * weights_b
    values_b = steps * (2 * gates + _VALUES) * table.shapes.m[rows] * cells * element_b
    cells_s = values_b / (_CELLS_SHARE * cache.bandwidth_b_per_s)
    return RecurrentWork(
        fixed_s=steps * timing.overhead_s((), is_matrix=True)
        + others * timing.overhead_s((), is_matrix=False)
        + (1 - fill) * persistent_s,
        turns_s_mhz=processor.default_clock_mhz * (cells_s + fill * persistent_s),
        cache_b=again_b + values_b,
        memory_b=np.where(weights_b > _STAYS * cache.size_b, again_b, 0.0),
    )


def _persistent_work(
    named: Sequence[tuple[Operator, str]], num_cores: float
) -> tuple[Array, Array]:
    """Return the time of kernels of all steps, and the share of units in use; zeros for others."""
    work = np.zeros((len(named), 2))
    for row, (operator, found) in enumerate(named):
        kernel = _persistent(operator, found)
        if kernel is not None and operator.shape is not None:
            work[row] = kernel.time_s(operator.shape), kernel.fill(operator.shape, num_cores)
    return work[:, 0], work[:, 1]


def recurrent_use(
    table: WorkTable, processor: Processor, rows: Index, *, plain: bool
) -> tuple[Array, Array]:
    """Return the rate of recurrent ``rows`` over that of a large product, and the busy share.

    Products of steps run one after the other, those of inputs, and of weights' gradients, at once.
    Where one kernel runs all steps, they are in its time. Plain units run them where ``plain``.
    """
    shapes = table.shapes.at(rows)
    is_backward = np.array([table.classes[row] == RECURRENT_BACKWARD for row in rows])
    passes, ones = np.where(is_backward, 2.0, 1.0), np.ones(len(rows))
    cells = shapes.n / _gates([table.operators[row] for row in rows])
    of_step = Shapes(
        batch=ones,
        m=shapes.m,
        n=np.where(is_backward, cells, shapes.n),
        k=np.where(is_backward, shapes.n, cells),
        window=ones,
        pixels=ones,
    )
    at_once = Shapes(
        batch=ones,
        m=shapes.batch / passes * shapes.m,
        n=shapes.n,
        k=np.maximum(1.0, shapes.k - cells),
        window=ones,
        pixels=ones,
    )
    step_use, step_fill = utilisation(of_step, processor.engine, plain=plain)
    other_use, other_fill = utilisation(at_once, processor.engine, plain=plain)
    persists = [_persistent(table.operators[row], table.classes[row]) is not None for row in rows]
    step_share = np.where(persists, 0.0, cells / shapes.k / passes)
    step_time, other_time = step_share / step_use, (1 - step_share) / other_use
    time = step_time + other_time
    return 1 / time, (step_time * step_fill + other_time * other_fill) / time
