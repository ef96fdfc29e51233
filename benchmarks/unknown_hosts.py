"""How far estimates are from programs on hosts that nobody measured.

Usage: python benchmarks/unknown_hosts.py

Every attribution in experiments/results metered each phase of a program, on boards of many hosts of
which none is in a fit. The estimator is asked as a user would ask it who knows nothing of the host.
Goals: 18 % of time, 15 % of energy, and nine times in ten within the range over hosts that an
answer shows where launches set a part of its time.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from figures import Figure, share_figure
from rich.console import Console
from rich.table import Table

from joulelab.core.grouping import grouped_by
from joulelab.estimator.api import matrix
from joulelab.estimator.estimate import Estimate
from joulelab.estimator.question import Question

RESULTS = Path(__file__).parents[1] / "experiments" / "results"
_FITTED = ("bert-large", "vit-large")
"""Networks that constants are fitted to, at other batches and behind another host."""
_DEVICES = {"h100_attribution": "h100_sxm", "h200_attribution": "h200_sxm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """Predicted over metered, less 1, of a phase on one board.

    Attributes:
        in_range: Whether the metered time is in the range over hosts; ``None`` without one.
    """

    device: str
    board: str
    program: str
    phase: str
    time: float
    energy: float
    in_range: bool | None


def errors() -> Iterator[Error]:
    """Yield the error of every phase that one GPU ran; the first run on each board counts."""
    seen = set()
    for folder, device in _DEVICES.items():
        for path in sorted((RESULTS / folder).glob("*.json")):
            found = json.loads(path.read_text())
            if found["knobs"].get("tensor_parallel", 1) > 1:
                continue
            knobs = json.dumps({"program": found["program"], **found["knobs"]}, sort_keys=True)
            if (found["uuid"], knobs) not in seen:
                seen.add((found["uuid"], knobs))
                yield from _errors(device, found, answer(device, knobs))


@cache
def answer(device: str, asked: str) -> Estimate:
    """Return what the estimator says of a program behind the typical host."""
    knobs: dict[str, Any] = json.loads(asked)
    (cell,) = matrix(
        Question(
            models=(f"workload:{knobs.pop('program')}",),
            devices=(device,),
            precisions=(str(knobs.pop("precision")),),
            batches=(int(knobs.pop("batch")),),
            mode="eager",
            knobs={name: value for name, value in knobs.items() if value is not None},
        )
    )
    if cell.estimate is None:
        raise SystemExit(cell.problem)
    return cell.estimate


def _errors(device: str, found: Mapping[str, Any], asked: Estimate) -> Iterator[Error]:
    for metered in found["phases"]:
        predicted = {phase.phase: phase for phase in asked.phases}[metered["phase"]]
        ratio = predicted.time_per_unit_s / metered["time_per_unit_s"]
        yield Error(
            device=device,
            board=found["uuid"],
            program=f"{found['knobs']['model']}, batch {found['knobs']['batch']}",
            phase=metered["phase"],
            time=ratio - 1,
            energy=predicted.energy_per_unit_j / metered["energy_per_unit_j"] - 1,
            in_range=_is_in_range(asked, found),
        )


def _is_in_range(asked: Estimate, found: Mapping[str, Any]) -> bool | None:
    """Return whether the whole program's time is in the range, which is of all phases."""
    if asked.host_range is None:
        return None
    metered = {each["phase"]: each["time_per_unit_s"] for each in found["phases"]}
    whole_s = sum(metered[phase.phase] * phase.work for phase in asked.phases)
    low_s, high_s = asked.host_range.latency_s
    return bool(low_s <= whole_s <= high_s)


def figures() -> list[Figure]:
    """Return errors of networks that no fit has, and what share of phases is out of the range."""
    found = []
    for device, own in grouped_by(errors(), lambda one: one.device).items():
        others = [one for one in own if not one.program.startswith(_FITTED)]
        how = f"{len(others)} phases on {len({one.board for one in others})} boards"
        name = f"behind hosts that nobody measured, {device}"
        times, energies = ([abs(getattr(one, k)) for one in others] for k in ("time", "energy"))
        out = [not one.in_range for one in own if one.in_range is not None]
        found += [
            share_figure(f"error of time {name}", fmean(times), 18, how),
            share_figure(f"error of energy {name}", fmean(energies), 15, how),
            share_figure(f"out of the range {name}", fmean(out), 10, f"{len(out)} phases"),
        ]
    return found


def main() -> None:
    """Print every error, and what they come to by GPU."""
    console, found = Console(width=110), list(errors())
    table = Table("GPU", "board", "program", "phase", "time", "energy", "in range")
    for one in found:
        shown = "" if one.in_range is None else ("yes" if one.in_range else "no")
        numbers = (f"{one.time:+.1%}", f"{one.energy:+.1%}", shown)
        table.add_row(one.device, one.board[4:12], one.program, one.phase, *numbers)
    console.print(table)
    for device, own in grouped_by(found, lambda one: one.device).items():
        console.print(summary(device, own))
        others = [one for one in own if not one.program.startswith(_FITTED)]
        console.print(summary("  networks that no fit has", others))


def summary(what: str, own: Sequence[Error]) -> str:
    """Return mean errors in a sentence, and how many programs were within the range."""
    ranged = {(one.board, one.program): one.in_range for one in own if one.in_range is not None}
    return (
        f"{what}: {len(own)} phases on {len({one.board for one in own})} boards, "
        f"time {_mean(one.time for one in own)}, energy {_mean(one.energy for one in own)}; "
        f"{sum(ranged.values())} of {len(ranged)} programs within the range over hosts"
    )


def _mean(errors: Iterable[float]) -> str:
    found = list(errors)
    return f"{fmean(map(abs, found)):.1%} (bias {fmean(found):+.1%})"


if __name__ == "__main__":
    main()
