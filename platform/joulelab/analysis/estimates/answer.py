"""Which of several estimates is best, in a sentence."""

from collections.abc import Sequence

from joulelab.analysis.estimates.overview import value_of, varying
from joulelab.analysis.quantities import quantity
from joulelab.errors import ConfigError
from joulelab.estimator.cell import Cell
from joulelab.estimator.estimate import Estimate, PhaseEstimate


def answers(cells: Sequence[Cell]) -> list[str]:
    """Say of each model which cell is best; nothing of a model with one answer."""
    models = dict.fromkeys(cell.model for cell in cells)
    said = {model: answer([cell for cell in cells if cell.model == model]) for model in models}
    several = len(models) > 1
    return [f"{model}: {one}" if several else one for model, one in said.items() if one]


def answer(cells: Sequence[Cell]) -> str:
    """Say which cell needs least energy and which least time per unit of work.

    Only those that fit their device are compared, by their last phase: decode of a language
    model. Empty where there are not two of the same kind of work.
    """
    fitting = [cell for cell in cells if cell.estimate is not None and cell.estimate.fits]
    if len(fitting) < 2 or len({(c.model, _of(c).unit) for c in fitting}) > 1:
        return ""
    real = [cell for cell in fitting if _of(cell).confidence.tier != "D"]
    projected = [cell for cell in fitting if _of(cell).confidence.tier == "D"]
    if not (real and projected):
        return _best(fitting, cells)
    frugal = min(projected, key=energy_per_work_j)
    if energy_per_work_j(frugal) >= min(map(energy_per_work_j, real)):
        return _best(real, cells)
    unit = _of(frugal).unit
    least = quantity(energy_per_work_j(frugal), f"J/{unit}", digits=3)
    return f"{_best(real, cells)} {cell_name(frugal, cells)} is projected at {least}."


def cell_name(cell: Cell, cells: Sequence[Cell]) -> str:
    """Name a cell by what sets it apart from the others: ``"NVIDIA H200, batch 8"``."""
    names = [name for name in varying(cells) if name != "phase"]
    several = len({value_of(each, "device") for each in cells}) > 1
    kept = [n for n in names if n != "device" or several] or ["device"]
    return ", ".join(("batch " * (n == "batch")) + value_of(cell, n) for n in kept)


def ranked(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return ``cells`` by energy per unit of work; those that do not fit or run come last."""
    return tuple(sorted(cells, key=_rank))


def last_phase(cell: Cell) -> PhaseEstimate:
    """Return the phase by which cells are compared."""
    return _of(cell).phases[-1]


def energy_per_work_j(cell: Cell) -> float:
    """Return the energy of a unit of the last phase's work."""
    phase = last_phase(cell)
    return phase.energy.total_j / phase.work


def time_per_work_s(cell: Cell) -> float:
    """Return the time of a unit of the last phase's work."""
    phase = last_phase(cell)
    return phase.latency_s / phase.work


def _best(fitting: Sequence[Cell], cells: Sequence[Cell]) -> str:
    frugal, fast = min(fitting, key=energy_per_work_j), min(fitting, key=time_per_work_s)
    unit, phase = _of(frugal).unit, last_phase(frugal)
    what = f" of {phase.phase}" if len(_of(frugal).phases) > 1 else ""
    least = quantity(energy_per_work_j(frugal), f"J/{unit}", digits=3)
    time = quantity(time_per_work_s(fast), f"s/{unit}", digits=3)
    said = f"Least energy{what}: {cell_name(frugal, cells)} with {least}"
    if frugal is fast:
        return f"{said}, the fastest too with {time}."
    return f"{said}. Least time: {cell_name(fast, cells)} with {time}."


def _rank(cell: Cell) -> tuple[int, float]:
    if cell.estimate is None:
        return 2, 0.0
    return int(not cell.estimate.fits), energy_per_work_j(cell)


def _of(cell: Cell) -> Estimate:
    if cell.estimate is None:
        raise ConfigError(f"There is no estimate to compare: {cell.problem}")
    return cell.estimate
