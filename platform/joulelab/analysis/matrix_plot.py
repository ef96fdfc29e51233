"""Every workload in every number format as one picture: energy over that of a reference format.

Drawn on a figure of its own, without pyplot and its global state.
"""

from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from joulelab.analysis.figure_file import save_png_and_svg
from joulelab.analysis.matrix import MatrixRow
from joulelab.analysis.style import BEST, CURVE, INK, PAPER, RC

_OFTEN = 2.0
"""Doublings of energy at which the colour is full."""
_WITHOUT = {
    "refused": "refused",
    "unsupported": "cannot run",
    "invalid": "invalid",
    "missing": "missing",
}
_LABEL_IN, _CELL_IN = 3.6, (0.85, 0.24)


def save_matrix_plot(
    rows: Sequence[MatrixRow], stem: Path, *, reference: str = "bf16"
) -> tuple[Path, ...]:
    """Write the picture as ``stem``.png and ``stem``.svg; returns no paths if there is nothing."""
    lines = _lines(rows)
    if not any(_energy_j(line.get(reference)) for line in lines.values()):
        return ()
    with mpl.rc_context(RC):
        figure = _figure(lines, list(dict.fromkeys(row.precision for row in rows)), reference)
    return save_png_and_svg(figure, stem)


def _lines(rows: Sequence[MatrixRow]) -> dict[str, dict[str, MatrixRow]]:
    """Gather the formats of each variant, batch and phase, by their name.

    What is refused has no phase: it is so in all of them.
    """
    phases: dict[object, dict[str, None]] = {}
    for row in rows:
        known = phases.setdefault(_program(row), {})
        if row.phase:
            known[row.phase] = None
    lines: dict[str, dict[str, MatrixRow]] = {}
    for row in rows:
        for phase in [row.phase] if row.phase else phases[_program(row)]:
            lines.setdefault(_name(row, phase), {})[row.precision] = row
    return lines


def _program(row: MatrixRow) -> tuple[object, ...]:
    return row.workload, row.variant, row.batch


def _name(row: MatrixRow, phase: str) -> str:
    named = dict.fromkeys((row.workload, row.variant, phase))
    batch = "" if row.batch is None else f", batch {row.batch}"
    return f"{' '.join(named)}{batch}"


def _reference(line: Mapping[str, MatrixRow], wanted: str) -> str:
    """Return the format to compare with: the one wanted, else the first that has a figure."""
    measured = [precision for precision, row in line.items() if _energy_j(row)]
    return wanted if wanted in measured or not measured else measured[0]


def _figure(
    lines: Mapping[str, Mapping[str, MatrixRow]], precisions: list[str], reference: str
) -> Figure:
    width_in, height_in = _LABEL_IN + _CELL_IN[0] * len(precisions), _CELL_IN[1] * len(lines)
    figure = Figure(figsize=(width_in + 0.2, height_in + 1.0))
    axes = figure.add_axes(
        (
            _LABEL_IN / (width_in + 0.2), 0.1 / (height_in + 1.0),
            (width_in - _LABEL_IN) / (width_in + 0.2), height_in / (height_in + 1.0),
        )
    )  # fmt: skip
    references = [_reference(line, reference) for line in lines.values()]
    ratios = [
        [_log_ratio(line, each, one) for each in precisions]
        for line, one in zip(lines.values(), references, strict=True)
    ]
    axes.imshow(
        np.ma.masked_invalid(ratios), aspect="auto", vmin=-_OFTEN, vmax=_OFTEN,
        cmap=LinearSegmentedColormap.from_list("ratio", [CURVE, PAPER, BEST]),
    )  # fmt: skip
    starred = _write_cells(axes, lines, precisions, ratios, references)
    axes.set_xticks(range(len(precisions)), precisions)
    axes.set_yticks(
        range(len(lines)),
        [
            name if one == reference else f"{name} (over {one})"
            for name, one in zip(lines, references, strict=True)
        ],
    )
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    note = ", * measured on another board" if starred else ""
    axes.set_title(f"Energy per unit of work over that of {reference}{note}", loc="left", pad=22)
    return figure


def _write_cells(
    axes: Axes,
    lines: Mapping[str, Mapping[str, MatrixRow]],
    precisions: Sequence[str],
    ratios: Sequence[Sequence[float]],
    references: Sequence[str],
) -> bool:
    """Write every ratio, or why there is none; return whether any is one of two boards."""
    starred = False
    for y, (line, logs, one) in enumerate(zip(lines.values(), ratios, references, strict=True)):
        for x, (precision, log) in enumerate(zip(precisions, logs, strict=True)):
            row = line.get(precision)
            known = np.isfinite(log)
            is_apart = _is_apart(row, line.get(one))
            starred |= is_apart
            why = "" if row is None else _WITHOUT.get(row.outcome, "")
            text = f"{2**log:.2f}{'*' * is_apart}" if known else why
            axes.text(
                x, y, text, ha="center", va="center", fontsize=8 if known else 6.5,
                color=PAPER if known and abs(log) > 0.6 * _OFTEN else INK,
            )  # fmt: skip
    return starred


def _is_apart(row: MatrixRow | None, reference: MatrixRow | None) -> bool:
    """Whether both have figures, and no board has both."""
    if row is None or reference is None or not (row.boards and reference.boards):
        return False
    return not set(row.boards) & set(reference.boards)


def _log_ratio(line: Mapping[str, MatrixRow], precision: str, reference: str) -> float:
    energy_j, reference_j = _energy_j(line.get(precision)), _energy_j(line.get(reference))
    return log2(energy_j / reference_j) if energy_j and reference_j else float("nan")


def _energy_j(row: MatrixRow | None) -> float | None:
    return None if row is None or row.seen is None else row.seen.energy_per_unit_j
