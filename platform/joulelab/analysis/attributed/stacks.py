"""Stacked charts of components: over the depth of a network, and over the length of a context."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulelab.analysis.attributed.table import OUTSIDE
from joulelab.analysis.quantities import si_scale
from joulelab.analysis.style import CAPPED, GRID, MUTED, in_style, note, tidy
from joulelab.attribution.attribution import GAPS, UNEXPLAINED, Phase
from joulelab.attribution.components import COMPONENTS, component_of, layer_of
from joulelab.tracing.program import LINKS_AWAKE

# Okabe and Ito, and Tol's muted ones for more than they have.
_COLOURS = (
    *("#56b4e9", "#0072b2", "#009e73", "#f0e442", "#d55e00", "#cc79a7", "#e69f00", "#332288"),
    *(
        "#44aa99",
        "#999933",
        "#882255",
        "#aa4499",
        "#ddcc77",
        "#88ccee",
        "#cc6677",
        "#117733",
        "#6699cc",
    ),
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
    figure, axes, prefix = _stacked(list(bars.values()))
    title = f"Energy over the depth of {phase.phase}"
    _entitle(axes, title, f"{prefix}J/{phase.unit}", "layer")
    _name_layers(axes, order)
    return figure


@in_style
def context_figure(contexts: Mapping[int, Phase]) -> Figure:
    """Draw the energy of a generated token after contexts of several lengths, by component."""
    bars = {
        tokens: {
            share.name: max(share.energy_j, 0.0) / phase.profile.work
            for share in phase.by_component
        }
        for tokens, phase in contexts.items()
    }
    figure, axes, prefix = _stacked(list(bars.values()))
    phase = next(iter(contexts.values()))
    title = f"Energy of {phase.phase} over the length of the context"
    _entitle(axes, title, f"{prefix}J/{phase.unit}", "tokens of context")
    axes.set_xticks(range(len(bars)), [f"{tokens}" for tokens in bars])
    return figure


def _stacked(bars: Sequence[Mapping[str, float]]) -> tuple[Figure, Axes, str]:
    """Draw bars of parts, in joules, one above the other; return the prefix of the unit, too."""
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
    return figure, axes, prefix


def _entitle(axes: Axes, title: str, energy: str, along: str) -> None:
    tidy(axes, title, energy, along)
    axes.grid(visible=False, axis="x")


def _name_layers(axes: Axes, order: Sequence[str]) -> None:
    every = max(1, len(order) // 24)
    places = list(range(0, len(order), every))
    names = [order[place].rpartition(".")[2] if order[place] else "-" for place in places]
    axes.set_xticks(places, names)
    if "" in order:
        note(axes, f"- {OUTSIDE}", (0.0, 1.0), (90, 5), xycoords="axes fraction", color=MUTED)
