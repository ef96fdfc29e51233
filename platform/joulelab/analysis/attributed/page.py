"""An attribution as plots, as one HTML page, as files, and as a run in MLflow."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from joulelab.analysis.attributed import numbers, table
from joulelab.analysis.attributed.generation import Answer, answers
from joulelab.analysis.page import render
from joulelab.analysis.quantities import brief, si_scale
from joulelab.analysis.style import CAPPED, GRID, INK, MUTED, in_style, note, themed_svg, tidy
from joulelab.attribution.attribution import GAPS, UNEXPLAINED, Attribution, Phase
from joulelab.attribution.components import COMPONENTS, component_of, layer_of
from joulelab.attribution.variants import Variant
from joulelab.core.device import board_words
from joulelab.tracing.program import LINKS_AWAKE
from joulelab.tracking.durable import write_whole


def page(found: Attribution, clocks: Sequence[tuple[str, Attribution]] = ()) -> str:
    """Return the page of an attribution, with what ``clocks`` has of other points beside it."""
    knobs = " ".join(f"{name}={value}" for name, value in found.knobs.items())
    made = found.provenance
    return render(
        "attributed/page.html.j2",
        title=f"{found.program}: where the joules go",
        found=found,
        has_supposed=any(share.is_supposed for one in found.phases for share in one.by_kernel),
        words=table,
        draw={
            "icicle": icicle_figure,
            "depth": depth_figure,
            "beside": beside_figure,
            "answers": answer_figure,
        },
        beside=table.beside(found) | table.over_clocks(clocks),
        answers=answers(found),
        svg=themed_svg,
        origin=f"{found.program} {knobs}; {board_words(found.device)} ({found.device.uuid}), host "
        f"{made.hostname}; joulelab {made.joulelab_version}, commit {made.git_sha or 'unknown'}, "
        f"{made.started_at}",
    )


EXPERIMENT = "joulelab attribution"  # name of the MLflow experiment


def write_all(found: Attribution, folder: Path) -> tuple[Path, Path, Path]:
    """Write the page, the parts as CSV and everything as JSON; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / f"attribution.{kind}" for kind in ("html", "csv", "json"))
    write_whole(paths[0], page(found).encode())
    numbers.frame(found).write(paths[1])
    write_whole(paths[2], (json.dumps(numbers.content(found), indent=1) + "\n").encode())
    return paths[0], paths[1], paths[2]


def deliver(found: Attribution, uri: str, file: Path) -> None:
    """Log an attribution as a run with shares of components as metrics and a file.

    Raises TrackingError if the store does not answer, or refuses something.
    """
    from joulelab.tracking.mlflow_store import usable_uri
    from joulelab.tracking.mlflow_tracker import FinishedRun, log_run

    made = found.provenance
    ended = FinishedRun(
        experiment=EXPERIMENT,
        name=found.program,
        started_at=made.started_at,
        duration_s=found.seconds,
        params={"workload": found.program, "method": found.method, **found.knobs},
        metrics=metrics_of(found),
        tags={
            "gpu": found.device.name,
            "gpu_uuid": found.device.uuid,
            "gpu_backend": found.device.backend,
            "provenance.hostname": made.hostname,
            "provenance.joulelab_version": made.joulelab_version,
        },
        file=file,
        succeeded=all(phase.is_reconciled for phase in found.phases),
    )
    log_run(usable_uri(uri), ended)


def metrics_of(found: Attribution) -> dict[str, float]:
    """Return energies and closures of an attribution under names that MLflow takes."""
    metrics = {"static_w": found.static_w}
    for phase in found.phases:
        name, work = phase.phase, phase.profile.work
        metrics[f"{name}.energy_per_unit_j"] = phase.energy_j / work
        metrics[f"{name}.closure"] = phase.closure
        for rank, board in enumerate(phase.boards):
            metrics[f"{name}.gpu{rank}.energy_per_unit_j"] = board.energy_j / work
            metrics[f"{name}.gpu{rank}.closure"] = board.closure
        for share in phase.by_component:
            part = share.name.replace(" ", "_")
            metrics[f"{name}.{part}.energy_per_unit_j"] = share.energy_j / work
    for variant, phases in found.variants:
        for phase in phases:
            metrics[f"{phase.phase}.{_metric(variant)}.energy_per_unit_j"] = (
                phase.energy_j / phase.profile.work
            )
    return metrics


def _metric(variant: Variant) -> str:
    """Name a variant with what names of metrics may hold."""
    if variant.context_tokens is not None:
        return f"context_{variant.context_tokens}"
    named = "_".join(f"{name}_{value}" for name, value in variant.knobs.items())
    return re.sub(r"[^\w./-]", "-", named)


_SMALLEST = 0.004  # parts below this share of the whole are drawn without a name of their own
_LETTERS = 150.0  # letters that a row as wide as the figure has room for


class _Box(NamedTuple):
    left: float
    width: float
    name: str
    energy_j: float
    colour: str


@in_style
def icicle_figure(phase: Phase) -> Figure:
    """Draw the energy of a phase as widths: the whole, its components, their operators."""
    figure = Figure(figsize=(11.0, 3.0))
    figure.subplots_adjust(left=0.02, right=0.98, top=0.86, bottom=0.04)
    axes = figure.add_subplot()
    shares = [share for share in phase.by_component if share.energy_j > 0]
    inks = colours([share.name for share in shares])
    whole_j = sum(share.energy_j for share in shares)
    left, components, operators = 0.0, [], []
    for share in shares:
        width = share.energy_j / whole_j
        components.append(_Box(left, width, share.name, share.energy_j, inks[share.name]))
        operators += _operators(phase, components[-1], whole_j)
        left += width
    _draw(axes, 2, [_Box(0.0, 1.0, phase.phase, phase.energy_j, GRID)], phase)
    _draw(axes, 1, components, phase)
    _draw(axes, 0, operators, phase)
    axes.set(xlim=(0, 1), ylim=(-0.05, 3.0))
    axes.set_axis_off()
    axes.set_title(
        f"Where the energy of {phase.phase} goes", loc="left", fontsize=10.5, fontweight="bold"
    )
    return figure


