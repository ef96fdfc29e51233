"""What a conclusion writes is whole, or what was there before."""

import errno
import os
import resource
import subprocess
import sys

import pytest
from estimates_by_hand import cell
from synthetic_results import header, sweep

from joulelab.analysis.baseline import COLUMNS, baseline_rows
from joulelab.analysis.estimates.export import cells_answer
from joulelab.analysis.plots import phase_figure
from joulelab.analysis.style import save_png_and_svg
from joulelab.analysis.sweep import analyse_sweep
from joulelab.analysis.sweep_report import sweep_frame, sweep_report
from joulelab.analysis.table import frame
from joulelab.cli.main import main
from joulelab.core.record import Record
from joulelab.errors import TrackingError
from joulelab.tracking import durable
from joulelab.tracking.store import ResultStore


@pytest.fixture
def study(tmp_path, capsys):
    """A sweep that was concluded once, with a file that its conclusion has replaced by now."""
    store = ResultStore(tmp_path / "study")
    store.write_study(header(settings=(("objective", "edp"),)))
    store.append(*(Record(measurement=m, trace=None) for m in sweep((600, 1200, 1950))))
    assert main(["report", str(store.folder)]) == 0
    capsys.readouterr()
    return store.folder


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize("most_b", [100, 100_000])
def test_a_disk_that_is_full_costs_one_line_and_no_file(study, most_b):
    """Reports, plots and tables were cut off where the disk was full, under their own names."""
    before = contents(study)

    done = subprocess.run(
        [sys.executable, "-m", "joulelab.cli.main", "report", str(study)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_b, most_b)),
        # Python keeps what is cut off of a module that it has compiled, for all later processes.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert max(map(len, before.values())) > most_b
    assert done.returncode == 2
    assert "Cannot write" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert contents(study) == before


def write_plot(measurements, path):
    save_png_and_svg(phase_figure(analyse_sweep(measurements).phases[0]), path.with_suffix(""))


WRITERS = {
    "report.html": lambda m, path: sweep_report(analyse_sweep(m), m).write_page(path),
    "sweep.csv": lambda m, path: sweep_frame(analyse_sweep(m)).write(path),
    "baseline.csv": lambda m, path: frame(COLUMNS, baseline_rows(m), digits=6).write(path),
    "plot.png": write_plot,
    "estimates.json": lambda _, path: cells_answer([cell()]).write(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_file_is_as_it_was_if_the_disk_is_full(name, tmp_path, monkeypatch):
    def no_room(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / name
    path.write_text("before")
    monkeypatch.setattr(durable.os, "fsync", no_room)

    with pytest.raises(TrackingError, match=r"Cannot write .* No space left on device"):
        WRITERS[name](sweep((600, 1200, 1950)), path)

    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
