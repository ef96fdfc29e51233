"""GPUs of one machine that run a trial together."""

from collections.abc import Sequence
from dataclasses import replace

from joulelab.errors import ConfigError
from joulelab.study.products import Gpu, counted_products


def require_count(gpus_per_trial: int, num_gpus: int | None) -> None:
    """Refuse a number of GPUs that trials of so many cannot use up, by a ConfigError."""
    if gpus_per_trial < 1 or (num_gpus or gpus_per_trial) % gpus_per_trial:
        raise ConfigError(
            "gpus_per_trial must be at least 1 and divide num_gpus, got "
            f"{gpus_per_trial} and {num_gpus}."
        )


def grouped(gpus: Sequence[Gpu], gpus_per_trial: int) -> tuple[Gpu, ...]:
    """Return GPUs that stand for ``gpus_per_trial`` of one machine and product each.

    The first of each group leads it; what is left over of a machine is left out.

    Raises:
        ConfigError: If no machine has so many; says how many there are.
    """
    if gpus_per_trial == 1:
        return tuple(gpus)
    places: dict[tuple[str, str], list[Gpu]] = {}
    for gpu in gpus:
        places.setdefault((gpu.hostname, gpu.identity.name), []).append(gpu)
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
