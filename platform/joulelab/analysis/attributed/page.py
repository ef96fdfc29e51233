"""An attribution as one HTML page that needs nothing else."""

from joulelab.analysis.attributed.plots import depth_figure, icicle_figure
from joulelab.analysis.attributed.table import (
    answer,
    closure_words,
    component_table,
    kernel_table,
    layer_table,
    method_words,
    notes,
)
from joulelab.analysis.figure_file import themed_svg
from joulelab.analysis.page import render
from joulelab.attribution.attribution import Attribution


def page(found: Attribution) -> str:
    """Return the page of an attribution."""
    knobs = " ".join(f"{name}={value}" for name, value in found.knobs.items())
    made = found.provenance
    return render(
        "attributed/page.html.j2",
        title=f"{found.program}: where the joules go",
        answers=[answer(found, phase) for phase in found.phases],
        method=method_words(found),
        notes=notes(found),
        has_supposed=any(share.is_supposed for one in found.phases for share in one.by_kernel),
        sections=[
            {
                "name": phase.phase,
                "closure": closure_words(phase),
                "is_reconciled": phase.is_reconciled,
                "icicle": themed_svg(icicle_figure(phase), f"i{number}-"),
                "components": component_table(phase),
                "depth": themed_svg(depth_figure(phase), f"d{number}-"),
                "layers": layer_table(phase),
                "kernels": kernel_table(phase),
                "num_kernels": len(phase.by_kernel),
            }
            for number, phase in enumerate(found.phases)
        ],
        origin=f"{found.program} {knobs}; {found.device.name} ({found.device.uuid}), host "
        f"{made.hostname}; joulelab {made.joulelab_version}, commit {made.git_sha or 'unknown'}, "
        f"{made.started_at}",
    )
