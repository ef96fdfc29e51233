"""Tables of measurements as runs that the estimator can be asked for, or why it cannot.

What submissions to MLPerf Inference ran is in :mod:`joulelab.estimator.validation.mlperf`. Those
with power run at clocks and power limits of the submitter's choice. So their times are no test of
an estimate; they tell the clock, and no device can have drawn more than its share of the wall.
Their int8 networks are int8 throughout.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from joulelab.csv_table import FIRST_LINE, read_csv_table
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Mode
from joulelab.estimator.question import knob_value
from joulelab.estimator.validation import mlperf
from joulelab.estimator.validation.mlperf import Submitted
from joulelab.estimator.validation.runs import MeasuredRun, Scope, read_h200_runs
from joulelab.registry import unknown_name

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
class ReferencePoints:
    """Published measurements that can be compared; how many others there are, by reason."""

    runs: tuple[MeasuredRun, ...]
    left_out: Mapping[str, int]


def read_reference_points(path: Path) -> ReferencePoints:
    """Read the table of published measurements."""
    runs: list[MeasuredRun] = []
    left_out: Counter[str] = Counter()
    for number, row in enumerate(read_csv_table(path), start=FIRST_LINE):
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
    compiled = row["source"].startswith("MLPerf") or "torch.compile" in row["software"]
    return "compiled" if compiled else "eager"


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


_NEEDED = ("model", "device", "precision", "batch")


def read_measured(path: Path) -> tuple[MeasuredRun, ...]:
    """Read measured runs; the columns say of which form the table is.

    Raises:
        ConfigError: If the table cannot be read or lacks columns; names them.
    """
    rows = read_csv_table(path)
    if not rows:
        raise ConfigError(f"{path} holds no measurements.")
    if {"case", "latency_ms"} & set(rows[0]):
        return _of_known_form(path, rows[0])
    missing = [name for name in _NEEDED if name not in rows[0]]
    if missing or not {"time_s", "energy_j"} & set(rows[0]):
        lacks = ", ".join(missing or ["time_s or energy_j"])
        raise ConfigError(f"{path} lacks the columns {lacks}; see `joulelab validate --help`.")
    return tuple(_own_run(row, number, path) for number, row in enumerate(rows, start=FIRST_LINE))


def _of_known_form(path: Path, row: Mapping[str, str]) -> tuple[MeasuredRun, ...]:
    try:
        return read_h200_runs(path) if "case" in row else read_reference_points(path).runs
    except (KeyError, ValueError) as error:
        raise ConfigError(f"{path} is no whole table of its form: {error}") from error


def _own_run(row: Mapping[str, str], number: int, path: Path) -> MeasuredRun:
    try:
        return MeasuredRun(
            name=row.get("name") or f"line {number}: {row['model']} on {row['device']}",
            source=row.get("source") or path.name,
            family=row.get("family") or row["model"],
            scenario=row.get("scenario") or "",
            device=row["device"],
            model=row["model"],
            precision=row["precision"],
            batch=int(row["batch"]),
            mode=cast("Mode", _one_of("mode", row.get("mode") or "eager", get_args(Mode))),
            knobs=dict(knob_value(word) for word in (row.get("knobs") or "").split()),
            time_s=_positive(row.get("time_s")),
            energy_j=_positive(row.get("energy_j")),
            scope=cast("Scope", _one_of("scope", row.get("scope") or "gpu", get_args(Scope))),
        )
    except ValueError as error:
        raise ConfigError(f"Line {number} of {path}: {error}") from error


def _positive(text: str | None) -> float | None:
    if not text:
        return None
    value = float(text)
    if not value > 0:
        raise ConfigError(f"A time or an energy must be positive, got {text}.")
    return value


def _one_of(kind: str, name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise unknown_name(kind, name, known)
    return name
