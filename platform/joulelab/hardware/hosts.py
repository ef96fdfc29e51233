"""Hosts: what eager PyTorch takes on a machine's processor, apart from its GPUs.

How long a program takes that launches its kernels one by one is a question of the host as much as
of the GPU: of two equal H200, the one took 1.2 times as long at batch 1, and up to twice.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from joulelab.errors import ConfigError
from joulelab.hardware.catalogue import Catalogue, data_in, read_data_file
from joulelab.hardware.new_board import figures_text
from joulelab.hardware.places import names_in
from joulelab.hardware.processor import Figure, Processor

TYPICAL = "typical"
FASTEST, SLOWEST = "fast", "slow"
"""Between which hosts the answer for an unknown one is."""

_FOLDER = "hosts"
LAUNCHES = 2.03
"""Launches of a program over those of a loop around one operator: arguments, views, checks."""
MODULES = 4.47
"""Modules entered, over an empty one's call: their Python around operators."""
VIEWS = 3.38
"""Calls that launch nothing, over a view in a loop."""
TRAINING = 1.75
"""Host time of a step of training over that of its kernels in inference: the gradient's graph.
Fitted together to 119 programs, and 14 steps of training, on the hosts of an H100 and an H200
(experiments/results/h100_kernels, h200_kernels): each alone gives 1.8 and 2.0 launches."""
_HALF = ("float16", "bfloat16")
_OWN_HOST = ("jetson_orin_agx", "jetson_orin_nano", "jetson_thor")
"""GPUs whose host is part of the module, and of their figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a host takes for calls of PyTorch in a loop.

    Attributes:
        key: Its name in the catalogue.
        operator_s: Time of one call of an operator on a GPU, by name: ``add``, ``linear``,
            ``layer_norm``, ``conv2d``, ``attention``; ``view`` launches nothing.
        module_s: Time of one call of a module that does nothing.
        figures: Every figure with its source.
    """

    key: str
    operator_s: Mapping[str, float]
    module_s: float
    figures: Mapping[str, Figure]


def on_host(processor: Processor, host: Host) -> Processor:
    """Return ``processor`` in a machine with ``host``; what is no GPU in a slot stays as it is."""
    if processor.family != "gpu" or processor.key in _OWN_HOST:
        return processor
    timing = replace(
        processor.timing,
        eager_launch_s=_launches(host.operator_s),
        module_s=MODULES * host.module_s,
        view_s=VIEWS * host.operator_s["view"],
        training_launch=TRAINING,
    )
    return replace(processor, timing=timing)


def _launches(operator_s: Mapping[str, float]) -> dict[str, float]:
    call_s = {name: LAUNCHES * one for name, one in operator_s.items()}
    norm_s, copy_s = call_s["layer_norm"], call_s["add"]
    return {
        "default": copy_s,
        "gemm": call_s["linear"],
        "conv": call_s["conv2d"],
        "attention": call_s["attention"],
        "norm": norm_s,
        **{f"batch_norm_{dtype}": norm_s + copy_s for dtype in _HALF},  # copies its statistics
    }


def find_host(name: str) -> Host:
    """Return the host of a name in the catalogue, or of a file that ``joulelab calibrate`` wrote.

    Raises:
        UnknownNameError: If there is none of that name.
        ConfigError: If there is no such file, or it is none of a host.
    """
    path = Path(name)
    if path.suffix != ".toml":
        return HOSTS[name]
    try:
        return _host(path.stem, *data_in(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(
            f"--host must name a file that joulelab calibrate --host wrote, got {name!r}: "
            f"{error.strerror}."
        ) from error
    except (KeyError, TypeError, AttributeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"{name} must be a file that joulelab calibrate --host wrote: {error!r} is wrong."
        ) from error


def host_file(host: Host) -> str:
    """Return ``host`` as the text of a data file."""
    rounded = {
        name: replace(figure, value=float(f"{figure.value:.4g}"))
        for name, figure in host.figures.items()
    }
    return figures_text(rounded)


def _read(key: str) -> Host:
    return _host(key, *read_data_file(_FOLDER, key))


def _host(key: str, values: Mapping[str, Any], figures: Mapping[str, Figure]) -> Host:
    return Host(
        key=key,
        operator_s=values["operator_s"],
        module_s=values["python"]["module_s"],
        figures=figures,
    )


HOSTS: Catalogue[Host] = Catalogue("host", lambda: names_in(_FOLDER), _read, {})
