"""Validation on a GPU that a model was not trained on."""

import sys
from pathlib import Path

import numpy as np
import pytest
from synthetic_runs import CLOCKS_MHZ, rows_by_law

from joulelab.errors import ConfigError
from joulelab.power_models import POWER_MODELS
from joulelab.power_models.operating_model import OperatingModel
from joulelab.power_models.queries import queries_of
from joulelab.power_models.readers import runs_of_rows
from joulelab.power_models.validation import COLD, WARM

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from model_transfer import validate_transfer

CLOCKS = CLOCKS_MHZ[::2]
THERE = [
    row | {"power_w": 1.5 * row["power_w"]}
    for row in rows_by_law(6, gpu="a100_pcie", clocks_mhz=(*CLOCKS, 1410), seed=3)
]
RUNS = runs_of_rows([*rows_by_law(6, clocks_mhz=(*CLOCKS, 1410)), *THERE])


def made(name):
    model = POWER_MODELS[name]
    return OperatingModel(
        power=model("power_w", calibration_folds=0), time=model("time_s", calibration_folds=0)
    )


def test_only_applications_that_were_not_measured_there_are_scored():
    cold, warm = validate_transfer(
        lambda: made("mean"), RUNS, "a100_pcie", num_applications=4, num_draws=3
    )

    assert (cold.anchors, warm.anchors) == (COLD, WARM)
    assert cold.adapted["power_w"].num_rows == 3 * 2 * len(CLOCKS) + 3 * 2
    assert warm.adapted["power_w"].num_rows == 3 * 2 * len(CLOCKS)


def test_a_model_that_adapts_beats_what_it_learned_elsewhere():
    [cold, _] = validate_transfer(
        lambda: made("physics"), RUNS, "a100_pcie", num_applications=4, num_draws=2
    )
    elsewhere, there = RUNS.gpu != "a100_pcie", RUNS.select(RUNS.gpu == "a100_pcie")
    general = made("physics").fit(RUNS.select(elsewhere))

    unadapted = [
        abs(general.predict(queries, "power_w") / one.power_w - 1).mean()
        for one, queries in _by_application(there)
    ]

    assert cold.adapted["power_w"].mean < 0.7 * np.mean(unadapted)


@pytest.mark.parametrize(("gpu", "number"), [("a100_pcie", 6), ("h100_sxm", 2)])
def test_too_few_applications_are_refused(gpu, number):
    with pytest.raises(ConfigError, match=f"More than {number} applications on '{gpu}'"):
        validate_transfer(lambda: made("mean"), RUNS, gpu, num_applications=number)


def _by_application(runs):
    for _, rows in runs.by_pair():
        one = runs.select(rows)
        yield one, queries_of(one)
