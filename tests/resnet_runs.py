"""Runs of ResNet-18 as somebody may have measured them."""

from dataclasses import replace


def resnet_run(kind, batch=1, **changes):
    """Return a run of a ``kind``, on an H200 in half precision unless ``changes`` say otherwise."""
    usual = {
        "name": f"resnet18 b{batch}",
        "source": "a test",
        "family": "resnet18",
        "scenario": "eager",
        "device": "h200_sxm",
        "model": "resnet18",
        "precision": "fp16",
        "batch": batch,
        "mode": "eager",
    }
    return kind(**usual | changes)


def as_measured(predict_run, processor, *runs):
    """Return the runs with what is predicted for ``processor`` as what was measured."""
    found = [(one, predict_run(one, processor)) for one in runs]
    return [replace(one, time_s=seen.time_s, energy_j=seen.energy_j) for one, seen in found]
