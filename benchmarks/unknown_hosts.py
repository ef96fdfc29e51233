"""How far estimates are from programs on hosts that nobody measured.

Usage: python benchmarks/unknown_hosts.py

Every attribution in experiments/results metered each phase of a program, on boards of many hosts of
which none is in a fit, and so did the references beside quick points. The estimator is asked as a
user would ask it who knows nothing of the host. Goals: 18 % of time, 15 % of energy, 7 % of both at
600 W or more, and nine times in ten within the range over hosts that an answer shows where launches
set a part of its time.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from figures import Figure, share_figure
from quick_on_gpu import CASES, Case, read_rows
from rich.console import Console
from rich.table import Table

from joulelab.core.grouping import grouped_by
from joulelab.estimator.api import matrix
from joulelab.estimator.estimate import Estimate
from joulelab.estimator.question import Question

RESULTS = Path(__file__).parents[1] / "experiments" / "results"
_FITTED = ("bert-large", "bloom-560m", "tinyllama", "vit-base", "vit-large", "gemm", "stream")
"""What constants are fitted to, at other batches and behind another host."""
_DEVICES = {"h100_attribution": "h100_sxm", "h200_attribution": "h200_sxm"}
_QUICK = RESULTS / "h200_quick" / "thirty.jsonl"
_QUICK_BOARD = "GPU-765d91d1-065f-f4cf-e2b3-565b86128362"
_BUSY_W = 600.0
"""Mean power from which the device, not the host, sets the time."""
Found = Mapping[str, Any]


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
    metered_w: float
    time: float
    energy: float
    in_range: bool | None


def errors() -> Iterator[Error]:
    """Yield the error of every phase that one GPU ran; the first run on each board counts."""
    seen = set()
    for device, found in (*_attributions(), *references(_QUICK)):
        knobs = json.dumps({"program": found["program"], **found["knobs"]}, sort_keys=True)
        if (found["uuid"], knobs) not in seen:
            seen.add((found["uuid"], knobs))
            yield from _errors(device, found, answer(device, knobs))


def _attributions() -> Iterator[tuple[str, Found]]:
    for folder, device in _DEVICES.items():
        for path in sorted((RESULTS / folder).glob("*.json")):
            found = json.loads(path.read_text())
            if found["knobs"].get("tensor_parallel", 1) == 1:
                yield device, found


def references(path: Path) -> Iterator[tuple[str, Found]]:
    """Yield programs as attributions have them, of references from rest where there is one."""
    cases = {case.name: case.configuration for case in (Case.of(*each) for each in CASES)}
    rows = [row for row in read_rows([path]) if row.asked != "quick"]
    for name, own in grouped_by(rows, lambda row: row.case).items():
        by_manner = grouped_by(own, lambda row: row.asked)
        phases = [
            {
                "phase": row.phase,
                "time_per_unit_s": row.numbers.time_s,
                "energy_per_unit_j": row.numbers.energy_j,
            }
            for row in by_manner.get("reference") or by_manner["going on"]
            if row.numbers
        ]
        asked = cases[name]
        program = {"program": asked.workload, "knobs": dict(asked.knobs), "phases": phases}
        yield "h200_sxm", {"uuid": _QUICK_BOARD, **program}


@cache
def answer(device: str, asked: str) -> Estimate:
    """Return what the estimator says of a program behind the typical host."""
    knobs: dict[str, Any] = json.loads(asked)
    (cell,) = matrix(
        Question(
            models=(f"workload:{knobs.pop('program')}",),
            devices=(device,),
            precisions=(str(knobs.pop("precision")),),
            batches=(int(knobs.pop("batch", 1)),),
            mode="eager",
            knobs={name: value for name, value in knobs.items() if value is not None},
        )
    )
    if cell.estimate is None:
        raise SystemExit(cell.problem)
    return cell.estimate


def _errors(device: str, found: Found, asked: Estimate) -> Iterator[Error]:
    for metered in found["phases"]:
        predicted = {phase.phase: phase for phase in asked.phases}[metered["phase"]]
        ratio = predicted.time_per_unit_s / metered["time_per_unit_s"]
        yield Error(
            device=device,
            board=found["uuid"],
            program=_program(found),
            phase=metered["phase"],
            metered_w=metered["energy_per_unit_j"] / metered["time_per_unit_s"],
            time=ratio - 1,
            energy=predicted.energy_per_unit_j / metered["energy_per_unit_j"] - 1,
            in_range=_is_in_range(asked, found),
        )


def _program(found: Found) -> str:
    knobs = found["knobs"]
    sizes = (f", {name} {knobs[name]}" for name in ("batch", "n") if name in knobs)
    return f"{knobs.get('model', found['program'])}{''.join(sizes)}, {knobs['precision']}"


def _is_in_range(asked: Estimate, found: Found) -> bool | None:
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
        name = f"behind hosts that nobody measured, {device}"
        for what, those, goals in _parts(own):
            how = f"{len(those)} phases on {len({one.board for one in those})} boards"
            for kind, goal in zip(("time", "energy"), goals, strict=True):
                mean = fmean(abs(getattr(one, kind)) for one in those)
                found.append(share_figure(f"error of {kind}, {what}, {name}", mean, goal, how))
        out = [not one.in_range for one in own if one.in_range is not None]
        found.append(share_figure(f"out of the range {name}", fmean(out), 10, f"{len(out)} phases"))
    return found


def _parts(own: Sequence[Error]) -> Iterator[tuple[str, Sequence[Error], tuple[float, float]]]:
    """Yield what is judged by itself, with the goals of time and energy, in percent."""
    others = [one for one in own if not one.program.startswith(_FITTED)]
    yield "networks that no fit has", others, (18, 15)
    if busy := [one for one in others if one.metered_w >= _BUSY_W]:
        yield f"of these {_BUSY_W:.0f} W or more", busy, (7, 7)


def main() -> None:
    """Print every error, and what they come to by GPU."""
    console, found = Console(width=110), list(errors())
    table = Table("GPU", "board", "program", "phase", "power", "time", "energy", "in range")
    for one in found:
        shown = "" if one.in_range is None else ("yes" if one.in_range else "no")
        numbers = (f"{one.metered_w:.0f} W", f"{one.time:+.1%}", f"{one.energy:+.1%}", shown)
        table.add_row(one.device, one.board[4:12], one.program, one.phase, *numbers)
    console.print(table)
    for device, own in grouped_by(found, lambda one: one.device).items():
        console.print(summary(device, own))
        for what, those, _ in _parts(own):
            console.print(summary(f"  {what}", those))


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
