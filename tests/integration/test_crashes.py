"""A driver that is killed, and a benchmark that kills everything."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from actor_fixtures import trials

from joulelab.devices.simulated import DriverStore

ROOT = Path(__file__).parents[2]

DRIVER = """
import sys
from pathlib import Path
from actor_fixtures import QUICK, trials
from joulelab_actors.placement import simulated_sites
from joulelab_actors.session import connected
from joulelab_actors.study import run_study

folder, socket = Path(sys.argv[1]), Path(sys.argv[2])
with connected():
    run_study(
        trials(repeats=20),
        sites=simulated_sites("h200_sxm", 3, str(folder / "driver")),
        results_dir=folder / "results",
        procedure=QUICK,
        guard_socket=socket,
        on_event=lambda event: print(type(event).__name__, flush=True),
    )
"""


def test_a_killed_driver_leaves_no_clock_locked_and_its_study_is_resumed(
    study, tmp_path, kill_driver
):
    kill_driver(DRIVER)

    summary, store = study(trials(repeats=20))

    valid = Counter(m.trial for m in store.read() if m.valid)
    assert summary.num_skipped >= 10
    assert summary.complete
    assert valid == Counter(t.name for t in trials(repeats=20))
    assert DriverStore(tmp_path / "driver").locked_uuids() == ()


@pytest.mark.slow
def test_random_kills_lose_nothing_and_leave_no_clock_locked():
    script = ROOT / "benchmarks" / "kill_study.py"

    done = subprocess.run(
        [sys.executable, str(script), "--kills", "15"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
