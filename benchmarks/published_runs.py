"""Tables of measurements as runs that the estimator can be asked for, or why it cannot.

What submissions to MLPerf Inference ran is in :mod:`mlperf`. Those
with power run at clocks and power limits of the submitter's choice. So their times are no test of
an estimate; they tell the clock, and no device can have drawn more than its share of the wall.
Their int8 networks are int8 throughout.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mlperf
from mlperf import Submitted

from joulelab.core.configuration import KnobValue
from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Mode
from joulelab.estimator.validation import MeasuredRun, Scope

_SCOPES: Mapping[str, Scope] = {
    "package (RAPL)": "package",
    "module rails (INA3221)": "module",
    "whole system at the wall": "wall",
}
_DEVICES: tuple[tuple[str, str], ...] = (
    (r"A100-SXM", "a100_sxm"),
    (r"A100-PCIe", "a100_pcie"),
    (r"H100-SXM", "h100_sxm"),
    (r"Jetson AGX Orin(?! 32G)|1x NVIDIA Orin$", "jetson_orin_agx"),
    (r"NVIDIA L4$", "l4"),
    (r"L40S", "l40s"),
    (r"^T4$", "t4"),
    (r"V100-SXM2", "v100_sxm2"),
    (r"rtx3090", "rtx_3090"),
    (r"i7_12700k", "i7_12700k"),
    (r"i9_10940x", "i9_10940x"),
)
"""By a pattern of what the source calls it. An Orin of 32 GB has fewer units and other clocks."""


_WRITTEN_OUT = "hf:bert-large?_attn_implementation=eager"
"""NVIDIA's example of BERT multiplies, scales, masks and normalises scores one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun(MeasuredRun):
    """A run with what is known of how it was submitted.

    Attributes:
        is_narrow: Whether activations have eight bits between layers, too, not inside of products
            alone.
        is_channels_last: Whether images lay pixel by pixel, so that convolutions change no layout.
        power_limit_w: What the device certainly kept to, such as the power of the whole host;
            ``None`` if only its default is known.
        clock_mhz: The core clock it ran at; ``None`` if it was the default one, or is not known.
        paced_s: Time of one execution where whoever measured chose clocks for least energy, and
            did not say which: it ran at the lowest at which the device keeps up. With
            ``clock_mhz``, other engines did a part of the work meanwhile.
        host_link_b_per_s: Rate at which inputs come from the host before each execution; ``None``
            if nothing waits for them.
        free_batches: Where whoever measured chose the batch and did not say which: what they may
            have chosen. The fastest per sample is taken, and time and energy are of ``batch``
            samples all the same.
    """

    is_narrow: bool = False
    is_channels_last: bool = False
    power_limit_w: float | None = None
    clock_mhz: int | None = None
    paced_s: float | None = None
    host_link_b_per_s: float | None = None
    free_batches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePoints:
    """Published measurements that can be compared; how many others there are, by reason."""

    runs: tuple[PublishedRun, ...]
    left_out: Mapping[str, int]


def read_reference_points(path: Path) -> ReferencePoints:
    """Read the table of published measurements."""
    runs: list[PublishedRun] = []
    left_out: Counter[str] = Counter()
    for number, row in enumerate(read_csv_table(path), start=FIRST_LINE):
        found = _run(number, row)
        if isinstance(found, str):
            left_out[found] += 1
        else:
            runs.append(found)
    return ReferencePoints(runs=tuple(runs), left_out=left_out)


def _run(number: int, row: Mapping[str, str]) -> PublishedRun | str:
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
    return PublishedRun(
        name=f"line {number}: {row['model']} {row['batch']}".strip(),
        source=row["source"],
        family=row["model"],
        scenario=_scenario(row),
        device=device,
        model=asked.model,
        precision=asked.precision,
        batch=batch,
        mode=_mode(row),
        knobs=asked.knobs,
        is_narrow=row["source"].startswith("MLPerf") and asked.precision == "int8",
        is_channels_last=row["precision"].endswith("nhwc"),
        power_limit_w=_wall_power_w(row) if scope == "wall" else None,
        clock_mhz=mlperf.accelerated_clock_mhz(row) if scope == "wall" else None,
        paced_s=_mean_time_s(row, batch) if scope == "wall" else None,
        host_link_b_per_s=mlperf.host_link_b_per_s(row),
        free_batches=mlperf.OFFLINE_CHOICES if row["batch"] == "Offline" else (),
        time_s=None if scope == "wall" else _time_s(row, batch),
        energy_j=_energy_j(row, batch),
        scope=scope,
    )


def _device(name: str) -> str | None:
    return next((key for pattern, key in _DEVICES if re.search(pattern, name)), None)


def _batch(batch: str) -> int:
    named = {**mlperf.SAMPLES, "": 1}
    return named[batch] if batch in named else int(float(batch))


