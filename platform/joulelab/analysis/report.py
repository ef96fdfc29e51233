"""What a sweep found as one HTML file that needs nothing else: to read, print and keep."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from joulelab.analysis.cells import selection, sheet
from joulelab.analysis.methods import methods_paragraph, uncertainty_statement
from joulelab.analysis.plots import can_plot, inline_svg
from joulelab.analysis.sweep import PhaseResult, SweepResult
from joulelab.analysis.table import legend
from joulelab.analysis.theme import themed
from joulelab.analysis.wording import (
    NOT_HARDWARE,
    OBJECTIVE_NAMES,
    device_words,
    percent,
    phase_names,
    sentence,
)
from joulelab.core.device import DeviceIdentity
from joulelab.core.measurement import Measurement
from joulelab.tracking.durable import write_whole
from joulelab.tracking.study import StudyHeader

MAX_ROWS = 24


def write_report(
    result: SweepResult,
    measurements: Sequence[Measurement],
    path: Path,
    *,
    header: StudyHeader | None = None,
) -> Path:
    """Write the report of a sweep to ``path`` and return it.

    Args:
        result: What :func:`analyse_sweep` found in ``measurements``.
        measurements: All that the sweep measured.
        path: The HTML file.
        header: What the study was asked; ``None`` if that was not kept.
    """
    return write_page(
        path,
        study=result.study,
        answer=sentence(result),
        views=_phases(result, measurements, header),
        measurements=measurements,
        boards=[board for phase in result.phases for board in phase.boards],
        header=header,
    )


def write_page(
    path: Path,
    *,
    study: str,
    answer: str,
    views: Sequence[Mapping[str, Any]],
    measurements: Sequence[Measurement],
    boards: Sequence[DeviceIdentity],
    header: StudyHeader | None,
) -> Path:
    """Write a report to ``path`` and return it.

    Args:
        path: The HTML file.
        study: Name of the study.
        answer: What it found, in words.
        views: Its sections, as the template takes them.
        measurements: All that it measured.
        boards: The boards.
        header: What the study was asked; ``None`` if that was not kept.
    """
    folder = files("joulelab.analysis")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = percent
    page = environment.from_string((folder / "report.html.j2").read_text(encoding="utf-8"))
    text = page.render(
        css=Markup((folder / "report.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        study=study,
        answer=answer.splitlines(),
        phases=views,
        devices=_once(boards),
        header=header,
        origin=_origin(measurements),
        not_hardware=any(board.backend in NOT_HARDWARE for board in boards),
    )
    write_whole(path, text)
    return path


def _phases(
    result: SweepResult, measurements: Sequence[Measurement], header: StudyHeader | None
) -> list[dict[str, Any]]:
    settings = dict(header.settings) if header else {}
    views = []
    for i, (name, phase) in enumerate(zip(phase_names(result), result.phases, strict=True)):
        shown = selection(phase, MAX_ROWS)
        views.append(
            {
                "name": name,
                "answer": sentence(phase),
                "phase": phase,
                "caption": _caption(phase),
                "plot": themed(inline_svg(phase), f"p{i}-") if can_plot(phase) else None,
                "sheet": sheet(phase, shown),
                "legend": legend(phase, num_shown=len(phase.rows)),
                "whole": sheet(phase, phase.rows) if len(shown) < len(phase.rows) else None,
                "reasons": Counter(f.reason for e in phase.exclusions for f in e.findings),
                "drifting": [drift for drift in phase.drifts if drift.exceeds(0.01)],
                "uncertainty": uncertainty_statement(phase.level),
                "methods": methods_paragraph(phase, measurements, settings),
                "device": device_words(phase),
            }
        )
    return views


def _caption(phase: PhaseResult) -> str:
    return (
        f"Energy, time and {OBJECTIVE_NAMES[phase.objective]} per {phase.unit} over the requested "
        "SM clock, and energy against time. Green: clocks that cannot be told apart from the best "
        f"({100 * phase.level:.0f} %). Bars: expanded uncertainty, k=2. The thick line is the "
        "Pareto front."
    )


def _once(boards: Sequence[DeviceIdentity]) -> list[DeviceIdentity]:
    by_uuid = {board.uuid: board for board in boards}
    return [by_uuid[uuid] for uuid in sorted(by_uuid)]


def _origin(measurements: Sequence[Measurement]) -> list[tuple[str, str]]:
    """List what is known of where the measurements came from, each value once."""
    found = [m.provenance for m in measurements]
    times = sorted(p.started_at for p in found)

    def each(name: str) -> str:
        return ", ".join(sorted({str(v) for p in found if (v := getattr(p, name)) is not None}))

    told = [
        ("joulelab", each("joulelab_version")),
        ("commit", each("git_sha")),
        ("machines", each("hostname")),
        ("Python", each("python_version")),
        ("PyTorch", each("torch_version")),
        ("weights", each("weights")),
        ("licence", each("licence")),
        ("first measurement", times[0]),
        ("last measurement", times[-1]),
        ("SLURM job", each("slurm_job_id")),
        ("Ray job", each("ray_job_id")),
    ]
    return [(name, value) for name, value in told if value]
