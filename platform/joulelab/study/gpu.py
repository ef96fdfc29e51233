"""GPUs that take part in a study: what each is, which are of one product, which run together."""

import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

from joulelab.core.bounds import check_range
from joulelab.core.device import Capabilities, DeviceAddress, DeviceIdentity
from joulelab.core.grouping import grouped_by
from joulelab.core.plan import check_on_grid
from joulelab.devices.choice import open_device
from joulelab.errors import ConfigError
from joulelab.guard import default_socket_path
from joulelab.guard.inquiry import guard_outlives_job
from joulelab.hardware import spec_for
from joulelab.hardware.catalogue import spec_of_boards
from joulelab.hardware.processor import Processor
from joulelab.hardware.processors import processor_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyGpu:
    """A GPU, what it can read and set, and the machine that it is in.

    With ``partners``, others of that machine, it leads the GPUs that run a trial together.
    """

    address: DeviceAddress
    identity: DeviceIdentity
    capabilities: Capabilities
    hostname: str
    guard_outlives_job: bool = True  # False if its clock guard ends when SLURM kills this job
    partners: tuple[DeviceAddress, ...] = ()

    @classmethod
    def of(cls, address: DeviceAddress) -> "StudyGpu":
        """Ask the device at ``address``, on this machine, what it is."""
        with closing(open_device(address)) as device:
            return StudyGpu(
                address=address,
                identity=device.identity(),
                capabilities=device.capabilities(),
                hostname=socket.gethostname(),
                guard_outlives_job=guard_outlives_job(default_socket_path(address)),
            )

    @property
    def uuid(self) -> str:
        """UUID of the GPU."""
        return self.address.uuid


def study_clocks_mhz(gpus: Sequence[StudyGpu]) -> tuple[int, ...]:
    """Return the SM clocks that studies of GPUs of one product sweep: the catalogue's, else all."""
    spec, settable = spec_of_boards(gpus[0].identity.name), settable_clocks_mhz(gpus)
    if spec is None:
        return settable
    return tuple(clock for clock in spec.study_clocks_mhz if clock in settable)


def settable_clocks_mhz(gpus: Sequence[StudyGpu]) -> tuple[int, ...]:
    """Return the SM clocks, the highest first, that one of ``gpus`` at least can be set to.

    Boards of one product differ in them where they are replayed: each was recorded at its own.
    """
    return tuple(sorted({c for gpu in gpus for c in gpu.capabilities.sm_clocks_mhz}, reverse=True))


def simulated_processor(gpu: StudyGpu) -> Processor | None:
    """Return what a simulated GPU computes as; ``None`` of others, which are asked by running."""
    spec = spec_of_boards(gpu.identity.name) if gpu.address.backend == "simulated" else None
    return None if spec is None else processor_of(spec)


def check_clocks(knob: str, clocks_mhz: Sequence[int | None], gpus: Sequence[StudyGpu]) -> None:
    """Refuse clocks, of SMs or memory as ``knob`` says, that one of the GPUs cannot be set to.

    Raises ConfigError, which names the nearest that can be set.
    """
    for gpu in gpus:
        settable: tuple[int, ...] = getattr(gpu.capabilities, knob.replace("_mhz", "s_mhz"))
        for clock_mhz in clocks_mhz:
            if clock_mhz is not None:
                check_on_grid(clock_mhz, settable, knob=knob)


def check_power_limits(power_limits_w: Sequence[float], gpus: Sequence[StudyGpu]) -> None:
    """Refuse power limits that one of the GPUs cannot be set to.

    Raises ConfigError, which says which can be set.
    """
    for gpu in gpus if power_limits_w else ():
        bounds_w = gpu.capabilities.power_limits_w
        if bounds_w is None:
            raise ConfigError(
                f"The power limit of {gpu.uuid} is fixed; leave out --power-limits-w."
            )
        for power_limit_w in power_limits_w:
            check_range(f"A power limit of {gpu.uuid}, in W,", power_limit_w, *bounds_w)


Gpu = TypeVar("Gpu", bound=StudyGpu)


def by_product(gpus: Sequence[Gpu]) -> dict[str, list[Gpu]]:
    """Return ``gpus`` by the name that the driver gives their product, in the order they came."""
    return grouped_by(gpus, lambda gpu: gpu.identity.name)


