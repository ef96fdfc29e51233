"""How the recommended power model compares with its members and with rules that need no model.

Usage: python benchmarks/recommended_model.py [--data FOLDER] [--only WORD ...]

A row is a table of ../shared/data that was held out: every application of a table in turn, or a
whole source or board of others; or one of public/ that is in no fit: of a Turing board, of a V100
PCIe and of four HPC codes on an A100. Each held-out application is measured once, at the default
clock, or there and at 0.6 of it; what was measured is not scored. Regret is the EDP at the chosen
clock over that at the best measured point, which is best by luck as well, for all alike; smoothed,
over that of the best of the sweep without its scatter. In the last column are the paired
differences of regrets over applications, the recommended model less the other, with 95 % intervals
(bootstrap). The recommended model chooses as it does for its users, by a fixed clock ratio where
models have been no better.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from model_transfer import joined
from power_models import DATA_SETS
from rich.console import Console
from rich.table import Table
from smoothing import smoothed_regret

from joulelab.power_models.calibration import SECOND_POINT
from joulelab.power_models.decision import Sweep, best_fixed_ratios, measured_sweep, regret
from joulelab.power_models.members.stacked import StackedModel
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import Queries, queries_of
from joulelab.power_models.readers import read_csv
from joulelab.power_models.runs import Array, Flags, Runs
from joulelab.power_models.validation import WARM

_DATA = Path(__file__).parents[2] / "shared" / "data"
_PUBLIC = Path(__file__).parent / "public"
_CONSOLE = Console(width=140)
_ANCHORS = (WARM, (1.0, SECOND_POINT))
_QUADRATIC = (1.0, 0.8, 0.6)
_LEVEL = 0.9
_STACKED, _FIXED = "stacked", "fixed clock"
_SIMPLE = ("mean", "random_forest", _FIXED)
_REPLAYS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """What is held out of some tables, and what is trained on."""

    name: str
    trained: Runs
    tested: Runs


@dataclass(slots=True)
class Scores:
    """Scores of one who chooses, by application.

    Attributes:
        power: Mean error of power, relative; not a number for a rule without a model.
        time: The same of time.
        regret: EDP at the chosen clock over the least measured one, less 1.
        smoothed: The same against the best of the sweep without its scatter.
        covered: Share of powers within 90 % intervals; empty where there are none.
    """

    power: list[float] = field(default_factory=list)
    time: list[float] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)
    smoothed: list[float] = field(default_factory=list)
    covered: list[float] = field(default_factory=list)


def main(folder: Path, only: Sequence[str]) -> None:
    """Print a table for each choice of anchors and each held-out table."""
    tables = [data.read(folder) for data in DATA_SETS]
    found: dict[tuple[str, tuple[float, ...]], dict[str, Scores]] = {}
    for case in _cases(*tables):
        if only and not any(word in case.name for word in only):
            continue
        model = OperatingModel(power=StackedModel(), time=StackedModel("time_s")).fit(case.trained)
        for anchors in _ANCHORS:
            scores = found.setdefault((case.name, anchors), {})
            _score(case, model, anchors, scores)
        _CONSOLE.print(f"scored {case.name}", style="dim")
    for (name, anchors), scores in found.items():
        _print(name, anchors, scores)


def _cases(hpc: Runs, llm: Runs, inference: Runs) -> Iterator[HeldOut]:
    on_a100 = llm.gpu == "A100-SXM4-80GB"
    stages, a40 = llm.select(on_a100), llm.select(~on_a100)
    turing, v100 = read_csv(_PUBLIC / "quadro_rtx_8000.csv"), read_csv(_PUBLIC / "v100_pcie.csv")
    each_of = {
        "HPC, each application": hpc,
        "LLM stages A100, each": stages,
        "Turing, each": turing,
        "V100 PCIe, each": v100,
    }
    for name, runs in each_of.items():
        for _, application in runs.pairs:
            mine = runs.application == application
            yield HeldOut(name=name, trained=runs.select(~mine), tested=runs.select(mine))
    codes = read_csv(_PUBLIC / "a100_hpc_codes.csv")
    yield HeldOut(name="HPC codes, from HPC", trained=hpc, tested=codes)
    yield HeldOut(name="HPC, from LLM stages", trained=llm, tested=hpc)
    yield HeldOut(name="LLM stages A100, from HPC", trained=hpc, tested=stages)
    yield HeldOut(name="A40, from both A100", trained=joined(hpc, stages), tested=a40)
    yield HeldOut(name="AI inference, from all others", trained=joined(hpc, llm), tested=inference)
    yield HeldOut(
        name="Turing, from all others", trained=joined(hpc, llm, inference), tested=turing
    )


def _score(
    case: HeldOut, model: OperatingModel, anchors: tuple[float, ...], scores: dict[str, Scores]
) -> None:
    queries = queries_of(case.tested)
    anchored = queries.nearest(anchors)
    measured = case.tested.select(anchored)
    trained = case.trained
    fixed = best_fixed_ratios(queries_of(trained), trained.power_w, trained.time_s)["edp"]
    for who, one in by_member(model).items():
        adapted = one.adapt(measured, profiled=case.tested)
        mine = scores.setdefault(who, Scores())
        power_w = adapted.predict(queries, "power_w")
        time_s = adapted.predict(queries, "time_s")
        _add_errors(mine, case.tested, anchored, power_w, time_s)
        _add_choices(mine, case.tested, adapted)
        if who == _STACKED and len(set(case.trained.application)) > 1 / (1 - _LEVEL):
            _add_covered(mine, case.tested, anchored, adapted, queries)
    rule = scores.setdefault(_FIXED, Scores())
    bent = scores.setdefault(f"quadratic, {len(_QUADRATIC)} points", Scores())
    for pair, rows in case.tested.by_pair():
        one_run = case.tested.select(rows)
        default_mhz = one_run.sm_clock_mhz[one_run.profile_row(*pair)]
        _add_choice(rule, one_run, fixed * default_mhz)
        power_w, time_s = _bent(one_run)
        _add_errors(bent, one_run, queries_of(one_run).nearest(_QUADRATIC), power_w, time_s)
        curve = Sweep(sm_clock_mhz=one_run.sm_clock_mhz, power_w=power_w, time_s=time_s)
        _add_choice(bent, one_run, float(curve.sm_clock_mhz[curve.best("edp")]))


def by_member(model: OperatingModel) -> Mapping[str, OperatingModel]:
    """Return the model and its members."""
    found = {_STACKED: model}
    if isinstance(model.power, StackedModel) and isinstance(model.time, StackedModel):
        for power, time in zip(model.power.members, model.time.members, strict=True):
            found[power.name] = OperatingModel(power=power, time=time)
    return found


def _add_errors(
    scores: Scores, tested: Runs, measured: Flags, power_w: Array, time_s: Array
) -> None:
    for _, rows in tested.by_pair():
        kept = rows[~measured[rows]]
        scores.power.append(float(np.abs(power_w[kept] / tested.power_w[kept] - 1.0).mean()))
        scores.time.append(float(np.abs(time_s[kept] / tested.time_s[kept] - 1.0).mean()))


def _add_choices(scores: Scores, tested: Runs, model: OperatingModel) -> None:
    for _, rows in tested.by_pair():
        one_run = tested.select(rows)
        choice = model.choose(queries_of(one_run), "edp")
        _add_choice(scores, one_run, float(one_run.sm_clock_mhz[choice.row]))


def _add_choice(scores: Scores, one_run: Runs, chosen_mhz: float) -> None:
    measured = measured_sweep(one_run)
    scores.regret.append(regret(measured, chosen_mhz, "edp"))
    scores.smoothed.append(smoothed_regret(measured, chosen_mhz, "edp"))


def _add_covered(
    scores: Scores, tested: Runs, measured: Flags, model: OperatingModel, queries: Queries
) -> None:
    lower, upper = model.predict_interval(queries, "power_w", _LEVEL)
    inside = (lower <= tested.power_w) & (tested.power_w <= upper)
    scores.covered += [float(inside[r[~measured[r]]].mean()) for _, r in tested.by_pair()]


def _bent(tested: Runs) -> tuple[Array, Array]:
    """Return power and time by parabolas through the logs of three measured points."""
    queries = queries_of(tested)
    known = queries.nearest(_QUADRATIC)
    found = []
    for values in (tested.power_w, tested.time_s):
        degree = min(2, int(known.sum()) - 1)
        curve = np.polyfit(queries.clock_ratio[known], np.log(values[known]), degree)
        found.append(np.exp(np.polyval(curve, queries.clock_ratio)))
    return found[0], found[1]


def _print(name: str, anchors: tuple[float, ...], scores: Mapping[str, Scores]) -> None:
    at = ", ".join(f"{anchor:g}" for anchor in anchors)
    num = len(scores[_STACKED].regret)
    table = Table(
        *("who", "power", "time", "EDP regret", "worst", "smoothed", "worst", "coverage"),
        "stacked less it, 95 %",
        title=f"{name}: n = {num}, measured at {at}",
    )
    for who, each in scores.items():
        off = np.array(scores[_STACKED].regret) - np.array(each.regret)
        table.add_row(
            who,
            _percent(np.mean(each.power)) if each.power else "",
            _percent(np.mean(each.time)) if each.time else "",
            _percent(np.mean(each.regret)),
            _percent(np.max(each.regret)),
            _percent(np.mean(each.smoothed)),
            _percent(np.max(each.smoothed)),
            f"{np.mean(each.covered):.2f}" if each.covered else "",
            "" if who == _STACKED else _difference(off),
        )
    _CONSOLE.print(table)


def _difference(off: Array) -> str:
    drawn = np.random.default_rng(0).choice(off, (_REPLAYS, len(off))).mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return f"{100 * off.mean():+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"


def _percent(share: float | np.floating) -> str:
    return f"{100 * share:.2f} %"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=_DATA, help="folder of measured tables")
    parser.add_argument("--only", nargs="*", default=(), help="parts of names")
    chosen = parser.parse_args()
    main(chosen.data, chosen.only)
