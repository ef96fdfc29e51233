"""Published runs that are committed here and in no fit: see public/README.md for their sources."""

from pathlib import Path

from published_runs import PublishedRun

from joulelab.csv_table import read_csv_table

PUBLIC = Path(__file__).parent / "public"
_NETWORKS = "benchmarks/neusight_networks.py"
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
    root = Path(__file__).parents[1]
    return tuple(
        PublishedRun(
            name=f"{row['model']} x {row['batch']}",
            source=NEUSIGHT,
            family=row["model"],
            scenario="eager",
            device=row["device"],
            model=f"{root / _NETWORKS}:{_CLASSES[row['model']]}",
            precision="fp32",
            batch=int(row["batch"]),
            mode="eager",
            time_s=float(row["latency_ms"]) / 1e3,
        )
        for row in read_csv_table(PUBLIC / "neusight.csv")
    )


def _ml_energy() -> tuple[PublishedRun, ...]:
    return tuple(
        PublishedRun(
            name=f"{row['model']} x {row['batch']}",
            source=ML_ENERGY,
            family=row["model"],
            scenario="eager",
            device="a100_sxm_40gb",
            model=_PIPELINES[row["model"]],
            precision="fp16",
            batch=int(row["batch"]),
            mode="eager",
            knobs={"steps": int(row["steps"])},
            time_s=float(row["latency_s"]),
            energy_j=float(row["energy_j"]),
        )
        for row in read_csv_table(PUBLIC / "ml_energy.csv")
    )
