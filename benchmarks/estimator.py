"""How far estimates are from what was measured, on families of networks held out of every fit.

Usage: python benchmarks/run.py estimator            (or ``make bench-estimator``)
       python benchmarks/estimator.py [--write]      every comparison; --write keeps the errors
       python benchmarks/estimator.py DEVICE...      published measurements of these devices alone

Measured tables lie in ../shared/data and are no part of the project; what they would show is
left out where they are absent. All points are compared, but those that break physics, which are
told with the reason.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from figures import Figure, print_figures
from held_out import BOARD, HOST, HeldOut, hold_out
from public_runs import ML_ENERGY, NEUSIGHT, read_public_runs
from published_predictions import predict_run
from published_runs import ReferencePoints, read_h200_runs, read_reference_points
from rich.console import Console
from rich.table import Table
from unseen_networks import NETWORKS, unseen_errors

from joulelab.csv_table import read_csv_table
from joulelab.estimator.calibration.anchors import read_anchors
from joulelab.estimator.calibration.fit import Calibration, calibrate
from joulelab.estimator.pricing.predict import HELD_OUT_ERRORS, HOST_BOUND
from joulelab.estimator.validation import (
    Comparison,
    MeasuredRun,
    Summary,
    Validation,
    summaries,
    summary,
    validate,
)
from joulelab.hardware.places import ALIASES
from joulelab.hardware.processors import PROCESSORS

_ROOT = Path(__file__).parents[1]
_ANCHORS = _ROOT / "experiments" / "results" / "h200_anchors" / "anchors.csv"
_DATA = _ROOT.parent / "shared" / "data"
_FREE = (
    HOST,
    BOARD,
    *(f"timing.kind_efficiency.{kind}" for kind in ("conv", "norm", "elementwise")),
)
"""What micro-benchmarks on another host and board cannot say: the host, the gain of the board's
sensor, and how far kernels in a network stay behind the same kernel run over and over."""
_UNSEEN = "networks that no fit has seen, on {} boards{}; time is {:+.0%} on average"
_WATCHED = " while others slowed the host's core for a fifth of the time at most"
_H100, _H200 = (NETWORKS.parents[1] / f"{name}_networks" for name in ("h100", "h200"))
_LAST, _RECURRENT, _HOSTS = (
    _H200.with_name(f"h200_{name}") for name in ("channels_last", "recurrent", "hosts")
)
_Boards = Sequence[tuple[Path, str | Path | None]]
_BOARDS: Mapping[str, _Boards] = {
    "h200_sxm": (
        (NETWORKS, None),
        *((_H200 / f"{name}.csv", None) for name in ("third", "fourth", "fourth_later")),
        *((_H200 / f"{name}.csv", None) for name in ("fifth", "sixth", "seventh")),
        *((folder / "unseen.csv", None) for folder in (_LAST, _RECURRENT)),
        *(
            (_HOSTS / f"{name}.csv", _HOSTS / f"{name}_host.toml")
            for name in ("first", "second", "third", "fourth", "fifth", "sixth")
        ),
    ),
    "h100_sxm": (
        (_H100 / "networks.csv", _H100 / "host.toml"),
        (_H100 / "second.csv", _H100 / "second_host.toml"),
        (_H100 / "third.csv", _H100 / "third_host.toml"),
    ),
}
"""Tables of unseen networks, and the host that each was measured on, just before, if it was."""
_CONSOLE = Console(width=120)
_A100, _L4 = ("a100_sxm", "a100_pcie"), ("l4",)


def figures() -> list[Figure]:
    """Return the figures; prints every comparison on the way."""
    _print_micro_benchmarks(calibrate(PROCESSORS["h200_sxm"], read_anchors(_ANCHORS)))
    if not _DATA.is_dir():
        _CONSOLE.print(f"No measured networks at {_DATA}; left out.")
        return _public_figures(validate(read_public_runs(), predict=predict_run))
    held_out, anchored = _h200()
    points, compared = _reference()
    return [
        *_h200_figures(held_out, anchored),
        *_reference_figures(compared, points),
        *_public_figures(compared),
    ]


def _print_micro_benchmarks(calibration: Calibration) -> None:
    """Print in-sample errors, for which there is no goal."""
    num_graphs = sum(one.anchor.mode == "graph" for one in calibration.residuals)
    _CONSOLE.print(
        f"{num_graphs} micro-benchmarks on one H200, {len(calibration.rejected)} refused: "
        f"{calibration.time_error:.1%} of time, {calibration.energy_error:.1%} of energy, in-sample"
    )


def _h200() -> tuple[HeldOut, Validation]:
    runs = read_h200_runs(_DATA / "h200_workloads.csv")
    anchored = validate(runs, predict=predict_run)
    held_out = hold_out(PROCESSORS["h200_sxm"], runs, _FREE)
    _print_comparisons("H200, each family held out", held_out.comparisons)
    _print_comparisons("H200, micro-benchmarks alone", anchored.comparisons)
    _print_summaries("H200, micro-benchmarks alone", anchored, lambda run: (run.family,))
    _print_summaries(
        "H200, each family held out",
        Validation(comparisons=held_out.comparisons, rejected={}),
        lambda run: (run.family,),
    )
    return held_out, anchored


def _reference(devices: Sequence[str] = ()) -> tuple[ReferencePoints, Validation]:
    points = read_reference_points(_DATA / "estimator_reference_points.csv")
    known = (*points.runs, *read_public_runs())
    chosen = [run for run in known if not devices or run.device in devices]
    compared = validate(chosen, predict=predict_run)
    _print_summaries(
        "Published measurements, nothing fitted",
        compared,
        lambda run: (run.source, run.device, run.scenario, run.scope),
    )
    _print_summaries("Published measurements, by device", compared, lambda run: (run.device,))
    for reason, count in sorted(points.left_out.items()):
        _CONSOLE.print(f"left out {count:4d}: {reason}", highlight=False)
    for reason, count in Counter(compared.rejected.values()).items():
        _CONSOLE.print(f"refused {count:4d}: {reason}", highlight=False)
    return points, compared


def _h200_figures(held_out: HeldOut, anchored: Validation) -> list[Figure]:
    held, plain = summary(held_out.comparisons), summary(anchored.comparisons)
    how = f"{held.num_points} runs of 5 families, each predicted without its own"
    alone = f"micro-benchmarks alone: {_percent(plain.time_mape)} time, "
    alone += f"{_percent(plain.energy_mape)} energy"
    return [
        _error("time of networks on the H200", held.time_mape, 15.0, f"{how}; {alone}"),
        _error("energy of networks on the H200", held.energy_mape, 13.0, f"{how}; {alone}"),
    ]


def _reference_figures(compared: Validation, points: ReferencePoints) -> list[Figure]:
    timed = [one for one in compared.comparisons if one.time_error is not None]
    of_a100, of_l4 = (
        summary([one for one in timed if one.run.device in devices]) for devices in (_A100, _L4)
    )
    everything = summary(compared.comparisons)
    return [
        _error("time on A100", of_a100.time_mape, 20.0, _told(of_a100)),
        _error("time on L4", of_l4.time_mape, 20.0, _told(of_l4)),
        Figure(
            name="largest estimate of a device over the energy of its whole host",
            measured=everything.largest_share_of_wall or 0.0,
            promised=1.0,
            unit="x",
            how=f"MLPerf Inference with power; {sum(points.left_out.values())} points left out",
        ),
    ]


def _public_figures(compared: Validation) -> list[Figure]:
    """Return the errors on the runs of ``public/``, of which nothing was fitted."""
    networks, images = (
        [one for one in compared.comparisons if one.run.source == source]
        for source in (NEUSIGHT, ML_ENERGY)
    )
    whole, pictures = summary(networks), summary(images)
    by_device = {one.label[0]: one for one in summaries(networks, lambda run: (run.device,))}
    return [
        _error("time of fp32 networks, five GPUs", whole.time_mape, 8.0, _told(whole)),
        *(
            _error(f"time of fp32 networks, {device}", one.time_mape, 12.0, _told(one))
            for device, one in by_device.items()
        ),
        _error("energy of images, A100", pictures.energy_mape, 15.0, f"{len(images)} published"),
    ]


def _told(found: Summary) -> str:
    return f"{found.num_points} published points, median error {_percent(found.time_median)}"


def _error(name: str, error: float | None, promised: float, how: str) -> Figure:
    measured = float("inf") if error is None else 100 * error
    return Figure(name=name, measured=measured, promised=promised, unit="% MAPE", how=how)


def _print_comparisons(title: str, comparisons: Sequence[Comparison]) -> None:
    table = Table("run", "time", "estimate", "error", "energy", "estimate", "error", title=title)
    for one in comparisons:
        table.add_row(
            one.run.name,
            f"{1e3 * (one.run.time_s or 0):.4g} ms",
            f"{1e3 * one.predicted.time_s:.4g} ms",
            _percent(one.time_error),
            f"{one.run.energy_j or 0:.4g} J",
            f"{one.predicted.energy_j:.4g} J",
            _percent(one.energy_error),
        )
    _CONSOLE.print(table)


def _print_summaries(
    title: str, compared: Validation, label: Callable[[MeasuredRun], tuple[str, ...]]
) -> None:
    columns = ("n", "time MAPE", "median", "energy MAPE", "median", "of the wall")
    table = Table("what", *columns, title=title)
    for one in summaries(compared.comparisons, label):
        table.add_row(
            " ".join(one.label).replace("Inference ", ""),
            str(one.num_points),
            *(_percent(value) for value in (one.time_mape, one.time_median)),
            *(_percent(value) for value in (one.energy_mape, one.energy_median)),
            _percent(one.largest_share_of_wall),
        )
    _CONSOLE.print(table)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _write() -> None:
    """Keep the errors that estimates are shown with: those of the constants that are shipped."""
    entries: dict[str, tuple[Sequence[Comparison], str]] = {}
    for device, boards in _BOARDS.items():
        entries |= _unseen_entries(device, boards)
    _, compared = _reference()
    for device in sorted({one.run.device for one in compared.comparisons} - set(_BOARDS)):
        chosen = [
            one
            for one in compared.comparisons
            if one.run.device == device and one.time_error is not None
        ]
        entries[device] = (chosen, "published measurements, nothing fitted")
    Path(str(HELD_OUT_ERRORS)).write_text(
        "".join(_entry(key, *entry) for key, entry in entries.items())
    )


def _num_boards(tables: _Boards) -> int:
    rows = (row for table, _ in tables for row in read_csv_table(table, columns=("uuid",)))
    return len({row["uuid"] for row in rows})


def _unseen_entries(device: str, boards: _Boards) -> dict[str, tuple[Sequence[Comparison], str]]:
    """Return what is said where the device sets the time, and where a host does, known or not."""
    on_known = [(table, host) for table, host in boards if host is not None]
    unknown = [one for table, _ in boards for one in unseen_errors(table, device)]
    known = [one for table, host in on_known for one in unseen_errors(table, device, str(host))]
    of_host = [one for one in unknown if one.launch_share >= HOST_BOUND]
    of_known = [one for one in known if one.launch_share >= HOST_BOUND]
    of_device = [one for one in unknown if one.launch_share < HOST_BOUND]
    is_watched = all(one.measured.disturbed is not None for one in of_known)
    found = {
        device: (of_device, boards, ""),
        f"{device}.unknown_host": (of_host, boards, ""),
        f"{device}.known_host": (of_known, on_known, _WATCHED if is_watched else ""),
    }
    return {
        name: (
            [one.comparison for one in errors],
            _UNSEEN.format(_num_boards(tables), where, fmean(one.time for one in errors)),
        )
        for name, (errors, tables, where) in found.items()
    }


def _entry(device: str, comparisons: Sequence[Comparison], note: str) -> str:
    found = summary(comparisons)
    lines = [f"[{device}]", f"num_points = {found.num_points}", f'note = "{note}"']
    errors = (("time_error", found.time_mape), ("energy_error", found.energy_mape))
    lines += [f"{name} = {error:.3f}" for name, error in errors if error is not None]
    return "\n".join([*lines, "", ""])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        _write()
    elif sys.argv[1:]:
        _reference([ALIASES.get(name, name) for name in sys.argv[1:]])
    else:
        print_figures(figures())
