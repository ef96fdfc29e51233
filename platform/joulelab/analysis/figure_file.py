"""Figures as files, whole or not at all."""

from io import BytesIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from joulelab.analysis.style import RC
from joulelab.tracking.durable import write_whole


def save_figure(figure: Figure, *paths: Path) -> None:
    """Write ``figure`` to every one of ``paths``, whose suffix says how; the same bytes each time.

    Raises:
        TrackingError: If a file cannot be written; what was there before is left.
    """
    for path in paths:
        drawn, is_svg = BytesIO(), path.suffix == ".svg"
        with mpl.rc_context(RC):
            figure.savefig(
                drawn,
                format=path.suffix[1:],
                dpi=180,
                metadata={"Date": None} if is_svg else None,
            )
        write_whole(path, drawn.getvalue())
