#!/usr/bin/env python
"""Say where inside a network its energy goes: by component, layer, operator and kernel.

A page, all parts as numbers, and a run in MLflow are written. On a GPU node, or on a cluster::

    experiments/attribution.py --device nvml --observe-only llama --model llama-3-8b
    ray job submit --runtime-env cluster/runtime_env.yaml -- \
        python experiments/attribution.py --device nvml vit --batch 64
"""

from joulelab.cli.errors import exit_code, quiet_start

quiet_start(__name__)

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Generic, TypeVar

import tyro

import joulelab
from joulelab.analysis.attributed.page import deliver, write_all
from joulelab.attribution.session import Asked
from joulelab.cli.study import parse_with_workload
from joulelab.cli.words import Variants, read_variants
from joulelab.workloads.llama import LlamaSettings
from joulelab_actors.laboratory import Laboratory

Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class AttributeEnergy(Generic[Settings]):
    """Say where inside a network its energy goes.

    Attributes:
        workload: What to run; its own options may follow it.
        lab: Where it runs.
        method: How kernels are priced: replay measures each distinct one alone; classes takes the
            estimator's power of their kind.
        contexts: Tokens in the cache when a decode starts; what it takes after so many is
            attributed too.
        vary: Settings with which it is attributed, too: batch=8,32 precision=fp16.
    """

    workload: Annotated[Settings, tyro.conf.arg(name="")]
    lab: Annotated[Laboratory, tyro.conf.arg(name="")] = field(default_factory=Laboratory)
    method: Asked = "auto"
    contexts: tuple[int, ...] = ()
    vary: Variants = ()


def main(config: AttributeEnergy[object]) -> int:
    """Attribute, write, deliver and print; 1 if parts and meter contradict each other."""
    study = joulelab.attribute(
        config.workload,
        method=config.method,
        contexts=config.contexts,
        vary=read_variants(config.vary),
        lab=config.lab,
    )
    files = write_all(study.found, study.folder)
    print(study)
    if config.lab.store_uri is not None:
        deliver(study.found, config.lab.store_uri, files[0])
    print(f"Written: {', '.join(map(str, files))}")
    return int(not study.found.is_reconciled)


if __name__ == "__main__":
    default = AttributeEnergy(workload=LlamaSettings())
    parse = partial(parse_with_workload, AttributeEnergy, default=default)
    sys.exit(exit_code(lambda: main(parse(description=__doc__))))
