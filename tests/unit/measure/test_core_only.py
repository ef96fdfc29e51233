"""What `pip install joulelab` alone can do, and what it says of the rest.

It is run with the core's own environment too (`make test-core`), where nothing else is there.
"""

import subprocess
import sys

import pytest

HIDDEN = ("matplotlib", "pandas", "pyarrow", "ray", "mlflow", "scipy", "torch")
PROGRAM = """
import sys
for name in {hidden}:
    sys.modules[name] = None
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {hidden} else real(name, *rest)

import time, joulelab
from joulelab.cli.run import Run
from joulelab.cli.watch import Ui

def step():
    time.sleep(0.01)

lab = joulelab.Lab(device="simulated", store={store!r}, results_dir={store!r}, progress=False)
cost = joulelab.PhaseCost(phase="run", work=1, wait_s=0.01)
result = joulelab.measure(step, cost=cost, lab=lab)
print(result.measurement().energy_per_unit_j)
tries = [
    lambda: joulelab.sweep(step, cost=cost, lab=lab),
    lambda: joulelab.search(step, {{"sm_clock_mhz": "all"}}, cost=cost, lab=lab),
    result.to_frame,
    result.plot,
    Ui(results_dir={store!r}).run,
    Run(program=("touch", {store!r} + "/ran"), device="simulated", mlflow="http://host:5000").run,
]
for each in tries:
    try:
        each()
    except joulelab.JouleLabError as error:
        print(error)
"""


@pytest.fixture
def done(tmp_path):
    source = PROGRAM.format(hidden=HIDDEN, store=str(tmp_path))
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=tmp_path
    )


def test_a_function_is_measured_with_the_core_alone(done, tmp_path):
    energy, *_ = done.stdout.splitlines()

    assert float(energy) > 0
    assert done.stderr.count("Power traces are not kept") == 1
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_takes_more_is_one_sentence_before_anything_is_measured(done, tmp_path):
    _, *refused = done.stdout.splitlines()

    assert len(refused) == 6
    assert all("pip install 'joulelab[plots]'" in each for each in refused[:4])
    assert all("pip install 'joulelab[tracking]'" in each for each in refused[4:])
    assert not (tmp_path / "ran").exists()
    assert [each.name.partition("-")[0] for each in tmp_path.iterdir() if "step" in each.name] == [
        "measure"
    ]