def of_product(gpus: Sequence[Gpu], asked: str | None) -> tuple[Gpu, ...]:
    """Return the GPUs of the products that ``asked`` is a part of, in either case of letters.

    It is a part of a product's name or of its key in the catalogue; a whole one means that product
    alone, ``None`` all. Raises ConfigError if there is none; names those that are there.
    """
    if asked is None:
        return tuple(gpus)
    part = asked.strip().lower()
    names = {name: [each.lower() for each in (name, _key(name))] for name in by_product(gpus)}
    meant = [name for name, known in names.items() if part in known]
    meant = meant or [name for name, known in names.items() if any(part in each for each in known)]
    if not part or not meant:
        raise ConfigError(
            f"gpu_product must be a part of the name of GPUs that are there, got {asked!r}; there "
            f"are {counted_products(gpus)}."
        )
    return tuple(gpu for gpu in gpus if gpu.identity.name in meant)


def require_one_product(gpus: Sequence[StudyGpu]) -> None:
    """Refuse GPUs of several products, whose results cannot be compared.

    Raises ConfigError, which names the products, and how to choose one.
    """
    if len(by_product(gpus)) > 1:
        raise ConfigError(
            f"One study compares GPUs of one product, but there are {counted_products(gpus)}; "
            "choose one with --gpu-product, and run one study for each: they take different GPUs "
            "and can run side by side. A sweep of clocks takes all of them in one study."
        )


def require_enough(gpus: Sequence[StudyGpu], num_gpus: int | None) -> None:
    """Refuse a number of GPUs that a product does not have; ``None`` is all of them.

    Raises ConfigError, which says how many there are of each.
    """
    fewest = min(map(len, by_product(gpus).values()))
    if num_gpus is not None and num_gpus > fewest:
        raise ConfigError(
            f"num_gpus counts GPUs of each product, and must be within 1 and {fewest}: there are "
            f"{counted_products(gpus)}, got {num_gpus}."
        )


def counted_products(gpus: Sequence[StudyGpu]) -> str:
    """Count GPUs by product, ``"4 NVIDIA H200 (h200_sxm), 2 NVIDIA A40 (a40)"``."""
    counts = Counter(gpu.identity.name for gpu in gpus)
    keys = {name: _key(name) for name in counts}
    return ", ".join(
        f"{num} {name}{f' ({keys[name]})' if keys[name] else ''}" for name, num in counts.items()
    )


def _key(device_name: str) -> str:
    """Return a product's key in the catalogue; ``""`` if that lacks it."""
    spec = spec_for(device_name)
    return "" if spec is None else spec.key


def require_count(gpus_per_trial: int, num_gpus: int | None) -> None:
    """Refuse a number of GPUs that trials of so many cannot use up, by a ConfigError."""
    if gpus_per_trial < 1 or (num_gpus or gpus_per_trial) % gpus_per_trial:
        raise ConfigError(
            "gpus_per_trial must be at least 1 and divide num_gpus, got "
            f"{gpus_per_trial} and {num_gpus}."
        )


def grouped(gpus: Sequence[Gpu], gpus_per_trial: int) -> tuple[Gpu, ...]:
    """Return GPUs that stand for ``gpus_per_trial`` of one machine and product each.

    The first of each group leads it; what is left over of a machine is left out. Raises ConfigError
    if no machine has so many; says how many there are.
    """
    if gpus_per_trial == 1:
        return tuple(gpus)
    places = grouped_by(gpus, lambda gpu: (gpu.hostname, gpu.identity.name))
    found = [
        _led(own[first : first + gpus_per_trial])
        for own in places.values()
        for first in range(0, len(own) - gpus_per_trial + 1, gpus_per_trial)
    ]
    if not found:
        raise ConfigError(
            f"gpus_per_trial {gpus_per_trial} takes as many GPUs of one product on one machine; "
            f"there are {counted_products(gpus)} on {len(places)}."
        )
    return tuple(found)


def _led(gpus: Sequence[Gpu]) -> Gpu:
    lead, *others = gpus
    return replace(
        lead,
        partners=tuple(other.address for other in others),
        identity=lead.identity.leading(len(gpus)),
    )
