"""How far estimates are from networks that no fit has seen, measured on an H200.

Usage: python benchmarks/unseen_networks.py [CSV] [--each] [--device h200_sxm] [--host fast]
           [--calm]

The table is that of benchmarks/measure_networks.py, by default the one in experiments/results. Each
question is that of a user's ``joulelab estimate``, with the constants that the project ships, and
without ``--host`` behind the typical host.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from joulelab.csv_table import read_csv_table
from joulelab.errors import JouleLabError
from joulelab.estimator.api import estimate
from joulelab.estimator.estimate import Estimate, Mode, PhaseEstimate
from joulelab.estimator.validation import Comparison, MeasuredRun, Prediction

_ROOT = Path(__file__).parents[1]
NETWORKS = _ROOT / "experiments" / "results" / "h200_networks" / "networks.csv"
_BUSY_W = 600.0
"""Mean power from which the device, not the host, sets the time."""
_CALM = 0.2
"""Share of a window's time up to which other work may slow the host's core."""

_MODES: Mapping[str, Mode] = {
    "eager": "eager",
    "graph": "graph",
    "compiled": "compiled",
    "compiled_launched": "compiled",
}
"""How the estimator is asked for each mode: it has none for compiled kernels without a graph."""

_CONSOLE = Console(width=130)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One line of the table.

    Attributes:
        run: As other comparisons take it, with the phase as its scenario.
        mode: How it was run, in the table's words.
        num_executions: How often a question's answer has the phase: decode is of every new token.
        seen: Whether it was measured before.
        disturbed: Share of the time in which other work slowed the host's core, 0 where it is left
            out of the run; ``None`` of tables that do not say.
    """

    run: MeasuredRun
    mode: str
    num_executions: int
    seen: bool
    disturbed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors of one case: predicted over measured, less 1.

    Attributes:
        launch_share: Share of the predicted time that launching kernels sets.
        in_range: Whether the measured time is in the range over hosts; ``None`` without one.
    """

    measured: Measured
    launch_share: float
    in_range: bool | None
    comparison: Comparison
    time: float
    energy: float

    @property
    def power(self) -> float:
        """Error of mean power."""
        return (1 + self.energy) / (1 + self.time) - 1

    @property
    def measured_w(self) -> float:
        """Mean power, as measured."""
        run = self.measured.run
        return (run.energy_j or 0.0) / (run.time_s or 1.0)


def read_measured(path: Path, device: str, *, undisturbed: bool = False) -> list[Measured]:
    """Read the cases of a table that were measured with their power.

    Args:
        path: The table.
        device: As ``joulelab estimate`` takes it.
        undisturbed: Take time and power while nobody slowed a host that sets the pace, where the
            table says them.

    Raises:
        ConfigError: If it is no such table.
    """
    rows = read_csv_table(path, columns=("name", "model", "time_s", "energy_j", "error"))
    chosen = (row for row in rows if row["energy_j"] and not row["error"])
    return [_measured(row, device, undisturbed=undisturbed) for row in chosen]


def _measured(row: Mapping[str, str], device: str, *, undisturbed: bool) -> Measured:
    knobs, model = json.loads(row["knobs"]), row["model"]
    run = MeasuredRun(
        name=row["name"],
        source="own H200",
        family=row["family"],
        scenario=row["phase"],
        device=device,
        model=f"{_ROOT / model}" if ".py:" in model else model,
        precision=row["precision"],
        batch=int(row["batch"]),
        mode=_MODES[row["mode"]],
        knobs=knobs,
        time_s=float(row["time_s"]),
        energy_j=float(row["energy_j"]),
    )
    times = int(knobs["new_tokens"]) if row["phase"] == "decode" else 1
    disturbed = float(row["disturbed"]) if row.get("disturbed") else None
    if undisturbed and _says_undisturbed(row):
        time_s = float(row["undisturbed_s"])
        energy_j = time_s * float(row["undisturbed_power_w"])
        run, disturbed = replace(run, time_s=time_s, energy_j=energy_j), 0.0
    return Measured(
        run=run,
        mode=row["mode"],
        num_executions=times,
        seen=row["seen"] == "1",
        disturbed=disturbed,
    )


def _says_undisturbed(row: Mapping[str, str]) -> bool:
    """Return whether a row has time and power while nobody slowed a host that sets the pace."""
    has_both = row.get("undisturbed_s") and row.get("undisturbed_power_w")
    return bool(has_both) and float(row["host_s"]) >= float(row["time_s"]) / 2


def compared(measured: Measured, host: str | None = None) -> Errors:
    """Ask the estimator for what was measured, and compare.

    Raises:
        JouleLabError: If it cannot be asked.
    """
    run = measured.run
    knobs: dict[str, Any] = dict(run.knobs)
    answer = estimate(
        run.model,
        device=run.device,
        precision=run.precision,
        batch=run.batch,
        mode=run.mode,
        training=run.scenario == "train",
        host=host,
        **knobs,
    )
    phase = _phase(answer, run.scenario)
    predicted = Prediction(
        time_s=phase.latency_s / measured.num_executions,
        energy_j=phase.energy.total_j / measured.num_executions,
        least_s=phase.roofline_s / measured.num_executions,
    )
    comparison = Comparison(run=run, predicted=predicted)
    return Errors(
        measured=measured,
        launch_share=answer.launch_share,
        in_range=_is_in_range(answer, measured),
        comparison=comparison,
        time=cast("float", comparison.time_error),
        energy=cast("float", comparison.energy_error),
    )


def _is_in_range(answer: Estimate, measured: Measured) -> bool | None:
    """Return whether the time is in the range over hosts, of answers of one phase."""
    if answer.host_range is None or len(answer.phases) > 1:
        return None
    low_s, high_s = answer.host_range.latency_s
    return low_s <= (measured.run.time_s or 0.0) * measured.num_executions <= high_s


def _phase(answer: Estimate, name: str) -> PhaseEstimate:
    return next(phase for phase in answer.phases if phase.phase == name)


def unseen_errors(table: Path, device: str, host: str | None = None) -> list[Errors]:
    """Return the errors of all cases of a table that no fit has seen.

    Behind a host that was measured, what counts is while nobody slowed its core, where the table
    says that, and cases are left out while whose window others did: the estimate is of a core to
    itself.
    """
    measured = read_measured(table, device, undisturbed=host is not None)
    unseen = [one for one in measured if not one.seen]
    return _all(unseen if host is None else filter(_is_calm, unseen), host)[0]


def _is_calm(measured: Measured) -> bool:
    return measured.disturbed is None or measured.disturbed <= _CALM


def main() -> int:
    """Compare every case of a table and print errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=Path, nargs="?", default=NETWORKS, help="what was measured")
    parser.add_argument("--each", action="store_true", help="print every case, too")
    parser.add_argument("--device", default="h200_sxm", help="as joulelab estimate takes it")
    parser.add_argument("--host", help="as joulelab estimate takes it")
    parser.add_argument(
        "--calm", action="store_true", help="only cases while which nobody slowed the host's core"
    )
    settings = parser.parse_args()
    if not settings.csv.is_file():
        _CONSOLE.print(
            f"There is no table {settings.csv}; benchmarks/measure_networks.py makes it."
        )
        return 1
    measured = read_measured(settings.csv, settings.device, undisturbed=settings.calm)
    if settings.calm:
        measured = [one for one in measured if _is_calm(one)]
    found, refused = _all(measured, settings.host)
    if settings.each:
        _print_each(found)
    _print_groups([one for one in found if not one.measured.seen])
    for name, reason in refused.items():
        _CONSOLE.print(f"not asked: {name}: {reason}", highlight=False)
    return 0


