"""Every notebook runs from top to bottom on the results of a small sweep."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from joulelab import Configuration
from joulelab.bench import Bench
from joulelab.core.plan import plan_sweep, sweep_points
from joulelab.devices.simulated import SimulatedDevice, fleet
from joulelab.provenance import collect_provenance
from joulelab.tracking.store import ResultStore
from joulelab.tracking.study import StudyHeader

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A home with a sweep of three clocks, and a search that was begun after it."""
    folder = tmp_path_factory.mktemp("notebooks")
    [address] = fleet("a100_sxm", 1, str(folder / "driver"))
    device = SimulatedDevice.open(address)
    points = sweep_points(
        device.capabilities().sm_clocks_mhz, mode="custom", clocks_mhz=(1005, 705)
    )
    asked = [Configuration.of("stream", {}, point) for point in points]
    store = ResultStore(folder / "joulelab-results" / "sweep")
    store.write_study(header("sweep"))
    with Bench(device) as bench:
        for trial in plan_sweep("sweep", asked, repeats=2):
            records = bench.measure(trial)
            store.append(*records)
    store.close()
    later = ResultStore(folder / "joulelab-results" / "search")
    later.write_study(header("search"))
    later.append(*records)
    later.close()
    return folder


def header(kind):
    return StudyHeader(
        name=kind,
        kind=kind,
        sweep_id=kind,
        command=(),
        settings=(),
        provenance=collect_provenance(),
    )


@pytest.fixture(scope="module")
def ran(request, lab):
    """A notebook that ran in a kernel of its own from its own folder, as in Jupyter."""
    path = request.param
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(lab))
        patch.setenv("IPYTHONDIR", str(lab / "ipython"))
        client.execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


@pytest.mark.parametrize("ran", NOTEBOOKS, ids=lambda p: p.name, indirect=True)
def test_a_notebook_runs_from_top_to_bottom_in_its_own_folder(ran):
    """From Jupyter's own folder it found no results, nor where the last study was a search."""
    told = "".join(output.text for output in ran if output.output_type == "stream")

    assert "against the default clock" in told or "No saving is shown" in told


@pytest.mark.parametrize("ran", NOTEBOOKS, ids=lambda p: p.name, indirect=True)
def test_figures_of_a_notebook_are_pictures(ran):
    """A figure was shown as text, ``<Figure size 1100x760 with 4 Axes>``."""
    shown = [output.data for output in ran if output.output_type == "execute_result"]

    pictures = [data for data in shown if "image/svg+xml" in data]
    assert len(pictures) == 2
    assert not any(data["text/plain"].startswith("<Figure") for data in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_a_notebook_is_kept_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]

    assert not any(cell.get("outputs") for cell in cells)
