"""Networks as somebody measured them: what ran where, and what it took."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from joulelab.core.bounds import MOST_MHZ, MOST_S, MOST_W, check_positive, check_range
from joulelab.core.configuration import KnobValue
from joulelab.csv_table import read_csv_table
from joulelab.errors import ConfigError
from joulelab.estimator.estimate import Mode

MOST_BATCH = 1_000_000
Scope = Literal["gpu", "package", "module", "wall"]
"""What a measured energy contains: the board, a CPU package, a module's rails, the whole host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One execution of a model on one device, as measured.

    Attributes:
        family: Models that count as one when some are held out.
        scenario: How it was asked for: ``"eager"``, ``"Offline"``, ``"SingleStream"``, ...
        model: As :func:`joulelab.estimator.models.trace_model` takes it.
        batch: Samples of one execution.
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

    name: str
    source: str
    family: str
    scenario: str
    device: str
    model: str
    precision: str
    batch: int
    mode: Mode
    knobs: Mapping[str, KnobValue] = field(default_factory=dict)
    time_s: float | None = None
    energy_j: float | None = None
    scope: Scope = "gpu"
    is_narrow: bool = False
    is_channels_last: bool = False
    power_limit_w: float | None = None
    clock_mhz: int | None = None
    paced_s: float | None = None
    host_link_b_per_s: float | None = None
    free_batches: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_range("batch", self.batch, 1, MOST_BATCH)
        check_positive("time_s", self.time_s, MOST_S)
        check_positive("energy_j", self.energy_j, MOST_W * (self.time_s or MOST_S))
        check_positive("power_limit_w", self.power_limit_w, MOST_W)
        check_positive("clock_mhz", self.clock_mhz, MOST_MHZ)


_H200_CASE = re.compile(
    r"(?P<model>llama7b|vitb|resnet18|resnet50|mobilenet_v2)_(?P<format>\w+?\d+)"
    r"(?:_(?P<stage>prefill|gen64))?_b(?P<batch>\d+)(?:_l(?P<length>\d+))?"
)
_H200_MODELS = {"llama7b": "llama-7b", "vitb": "vit-base"}
_FORMATS = {"bfloat16": "bf16"} | dict.fromkeys(("float32", "fp32"), "fp32")
_FORMATS |= dict.fromkeys(("float16", "fp16"), "fp16")
_PROMPT_TOKENS, _NEW_TOKENS = 128, 64


def read_h200_runs(path: Path) -> tuple[MeasuredRun, ...]:
    """Read the table of networks measured on one H200 with PyTorch, kernel by kernel.

    Generations are of 64 tokens after a prompt of 128, which is part of them.

    Raises:
        ConfigError: If a case has another name than those that the table is known for.
    """
    return tuple(_h200_run(row) for row in read_csv_table(path))


def _h200_run(row: Mapping[str, str]) -> MeasuredRun:
    match = _H200_CASE.fullmatch(row["case"])
    if match is None:
        raise ConfigError(f"The case {row['case']!r} is none of the H200's measured networks.")
    batch, time_s = int(match["batch"]), float(row["latency_s"])
    return MeasuredRun(
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
