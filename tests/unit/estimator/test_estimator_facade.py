"""The estimator as a Python user meets it."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from joulelab import estimator
from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.question import Question, sweep
from joulelab.estimator.savings import with_opportunities
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.precision import usual_precision

SMALL = """
import torch

def example_inputs(batch):
    return torch.empty(batch, 3, 224, 224)

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3 * 224 * 224, 256)

    def forward(self, image):
        return torch.relu(self.first(image.flatten(1)))
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "small.py"
    path.write_text(SMALL)
    return f"{path}:Small"


def test_one_call_answers(small):
    found = estimator.estimate(small, device="h100", precision="fp16", batch=8)

    assert (found.device, found.precision, found.batch) == ("h100_sxm", "fp16", 8)
    assert found.energy_j > 0
    assert found.power_w <= found.cap_w


def test_the_function_and_not_the_module_is_found_whatever_was_imported_first():
    code = (
        "from joulelab.estimator.estimate import Estimate\n"
        "import joulelab.estimator.estimate\n"
        "import joulelab.estimator as estimator\n"
        "assert callable(estimator.estimate)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()


def test_importing_the_estimator_leaves_torch_alone():
    code = "import sys; sys.modules['torch'] = None\nimport joulelab.estimator\n"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()


def test_a_matrix_has_a_cell_for_every_combination_in_order(small):
    question = Question(
        models=(small,), devices=("v100", "h100"), precisions=("fp16", "bf16"), batches=(1, 2)
    )

    cells = estimator.matrix(question)

    assert [(c.processor.key, c.precision, c.batch) for c in cells] == [
        (device, precision, batch)
        for device in ("v100_sxm2", "h100_sxm")
        for precision in ("fp16", "bf16")
        for batch in (1, 2)
    ]
    assert [c.estimate is None for c in cells] == [False, False, True, True, *[False] * 4]
    assert "has no bf16" in cells[2].problem


def test_a_name_for_a_device_given_twice_is_one_device(small):
    question = Question(models=(small,), devices=("h100", "h100_sxm"))

    assert len(estimator.matrix(question)) == 1


@pytest.mark.parametrize(
    ("device", "precision"),
    [("h100", "fp16"), ("tpu_v4", "bf16"), ("coral", "int8"), ("xeon_8380", "fp32"),
     ("xeon_8490h", "bf16"), ("v100", "fp16"), ("kpu_t256", "bf16")],
)  # fmt: skip
def test_the_usual_precision_is_the_one_with_matrix_units(device, precision):
    assert usual_precision(PROCESSORS[device]) == precision


@pytest.mark.parametrize("key", PROCESSORS)
def test_every_device_has_a_usual_precision(key):
    assert usual_precision(PROCESSORS[key])


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "eagre"}, {"precisions": ("fp17",)}, {"batches": (0,)}, {"models": ()},
     {"num_devices": 0}],
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_refused(wrong):
    with pytest.raises((ConfigError, UnknownNameError)):
        Question(**{"models": ("x",), "devices": ("h100",), **wrong})


def test_a_lower_clock_never_makes_a_sweep_faster(small):
    (curve,) = sweep(Question(models=(small,), devices=("h100",)), progress=lambda _: None)

    rounding_s = 1e-12 * curve.latency_s[0]
    assert (np.diff(curve.latency_s) <= rounding_s).all()  # from the lowest clock on
    assert curve.clocks_mhz[curve.default] == 1980


def test_a_sweep_agrees_with_single_estimates(small):
    question = Question(models=(small,), devices=("h100",), batches=(8,))
    (curve,) = sweep(question, clocks_mhz=(1200,), progress=lambda _: None)

    found = estimator.estimate(small, device="h100", batch=8, clock_mhz=1200)

    assert curve.energy_j[0] == pytest.approx(found.energy_j)
    assert curve.latency_s[0] == pytest.approx(found.latency_s)


def test_opportunities_save_what_they_promise(small):
    question = Question(models=(small,), devices=("h100",))
    (cell,) = estimator.matrix(question)

    found = with_opportunities(question, cell).opportunities

    batch = next(one for one in found if "batch" in one.change)
    again = estimator.estimate(small, device="h100", batch=batch.change["batch"])
    saved = 1 - again.energy_j / batch.change["batch"] / cell.estimate.energy_j
    assert batch.energy_saved == pytest.approx(saved)


class Attention(torch.nn.Module):
    """Attention, which PyTorch hands over whole where it is not compiled."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]

    @staticmethod
    def example_inputs(batch):
        return torch.zeros(batch, 32, 64)


def test_compiling_saves_what_the_compiled_network_does():
    """It was priced with the kernels that attention runs uncompiled: 80 % saved for 76 %."""
    model = f"{__file__}:Attention"
    question = Question(models=(model,), devices=("h100",))
    (cell,) = estimator.matrix(question)

    found = with_opportunities(question, cell).opportunities

    promised = next(one for one in found if one.change == {"mode": "compiled"})
    compiled = estimator.estimate(model, device="h100", mode="compiled")
    assert promised.energy_saved == pytest.approx(1 - compiled.energy_j / cell.estimate.energy_j)


def test_what_is_named_twice_is_asked_once():
    """``--batch 8,8`` gave two rows."""
    question = Question(
        models=("a", "a"), devices=("h200", "h200_sxm"), precisions=("fp16",) * 2, batches=(8, 8, 1)
    )

    assert [each.batch for each in question.combinations()] == [8, 1]
