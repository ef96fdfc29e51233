"""Every notebook runs from top to bottom on the results of a small sweep."""

import json
from pathlib import Path

import pytest

from joulelab import Configuration
from joulelab.core.plan import plan_sweep, sweep_points
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.measure import Bench
from joulelab.provenance import collect_provenance
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A folder in which ``results/`` holds one sweep of three clocks."""
    folder = tmp_path_factory.mktemp("notebooks")
    [address] = fleet("a100_sxm", 1, str(folder / "driver"))
    device = SimulatedDevice.open(address)
    points = sweep_points(
        device.capabilities().sm_clocks_mhz, mode="custom", clocks_mhz=(1005, 705)
    )
    asked = [Configuration.of("stream", {}, point) for point in points]
    store = ResultStore(folder / "results" / "sweep")
    store.write_study(
        StudyHeader(
            name="sweep", sweep_id="one", command=(), settings=(), provenance=collect_provenance()
        )
    )
    with Bench(device) as bench:
        for trial in plan_sweep("sweep", asked, repeats=2):
            store.append(*bench.measure(trial))
    store.close()
    return folder


def code_cells(path):
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_runs_from_top_to_bottom(path, lab, monkeypatch, capsys):
    monkeypatch.chdir(lab)
    names = {}

    for cell in code_cells(path):
        exec(compile(cell, path.name, "exec"), names)

    assert "against the default clock" in capsys.readouterr().out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_is_kept_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]

    assert not any(cell.get("outputs") for cell in cells)