def _operators(phase: Phase, component: _Box, whole_j: float) -> list[_Box]:
    """Return the operators of a component, most energy first, below it."""
    shares = phase.shares(
        lambda call: call.operator.name if component_of(call.operator) == component.name else ""
    )
    boxes, left = [], component.left
    for share in shares:
        if share.name:
            width = share.energy_j / whole_j
            boxes.append(_Box(left, width, share.name, share.energy_j, component.colour))
            left += width
    return boxes


def _draw(axes: Axes, row: int, boxes: Sequence[_Box], phase: Phase) -> None:
    for box in boxes:
        axes.add_patch(
            Rectangle(
                (box.left, row),
                box.width,
                0.94,
                facecolor=box.colour,
                edgecolor="white",
                linewidth=0.6,
                alpha=0.55 if row == 0 else 0.85,
            )
        )
        if box.width > _SMALLEST:
            _name(axes, row, box, phase)


def _name(axes: Axes, row: int, box: _Box, phase: Phase) -> None:
    energy = brief(box.energy_j / phase.profile.work, f"J/{phase.unit}")
    share = f"{box.energy_j / phase.energy_j:.0%}"
    room = int(box.width * _LETTERS)
    name = wrap(box.name, max(room, 1), break_long_words=False)
    if max(map(len, name)) > room or len(name) > 3:
        return
    text = "\n".join([*name, *(line for line in (energy, share) if len(line) <= room)])
    axes.text(
        box.left + box.width / 2, row + 0.47, text, ha="center", va="center", fontsize=8, color=INK
    )


# Okabe and Ito, and Tol's muted ones for more than they have.
_COLOURS = (
    *("#56b4e9", "#0072b2", "#009e73", "#f0e442", "#d55e00", "#cc79a7", "#e69f00", "#332288"),
    *("#44aa99", "#999933", "#882255", "#aa4499", "#ddcc77", "#88ccee", "#cc6677", "#117733"),
    "#6699cc",
)


def colours(components: Sequence[str]) -> Mapping[str, str]:
    """Return a colour for each component, the same in all plots."""
    named = {name: _COLOURS[place] for place, name in enumerate(COMPONENTS)}
    others = [name for name in components if name not in named]
    named |= {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(others)}
    return {**named, GAPS: CAPPED, UNEXPLAINED: GRID}


@in_style
def depth_figure(phase: Phase) -> Figure:
    """Draw the energy of every layer, one after the other, by component."""
    order = list(dict.fromkeys(layer_of(call.operator) for call in phase.profile.calls))
    shares = phase.shares(lambda call: f"{layer_of(call.operator)}\n{component_of(call.operator)}")
    bars: dict[str, dict[str, float]] = {layer: {} for layer in order}
    for share in shares:
        layer, component = share.name.split("\n")
        if component != LINKS_AWAKE:  # as much as some layers, and of none
            bars[layer][component] = share.energy_j / phase.profile.work
    title = f"Energy over the depth of {phase.phase}"
    figure, axes = _stacked(list(bars.values()), title, phase.unit, "layer")
    places = list(range(0, len(order), max(1, len(order) // 24)))
    names = [order[place].rpartition(".")[2] if order[place] else "-" for place in places]
    axes.set_xticks(places, names)
    if "" in order:
        at = (0.0, 1.0), (90, 5)
        note(axes, f"- {table.OUTSIDE}", *at, xycoords="axes fraction", color=MUTED)
    return figure


@in_style
def beside_figure(phases: Mapping[str, Phase], title: str) -> Figure:
    """Draw phases that are named beside each other, by component."""
    bars = [
        {share.name: max(share.energy_j, 0.0) / phase.profile.work for share in phase.by_component}
        for phase in phases.values()
    ]
    unit = next(iter(phases.values())).unit
    figure, axes = _stacked(bars, title, unit, "")
    axes.set_xticks(range(len(bars)), list(phases))
    return figure


@in_style
def answer_figure(longer: Sequence[Answer]) -> Figure:
    """Draw answers of several lengths, by component."""
    bars = [{name: max(joules, 0.0) for name, (joules, _) in each.parts.items()} for each in longer]
    figure, axes = _stacked(bars, table.ANSWERS, "answer", "")
    axes.set_xticks(range(len(bars)), [f"{each.tokens}" for each in longer])
    return figure


def _stacked(
    bars: Sequence[Mapping[str, float]], title: str, unit: str, along: str
) -> tuple[Figure, Axes]:
    """Draw bars of parts, in joules per ``unit``, one above the other."""
    components = list(dict.fromkeys(name for bar in bars for name in bar))
    inks = colours(components)
    scale, prefix = si_scale([joules for bar in bars for joules in bar.values()])
    figure = Figure(figsize=(11.0, 3.4))
    figure.subplots_adjust(left=0.06, right=0.8, top=0.82, bottom=0.2)
    axes = figure.add_subplot()
    base = [0.0] * len(bars)
    for component in components:
        heights = [scale * bar.get(component, 0.0) for bar in bars]
        axes.bar(range(len(bars)), heights, bottom=base, color=inks[component], label=component)
        base = [low + height for low, height in zip(base, heights, strict=True)]
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    tidy(axes, title, f"{prefix}J/{unit}", along)
    axes.grid(visible=False, axis="x")
    return figure, axes
