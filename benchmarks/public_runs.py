"""Published runs that are committed here and in no fit: see public/README.md for their sources."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from published_runs import PublishedRun

from joulelab.csv_table import read_csv_table

PUBLIC = Path(__file__).parent / "public"
_NETWORKS = "neusight_networks.py"
_CLASSES = {
    "bert_large": "BertLarge",
    "gpt2_large": "Gpt2Large",
    "gpt3_xl": "Gpt3Xl",
    "gpt3_27": "Gpt327",
    "opt_13": "Opt13",
}
_PIPELINES = {
    "sd-1.5": "stable-diffusion-1.5",
    "sd-2.1": "stable-diffusion-2.1",
    "sdxl": "stable-diffusion-xl",
}
NEUSIGHT, ML_ENERGY = "NeuSight", "ML.ENERGY"


def read_public_runs() -> tuple[PublishedRun, ...]:
    """Return NeuSight's latencies of networks in fp32, and ML.ENERGY's images by diffusion."""
    return (*_neusight(), *_ml_energy())


def _neusight() -> tuple[PublishedRun, ...]:
    return tuple(
        _run(
            row,
            source=NEUSIGHT,
            device=row["device"],
            model=f"{Path(__file__).with_name(_NETWORKS)}:{_CLASSES[row['model']]}",
            precision="fp32",
            time_s=float(row["latency_ms"]) / 1e3,
        )
        for row in read_csv_table(PUBLIC / "neusight.csv")
    )


def _ml_energy() -> tuple[PublishedRun, ...]:
    return tuple(
        _run(
            row,
            source=ML_ENERGY,
            device="a100_sxm_40gb",
            model=_PIPELINES[row["model"]],
            precision="fp16",
            knobs={"steps": int(row["steps"])},
            time_s=float(row["latency_s"]),
            energy_j=float(row["energy_j"]),
        )
        for row in read_csv_table(PUBLIC / "ml_energy.csv")
    )


def _run(row: Mapping[str, str], **others: Any) -> PublishedRun:
    """Return the run of a row, in eager PyTorch."""
    return PublishedRun(
        name=f"{row['model']} x {row['batch']}",
        family=row["model"],
        scenario="eager",
        mode="eager",
        batch=int(row["batch"]),
        **others,
    )
