"""From a table to a clock, as the documentation shows it."""

import re
from pathlib import Path

import numpy as np
import pytest
from synthetic_runs import write_runs

DOCUMENT = Path(__file__).parents[3] / "docs" / "power-models.md"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_runs(tmp_path_factory.mktemp("runs") / "runs.csv")


def test_the_examples_of_the_documentation_run(table, tmp_path):
    known = {"path": table, "folder": tmp_path / "model"}

    for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL):
        exec(compile(block, str(DOCUMENT), "exec"), known)

    assert known["best_mhz"] in known["queries"].sm_clock_mhz
    assert 0 < known["energy_saved"] < 1
    width = [np.log(each.upper / each.lower).mean() for each in (known["cold"], known["narrow"])]
    assert width[1] < width[0]
    queries = known["sweep"](known["profile"])
    assert known["again"].predict(queries, "energy_j") == pytest.approx(
        known["warm"].predict(queries, "energy_j")
    )
