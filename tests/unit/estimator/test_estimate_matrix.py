"""The laws of estimates on real networks: every device and precision, several batches.

All models are checked by ``python benchmarks/run.py estimator_laws``; of torchvision's here three
fixed ones, and one that changes with the day.
"""

import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from joulelab.estimator.models import model_names, trace_model
from joulelab.estimator.pricing.predict import estimate, totals
from joulelab.hardware.processors import PROCESSORS
from joulelab.tracing.precision import PRECISIONS, supports

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import estimate_laws as laws

TODAY = datetime.now(tz=UTC).toordinal()
FEW = ("torchvision:mobilenet_v2", "torchvision:vit_b_16")
SOME = {
    "swin_t": "fp32",
    "efficientnet_b0": "int8",
    "retinanet_resnet50_fpn": "fp16",
    "hf:bert-base": "fp16",
    "hf:whisper-tiny": "int8",
}
TIGHT = 1 + 1e-9


def devices_with(precision):
    return [device for device in PROCESSORS.values() if supports(precision, device)]


def check_laws(name, precision, batches, mode):
    devices = devices_with(precision)
    models = [trace_model(name, batch=batch, precision=precision) for batch in batches]
    found = [totals(model, devices, mode=mode) for model in models]
    for one in found:
        assert laws.cap_share(one, devices) <= TIGHT
        assert laws.roofline_share(one) <= TIGHT
        assert laws.least_energy_j(one) > 0
    for small, large in pairwise(found):
        assert laws.largest_shrinkage(small, large) <= TIGHT


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *(("torchvision:resnet18", precision) for precision in PRECISIONS),
        *((name, precision) for name in FEW for precision in ("fp64", "fp16", "int4")),
    ],
)
def test_a_network_obeys_the_laws_on_every_device(name, precision):
    check_laws(name, precision, (1, 2, 64), "eager")
    check_laws(name, precision, (1, 2, 64), "compiled")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), SOME.items())
def test_networks_of_other_kinds_obey_the_laws_on_every_device(name, precision):
    check_laws(name, precision, (1, 16), "eager")


def model_of_the_day():
    names = model_names()["torchvision"]
    return names[TODAY % len(names)]


def test_the_model_of_the_day_obeys_the_laws_in_one_precision():
    name = model_of_the_day()

    check_laws(name, "fp32", (1, 2), "eager")  # the only one that all of them take
    made = estimate(
        trace_model(name, batch=1, precision="fp32"), PROCESSORS["a100_sxm"], events=True
    )

    assert laws.partition_error(made) <= 1e-9


@pytest.mark.parametrize("batch", [1, 8, 64])
@pytest.mark.parametrize("mode", ["eager", "graph", "compiled", "engine"])
def test_half_precision_resnet18_on_an_a100_stays_under_its_400_watts(batch, mode):
    """Without a power bound, this network was once put at 1963 W."""
    model = trace_model("torchvision:resnet18", batch=batch, precision="fp16")

    made = estimate(model, PROCESSORS["a100"], mode=mode)

    assert made.power_w <= 400
    assert all(phase.peak_power_w <= 400 for phase in made.phases)
