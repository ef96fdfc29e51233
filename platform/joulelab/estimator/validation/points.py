"""Published measurements as runs that the estimator can be asked for, or why it cannot.

Submissions to MLPerf Inference name neither batch nor length. What stands in for them here:
one sample for SingleStream and eight for MultiStream, which is their definition, and whatever is
fastest for Offline, where the submitter chooses; for BERT 384 tokens, the longest question, where
one is asked at a time, and the mean length of the data set where many are. Submissions with power
run at clocks and power limits of the submitter's choice, so their times say nothing here; no
device can have drawn more than its share of the wall. Their int8 networks are int8 throughout.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from joulelab.core.configuration import KnobValue
from joulelab.estimator.estimate import Mode
from joulelab.estimator.validation.runs import MeasuredRun, Scope, csv_rows

_SCOPES: Mapping[str, Scope] = {
    "package (RAPL)": "package",
    "module rails (INA3221)": "module",
    "whole system at the wall": "wall",
}
_DEVICES: tuple[tuple[str, str], ...] = (
    (r"A100-SXM", "a100_sxm"),
    (r"A100-PCIe", "a100_pcie"),
    (r"Jetson AGX Orin(?! 32G)|1x NVIDIA Orin$", "jetson_orin_agx"),
    (r"NVIDIA L4$", "l4"),
    (r"L40S", "l40s"),
    (r"^T4$", "t4"),
    (r"V100-SXM2", "v100_sxm2"),
    (r"rtx3090", "rtx_3090"),
    (r"i7_12700k", "i7_12700k"),
)
"""By a pattern of what the source calls it. An Orin of 32 GB has fewer units and other clocks."""

_OFFLINE_BATCH = 64
_OFFLINE_CHOICES = (4, 8, 16, 32, 64, 128)
_MEAN_QUESTION_TOKENS = 177
"""Mean length of SQuAD v1.1's validation questions with their texts, cut at 384; recalled."""
_LONGEST_QUESTION_TOKENS = 384


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    model: str
    precision: str
    family: str
    knobs: Mapping[str, KnobValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePoints:
    """Published measurements.

    Attributes:
        runs: Those that can be compared.
        left_out: How many others there are, by reason.
    """

    runs: tuple[MeasuredRun, ...]
    left_out: Mapping[str, int]


def read_reference_points(path: Path) -> ReferencePoints:
    """Read the table of published measurements."""
    runs: list[MeasuredRun] = []
    left_out: Counter[str] = Counter()
    for number, row in enumerate(csv_rows(path), start=2):
        found = _run(number, row)
        if isinstance(found, str):
            left_out[found] += 1
        else:
            runs.append(found)
    return ReferencePoints(runs=tuple(runs), left_out=left_out)


def _run(number: int, row: Mapping[str, str]) -> MeasuredRun | str:
    """Return the run of a row, or why it cannot be compared."""
    if row["source"].startswith("joulelab"):
        return "measured for this project; compared on its own"
    device = _device(row["device"])
    if device is None:
        return f"not in the catalogue: {row['device'].partition('x ')[2] or row['device']}"
    if row["batch"] == "Server":
        return "throughput under a bound of latency (Server)"
    asked = _asked(row)
    if asked is None:
        return f"no such program: {row['model'].partition(' ')[0]}"
    batch, scope = _batch(row["batch"]), _SCOPES.get(row["scope"], "gpu")
    return MeasuredRun(
        name=f"line {number}: {row['model']} {row['batch']}".strip(),
        source=row["source"],
        family=asked.family,
        scenario=row["batch"] if row["batch"].isalpha() else _mode(row),
        device=device,
        model=asked.model,
        precision=asked.precision,
        batch=batch,
        mode=_mode(row),
        knobs=asked.knobs,
        is_narrow=row["source"].startswith("MLPerf") and asked.precision == "int8",
        power_limit_w=_wall_power_w(row) if scope == "wall" else None,
        free_batches=_OFFLINE_CHOICES if row["batch"] == "Offline" else (),
        time_s=None if scope == "wall" else _time_s(row, batch),
        energy_j=_energy_j(row, batch),
        scope=scope,
    )


def _device(name: str) -> str | None:
    return next((key for pattern, key in _DEVICES if re.search(pattern, name)), None)


def _batch(batch: str) -> int:
    named = {"SingleStream": 1, "MultiStream": 8, "Offline": _OFFLINE_BATCH, "": 1}
    return named[batch] if batch in named else int(float(batch))


def _mode(row: Mapping[str, str]) -> Mode:
    compiled = row["source"].startswith("MLPerf") or "torch.compile" in row["software"]
    return "compiled" if compiled else "eager"


def _time_s(row: Mapping[str, str], batch: int) -> float | None:
    """Return the time of a batch on one device: devices of a system share its throughput."""
    if row["latency_ms"]:
        return float(row["latency_ms"]) / 1e3
    if not row["throughput_per_s"]:
        return None
    return batch / (float(row["throughput_per_s"]) / _num_devices(row["device"]))


def _energy_j(row: Mapping[str, str], batch: int) -> float | None:
    """Return the energy of a batch; of MultiStream the table has that of a query of eight."""
    if not row["energy_j_per_item"]:
        return None
    items = 1 if row["batch"] in ("MultiStream", "SingleStream") else batch
    return float(row["energy_j_per_item"]) * items


def _wall_power_w(row: Mapping[str, str]) -> float | None:
    """Return the power at the wall for each device of the system."""
    num_devices = _num_devices(row["device"])
    if row["power_w"]:
        return float(row["power_w"]) / num_devices
    if row["energy_j_per_item"] and row["latency_ms"]:
        return float(row["energy_j_per_item"]) / float(row["latency_ms"]) * 1e3 / num_devices
    return None


def _num_devices(device: str) -> int:
    count = re.match(r"(\d+)x ", device)
    return int(count[1]) if count else 1


def _asked(row: Mapping[str, str]) -> _Asked | None:
    if row["source"].startswith("MLPerf"):
        return _mlperf(row["model"], row["batch"])
    if row["source"].startswith("timm"):
        knobs = {"image_size": int(float(row["seq"]))}
        precision = "fp16" if row["precision"].startswith("amp") else "fp32"
        name = f"timm:{row['model']}"
        return _Asked(model=name, precision=precision, family=row["model"], knobs=knobs)
    if row["source"].startswith("NVIDIA DeepLearningExamples"):
        return _nvidia_example(row)
    if row["source"] == "branes-ai/graphs":
        return _Asked(
            model=row["model"],
            precision="fp32",
            family=row["model"],
            knobs={"image_size": int(float(row["seq"]))},
        )
    return None


def _mlperf(model: str, scenario: str) -> _Asked | None:
    """BERT to 99 % of its accuracy runs in int8, to 99.9 % in half precision."""
    tokens = _MEAN_QUESTION_TOKENS if scenario == "Offline" else _LONGEST_QUESTION_TOKENS
    asked = {
        "resnet50": ("resnet50", "int8", {}),
        "bert-99": ("bert-large", "int8", {"tokens": tokens}),
        "bert-99.9": ("bert-large", "fp16", {"tokens": tokens}),
        "retinanet": ("retinanet_resnet50_fpn", "int8", {"image_size": 800}),
    }.get(model)
    if asked is None:
        return None
    name, precision, knobs = asked
    return _Asked(model=name, precision=precision, family=model, knobs=dict(knobs))


def _nvidia_example(row: Mapping[str, str]) -> _Asked | None:
    precision = {"fp32": "fp32", "tf32": "tf32", "amp fp16": "fp16"}.get(row["precision"])
    model = {"resnet50v1.5": "resnet50", "bert-large SQuAD": "bert-large"}.get(row["model"])
    if precision is None or model is None:
        return None
    knobs = {"tokens": int(float(row["seq"]))} if model == "bert-large" else {}
    return _Asked(model=model, precision=precision, family=model, knobs=knobs)
