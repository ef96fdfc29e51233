"""Studies whose reports hold no pictures, which take longer than a study on simulated GPUs.

Figures are made all the same, of whatever the study measured; what is left out is drawing them,
which tests of the analysis and the experiments' scripts do.
"""

from contextlib import contextmanager

import pytest
from markupsafe import Markup


@contextmanager
def undrawn():
    """Write empty pictures for the studies of this process."""
    from joulelab.analysis import study_report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_report, "save_png_and_svg", save_empty)
        patch.setattr(study_report, "themed_svg", lambda figure, prefix: Markup("<svg></svg>"))
        yield


def save_empty(figure, stem):
    paths = tuple(stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    for path in paths:
        path.write_bytes(b"")
    return paths