def _scenario(row: Mapping[str, str]) -> str:
    """Return how it was asked for, and whether other engines helped."""
    if not row["batch"].isalpha():
        return _mode(row)
    helped = mlperf.accelerated_clock_mhz(row) is not None
    return f"{row['batch']} with DLAs" if helped else row["batch"]


def _mode(row: Mapping[str, str]) -> Mode:
    if row["source"].startswith("MLPerf"):  # on NVIDIA's GPUs, TensorRT
        return "engine"
    return "compiled" if "torch.compile" in row["software"] else "eager"


def _time_s(row: Mapping[str, str], batch: int) -> float | None:
    """Return the time of a batch on one device: devices of a system share its throughput."""
    if row["latency_ms"]:
        return float(row["latency_ms"]) / 1e3
    if not row["throughput_per_s"]:
        return None
    return batch / (float(row["throughput_per_s"]) / _num_devices(row["device"]))


def _mean_time_s(row: Mapping[str, str], batch: int) -> float | None:
    """Return the mean time of a batch, where a latency is one that most samples keep to."""
    time_s = _time_s(row, batch)
    return None if time_s is None else time_s * mlperf.mean_time_share(row)


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
    mean_s = _mean_time_s(row, _batch(row["batch"]))
    if row["energy_j_per_item"] and row["latency_ms"] and mean_s:
        return float(row["energy_j_per_item"]) / mean_s / num_devices
    return None


def _num_devices(device: str) -> int:
    count = re.match(r"(\d+)x ", device)
    return int(count[1]) if count else 1


def _asked(row: Mapping[str, str]) -> Submitted | None:
    if row["source"].startswith("MLPerf"):
        return mlperf.submitted(row)
    if row["source"].startswith("timm"):
        knobs = {"image_size": int(float(row["seq"]))}
        precision = "fp16" if row["precision"].startswith("amp") else "fp32"
        name = f"timm:{row['model']}"
        return Submitted(model=name, precision=precision, knobs=knobs)
    if row["source"].startswith("NVIDIA DeepLearningExamples"):
        return _nvidia_example(row)
    if row["source"] == "branes-ai/graphs":
        return Submitted(
            model=row["model"],
            precision="fp32",
            knobs={"image_size": int(float(row["seq"]))},
        )
    return None


def _nvidia_example(row: Mapping[str, str]) -> Submitted | None:
    precision = {"fp32": "fp32", "tf32": "tf32", "amp fp16": "fp16"}.get(row["precision"])
    model = {"resnet50v1.5": "resnet50", "bert-large SQuAD": _WRITTEN_OUT}.get(row["model"])
    if precision is None or model is None:
        return None
    knobs = {"tokens": int(float(row["seq"]))} if model == _WRITTEN_OUT else {}
    return Submitted(model=model, precision=precision, knobs=knobs)


_H200_CASE = re.compile(
    r"(?P<model>llama7b|vitb|resnet18|resnet50|mobilenet_v2)_(?P<format>\w+?\d+)"
    r"(?:_(?P<stage>prefill|gen64))?_b(?P<batch>\d+)(?:_l(?P<length>\d+))?"
)
_H200_MODELS = {"llama7b": "llama-7b", "vitb": "vit-base"}
_FORMATS = {"bfloat16": "bf16"} | dict.fromkeys(("float32", "fp32"), "fp32")
_FORMATS |= dict.fromkeys(("float16", "fp16"), "fp16")
_PROMPT_TOKENS, _NEW_TOKENS = 128, 64


def read_h200_runs(path: Path) -> tuple[PublishedRun, ...]:
    """Read the table of networks measured on one H200 with PyTorch, kernel by kernel.

    Generations are of 64 tokens after a prompt of 128, which is part of them.

    Raises:
        ConfigError: If a case has another name than those that the table is known for.
    """
    return tuple(_h200_run(row) for row in read_csv_table(path))


def _h200_run(row: Mapping[str, str]) -> PublishedRun:
    match = _H200_CASE.fullmatch(row["case"])
    if match is None:
        raise ConfigError(f"The case {row['case']!r} is none of the H200's measured networks.")
    batch, time_s = int(match["batch"]), float(row["latency_s"])
    return PublishedRun(
        name=row["case"],
        source="own H200",
        family=match["model"],
        scenario=match["stage"] or "forward",
        device="h200_sxm",
        model=_H200_MODELS.get(match["model"], match["model"]),
        precision=_FORMATS[match["format"]],
        batch=batch,
        mode="eager",
        knobs=_lengths(match["stage"], match["length"]),
        time_s=time_s,
        energy_j=float(row["energy_per_unit_j"]) * float(row["units_per_s"]) * time_s,
    )


def _lengths(stage: str | None, length: str | None) -> dict[str, KnobValue]:
    if stage is None:
        return {}
    new_tokens = 0 if stage == "prefill" else _NEW_TOKENS
    return {"prompt_tokens": int(length or _PROMPT_TOKENS), "new_tokens": new_tokens}
