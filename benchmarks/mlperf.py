"""What submissions to MLPerf Inference ran, as far as they publish it.

The rules fix one sample for SingleStream and eight for MultiStream; Offline leaves the batch to
the submitter. NVIDIA's own configurations, published with its results (mlcommons/
inference_results_v2.0 to v3.1, closed/NVIDIA/configs), have 1024 for BERT and 2048 for ResNet-50
on an A100, 32 and 2 for ResNet-50 and RetinaNet on an L4: whatever is fastest there.

BERT's questions are not padded. Offline they are as long as SQuAD's mean; a SingleStream result is
the latency that nine of ten questions keep to, and these have up to 270 tokens
(``bert_opt_seqlen`` of that scenario). Its energy is of the mean question all the same. To 99 % of
its accuracy BERT runs in int8; to 99.9 % in half precision, on Ada and Hopper in fp8
(``use_fp8``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from joulelab.core.configuration import KnobValue

OFFLINE_BATCH = 64
OFFLINE_CHOICES = (2, 8, 16, 32, 128, 512, 2048)
SAMPLES: Mapping[str, int] = {"SingleStream": 1, "MultiStream": 8, "Offline": OFFLINE_BATCH}
"""Samples of one execution by scenario; of Offline, samples over which time is published."""

_MEAN_QUESTION_TOKENS = 177
"""Mean length of SQuAD v1.1's validation questions with their texts, cut at 384; from memory."""
_LONG_QUESTION_TOKENS = 270
_LOW_CLOCKS_MHZ = {"resnet50": 625, "retinanet": 523}
_ORIN_CLOCK_MHZ = 1300
_PCIE_B_PER_S = 25e9
"""PCIe 4.0 x16 as copies from pinned memory reach it, of 31.5e9; estimated."""
_ON_PCIE = r"PCIe|NVIDIA L4|L40S|\bT4\b"
_WITH_FP8 = r"NVIDIA L4|L40S|H100"
_RETINANET = Path(__file__).with_name("openimages_retinanet.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A program as it was submitted, as :func:`joulelab.estimator.models.trace_model` takes it."""

    model: str
    precision: str
    knobs: Mapping[str, KnobValue]


def submitted(row: Mapping[str, str]) -> Submitted | None:
    """Return what was run for a row of the table; ``None`` if the estimator has no such program.

    Where energy is published, it is the mean sample.
    """
    is_mean = row["batch"] == "Offline" or bool(row["energy_j_per_item"])
    tokens = _MEAN_QUESTION_TOKENS if is_mean else _LONG_QUESTION_TOKENS
    match row["model"]:
        case "resnet50":
            return Submitted(model="resnet50", precision="int8", knobs={})
        case "retinanet":
            network = f"{_RETINANET}:OpenImagesRetinaNet"
            return Submitted(model=network, precision="int8", knobs={})
        case "bert-99":
            return Submitted(model="bert-large", precision="int8", knobs={"tokens": tokens})
        case "bert-99.9":
            precision = "fp8" if re.search(_WITH_FP8, row["device"]) else "fp16"
            return Submitted(model="bert-large", precision=precision, knobs={"tokens": tokens})
    return None


def host_link_b_per_s(row: Mapping[str, str]) -> float | None:
    """Return the rate at which a query's inputs reach the device; ``None`` if they are there.

    Offline copies while it computes. Queries one after the other wait for theirs, but on SXM
    boards (``start_from_device``) and on an Orin (``use_direct_host_access``).
    """
    waits = row["batch"] in ("SingleStream", "MultiStream")
    return _PCIE_B_PER_S if waits and re.search(_ON_PCIE, row["device"]) else None


def mean_time_share(row: Mapping[str, str]) -> float:
    """Return the time of the mean sample over the latency that is published.

    Questions take time with their length.
    """
    is_long = row["model"].startswith("bert") and row["batch"] == "SingleStream"
    return _MEAN_QUESTION_TOKENS / _LONG_QUESTION_TOKENS if is_long else 1.0


def accelerated_clock_mhz(row: Mapping[str, str]) -> int | None:
    """Return the GPU's clock where deep-learning accelerators took a share; else ``None``.

    NVIDIA's configurations give the two of an Orin a share of ResNet-50 and RetinaNet, Offline
    alone; of RetinaNet not in v2.1. For the least energy (MaxQ) they lower the GPU to 624.75 MHz
    (resnet50 of v2.1, ``soc_gpu_freq``) and 522.75 MHz (retinanet of v3.0).
    """
    found = re.search(
        r"results_(v[\d.]+)/.*/Orin_TRT(_MaxQ)?/(resnet50|retinanet)/Offline", row["url"]
    )
    if found is None or (found[1], found[3]) == ("v2.1", "retinanet"):
        return None
    return _LOW_CLOCKS_MHZ[found[3]] if found[2] else _ORIN_CLOCK_MHZ
