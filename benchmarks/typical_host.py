"""How near estimates come behind a host that nobody measured: the floor that hosts' spread sets.

Usage: python benchmarks/typical_host.py [--num 50]

Networks that no fit has ran behind six hosts. The typical host is made faster and slower as a
whole. For each host in turn, the factor is taken that makes the sum of the errors of time and
energy least in the mean over the five others; beside it stand the errors as shipped, and those
with the factor that fits this host best, which only who measured it can know. ``--num`` takes so
many cases at random, since a case is traced in seconds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from unseen_networks import NETWORKS, Measured, read_measured

from joulelab.estimator.pricing import predict
from joulelab.estimator.question import Question, Tracer
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import HOSTS, TYPICAL, Host, on_host

Array = NDArray[np.float64]
_PRICED = np.geomspace(0.5, 2.0, 13)
FACTORS = np.geomspace(0.5, 2.0, 61)
"""Of the typical host's times, from half to twice; 1 is among them."""
_RESULTS = NETWORKS.parents[1]
_TABLES = {
    "H200, first": ("h200", ("networks",)),
    "H200, third": ("h200", ("third",)),
    "H200, fourth": ("h200", ("fourth", "fourth_later")),
    "H100, first": ("h100", ("networks",)),
    "H100, second": ("h100", ("second",)),
    "H100, third": ("h100", ("third",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How many cases, at random; all by default."""

    num: int | None = None


def main(settings: Settings) -> None:
    """Print errors of each host, as shipped, as others would have it, and at best."""
    found = errors(settings.num)
    shipped = int(np.abs(np.log(FACTORS)).argmin())
    table = Table("host", "n", "as shipped", "by the others", "factor", "by itself", "factor")
    chosen = []
    for host, (num, curves) in found.items():
        others = sum(other for name, (_, other) in found.items() if name != host)
        places = (shipped, int(others.sum(axis=0).argmin()), int(curves.sum(axis=0).argmin()))
        chosen.append([curves[:, place] for place in places])
        shown = [_shown(errors) for errors in chosen[-1]]
        by = [f"{FACTORS[place]:.2f}" for place in places]
        table.add_row(host, str(num), shown[0], shown[1], by[1], shown[2], by[2])
    means = [_shown(errors) for errors in np.mean(chosen, axis=0)]
    table.add_row("mean over hosts", "", means[0], means[1], "", means[2], "")
    Console(width=110).print(table)


def _shown(errors: Sequence[float]) -> str:
    return " / ".join(f"{100 * error:.1f} %" for error in errors)


def errors(num: int | None) -> dict[str, tuple[int, Array]]:
    """Return how many cases each host has, and mean errors of time and energy by factor."""
    cases = {host: list(_unseen(*tables)) for host, tables in _TABLES.items()}
    names = sorted({one.run.name for one in chain(*cases.values())})
    Random(0).shuffle(names)  # noqa: S311 - a sample, not a secret
    found: dict[str, list[Array]] = defaultdict(list)
    for name in names[:num]:
        of_name = {h: one for h, those in cases.items() for one in those if one.run.name == name}
        for host, sizes in _errors(of_name):
            found[host].append(sizes)
    return {host: (len(those), np.mean(those, axis=0)) for host, those in found.items()}


def _unseen(gpu: str, names: Iterable[str]) -> Iterator[Measured]:
    for name in names:
        table = _RESULTS / f"{gpu}_networks" / f"{name}.csv"
        yield from (one for one in read_measured(table, f"{gpu}_sxm") if not one.seen)


def _errors(cases: Mapping[str, Measured]) -> Iterator[tuple[str, Array]]:
    """Yield the sizes of errors of one case behind each host, as (time and energy, factors)."""
    one = next(iter(cases.values())).run
    devices = sorted({each.run.device for each in cases.values()})
    question = Question(
        models=(one.model,),
        devices=tuple(devices),
        precisions=(one.precision,),
        batches=(one.batch,),
        mode=one.mode,
        training=one.scenario == "train",
        knobs=one.knobs,
    )
    combinations = {each.processor.key: each for each in question.combinations()}
    tracer = Tracer(question)
    traced = tracer.of(combinations[devices[0]])
    for host, case in cases.items():
        run = case.run
        priced = predict.totals(
            traced, list(_scaled(combinations[run.device].processor)), mode=run.mode
        )
        phase = priced.phases.index(run.scenario)
        per_case = np.array([priced.latency_s[:, 0, phase], priced.energy_j[:, 0, phase]])
        per_case /= case.num_executions * np.array([[run.time_s], [run.energy_j]])
        logs = [np.interp(np.log(FACTORS), np.log(_PRICED), row) for row in np.log(per_case)]
        yield host, np.abs(np.expm1(np.array(logs)))


def _scaled(processor: Processor) -> Iterator[Processor]:
    typical: Host = HOSTS[TYPICAL]
    for factor in _PRICED:
        times = {name: factor * one for name, one in typical.operator_s.items()}
        yield on_host(
            processor, replace(typical, operator_s=times, module_s=factor * typical.module_s)
        )


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
