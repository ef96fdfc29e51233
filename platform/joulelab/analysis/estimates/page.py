"""Estimates as one HTML page that needs nothing else: to read, print and keep."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from joulelab.analysis.estimates.kernels import (
    EventNode,
    count_words,
    event_tree,
    kappa_words,
    main_memory_b,
)
from joulelab.analysis.estimates.plots import (
    comparable,
    comparison_figure,
    stack_figure,
    timeline_figure,
)
from joulelab.analysis.estimates.roofline import dots, roofline_figure
from joulelab.analysis.estimates.wording import (
    answers,
    change_words,
    confidence_words,
    data_words,
    device_words,
    headline,
    memory_words,
    setting_words,
    unknown_words,
    value_of,
    varying,
)
from joulelab.analysis.figure_file import themed_svg
from joulelab.analysis.quantities import quantity
from joulelab.estimator.estimate import Estimate, PhaseEstimate
from joulelab.estimator.question import Cell
from joulelab.hardware.processor import Processor
from joulelab.provenance import git_sha, joulelab_version

MAX_SECTIONS = 8
MAX_GROUPS = 40


def page(cells: Sequence[Cell]) -> str:
    """Return the page of ``cells``; the first :data:`MAX_SECTIONS` of them in full."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"quantity": _quantity, "count_words": count_words}
    template = (files("joulelab.analysis.estimates") / "page.html.j2").read_text(encoding="utf-8")
    css = (files("joulelab.analysis") / "report.css").read_text(encoding="utf-8")
    answered = [cell for cell in cells if cell.estimate is not None]
    together = comparable(cells)
    return environment.from_string(
        template
    ).render(
        css=Markup(css),  # noqa: S704 - our own
        title=", ".join(dict.fromkeys(cell.model for cell in cells)),
        answers=answers(cells) or [headline(cell) for cell in cells[:1]],
        heads=varying(cells),
        rows=[row for cell in cells for row in _rows(cell, varying(cells))],
        comparison=themed_svg(comparison_figure(together), "c-") if together else None,
        refused=[(headline(cell)) for cell in cells if cell.estimate is None],
        sections=[
            _section(cell, cell.estimate, f"s{i}-")
            for i, cell in enumerate(answered[:MAX_SECTIONS])
            if cell.estimate is not None
        ],
        num_more=max(0, len(answered) - MAX_SECTIONS),
        max_groups=MAX_GROUPS,
        sources=[
            {"name": f"{each.product_name} ({key})", "figures": sorted(each.figures.items())}
            for key, each in {cell.processor.key: cell.processor for cell in cells}.items()
        ],
        origin=f"joulelab {joulelab_version()}, commit {git_sha() or 'unknown'}",
    )


def _quantity(value: float, unit: str = "") -> str:
    return quantity(value, unit, digits=3).strip()


def _rows(cell: Cell, heads: Sequence[str]) -> list[dict[str, Any]]:
    if cell.estimate is None:
        return [{"named": [value_of(cell, head) for head in heads], "phase": None}]
    return [
        {
            "named": [phase.phase if h == "phase" else value_of(cell, h) for h in heads],
            "phase": phase,
            "unit": cell.estimate.unit,
            "bounds": _bounds(phase),
            "tier": cell.estimate.confidence.tier,
        }
        for phase in cell.estimate.phases
    ]


def _section(cell: Cell, estimate: Estimate, prefix: str) -> dict[str, Any]:
    return {
        "name": f"{cell.model} on {device_words(cell)}, {setting_words(cell)}",
        "headline": headline(cell),
        "cap_w": estimate.cap_w * estimate.num_devices,
        "phases": [
            _phase(phase, cell.processor, f"{prefix}{i}-")
            for i, phase in enumerate(estimate.phases)
        ],
        "memory": themed_svg(timeline_figure(estimate), f"{prefix}m-"),
        "memory_words": [f"{p.phase}: {memory_words(p.memory)}." for p in estimate.phases],
        "fits": estimate.fits,
        "unknown": unknown_words(estimate),
        "data": data_words(estimate),
        "opportunities": [(one, *change_words(one)) for one in cell.opportunities],
        "confidence": confidence_words(estimate.confidence),
    }


def _phase(phase: PhaseEstimate, processor: Processor, prefix: str) -> dict[str, Any]:
    ordered = sorted(phase.groups, key=lambda group: -group.energy.total_j)
    return {
        "phase": phase,
        "bounds": _bounds(phase),
        "memory_parts": phase.memory.parts,
        "roofline": themed_svg(roofline_figure(phase, processor), f"{prefix}r-")
        if dots(phase)
        else None,
        "stack": themed_svg(stack_figure(phase), f"{prefix}e-") if phase.groups else None,
        "groups": [(group, main_memory_b(group)) for group in ordered[:MAX_GROUPS]],
        "events": _lines(event_tree(phase.events)) if phase.events else [],
        "kappa": kappa_words(phase.events),
    }


def _bounds(phase: PhaseEstimate) -> str:
    return ", ".join(f"{bound} {share:.0%}" for bound, share in phase.bound_shares.items())


def _lines(root: EventNode) -> list[tuple[int, EventNode, float]]:
    """Return the tree as lines: depth, node, share of all energy."""

    def below(node: EventNode, depth: int) -> list[tuple[int, EventNode, float]]:
        share = node.energy_j / root.energy_j if root.energy_j else 0.0
        children = node.children.values()
        return [(depth, node, share), *(line for c in children for line in below(c, depth + 1))]

    return [line for child in root.children.values() for line in below(child, 0)]