def _all(measured: Iterable[Measured], host: str | None) -> tuple[list[Errors], dict[str, str]]:
    found: list[Errors] = []
    refused: dict[str, str] = {}
    # Questions that share a trace follow each other, since the estimator keeps the last of them.
    for one in sorted(
        measured, key=lambda each: (each.run.model, each.run.scenario, each.run.name)
    ):
        try:
            found.append(compared(one, host))
        except JouleLabError as error:
            refused[one.run.name] = str(error)
    return found, refused


def _print_groups(found: Sequence[Errors]) -> None:
    columns = ("n", "time MAPE", "median", "bias", "energy MAPE", "median", "bias")
    table = Table("what", *columns, "power MAPE", "bias", title="Networks that no fit has seen")
    _add(table, "everything", found)
    eager = [one for one in found if one.measured.mode == "eager"]
    busy = [one for one in found if one.measured_w >= _BUSY_W]
    _add(table, f"device-bound, {_BUSY_W:.0f} W or more", busy)
    _add(table, f"below {_BUSY_W:.0f} W", [one for one in found if one not in busy])
    labels: Sequence[tuple[str, Sequence[Errors], Callable[[Errors], str]]] = (
        ("", found, lambda one: f"mode {one.measured.mode}"),
        ("", found, lambda one: one.measured.run.precision),
        ("", found, lambda one: f"phase {one.measured.run.scenario}"),
        ("", eager, lambda one: "eager, batch 1" if _is_single(one) else "eager, larger batch"),
        ("eager ", eager, lambda one: one.measured.run.family),
        ("device-bound ", busy, lambda one: one.measured.run.family),
    )
    for prefix, errors, label in labels:
        table.add_section()
        for name in sorted({label(one) for one in errors}):
            _add(table, f"{prefix}{name}", [one for one in errors if label(one) == name])
    _CONSOLE.print(table)
    ranged = [one.in_range for one in found if one.in_range is not None]
    if ranged:
        _CONSOLE.print(f"{fmean(ranged):.0%} of {len(ranged)} times in the range over hosts")


def _is_single(one: Errors) -> bool:
    return one.measured.run.batch == 1


def _add(table: Table, name: str, found: Sequence[Errors]) -> None:
    if not found:
        return
    times, energies = [one.time for one in found], [one.energy for one in found]
    powers = [one.power for one in found]
    table.add_row(
        name,
        str(len(found)),
        *(_percent(value) for value in (*_absolute(times), fmean(times))),
        *(_percent(value) for value in (*_absolute(energies), fmean(energies))),
        *(_percent(value) for value in (_absolute(powers)[0], fmean(powers))),
    )


def _absolute(errors: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the median of what errors are without their sign."""
    sizes = [abs(error) for error in errors]
    return fmean(sizes), median(sizes)


def _print_each(found: Sequence[Errors]) -> None:
    table = Table(
        "case", "time", "estimate", "error", "energy", "estimate", "error", "power", "error"
    )
    for one in sorted(found, key=lambda each: -abs(each.energy)):
        run, predicted = one.measured.run, one.comparison.predicted
        table.add_row(
            run.name + (" (seen)" if one.measured.seen else ""),
            *(f"{1e3 * (value or 0):.4g} ms" for value in (run.time_s, predicted.time_s)),
            _percent(one.time),
            *(f"{value or 0:.4g} J" for value in (run.energy_j, predicted.energy_j)),
            _percent(one.energy),
            f"{one.measured_w:.0f} W",
            _percent(one.power),
        )
    _CONSOLE.print(table)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    sys.exit(main())
