"""Which of the GPUs that are there are of one product, and which one a user means."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from joulelab.errors import ConfigError
from joulelab.hardware import spec_for
from joulelab.study.gpu import StudyGpu

Gpu = TypeVar("Gpu", bound=StudyGpu)


def by_product(gpus: Sequence[Gpu]) -> dict[str, list[Gpu]]:
    """Return ``gpus`` by the name that the driver gives their product, in the order they came."""
    found: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        found.setdefault(gpu.identity.name, []).append(gpu)
    return found


def of_product(gpus: Sequence[Gpu], asked: str | None) -> tuple[Gpu, ...]:
    """Return the GPUs of the products that ``asked`` is a part of, in either case of letters.

    Args:
        gpus: Those that are there.
        asked: Part of a product's name or of its key in the catalogue; a whole one means that
            product alone. ``None`` for all.

    Raises:
        ConfigError: If there is none; names those that are there.
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

    Raises:
        ConfigError: Names the products, and how to choose one.
    """
    if len(by_product(gpus)) > 1:
        raise ConfigError(
            f"One study compares GPUs of one product, but there are {counted_products(gpus)}; "
            "choose one with --gpu-product, and run one study for each: they take different GPUs "
            "and can run side by side. A sweep of clocks takes all of them in one study."
        )


def require_enough(gpus: Sequence[StudyGpu], num_gpus: int | None) -> None:
    """Refuse a number of GPUs that a product does not have; ``None`` is all of them.

    Raises:
        ConfigError: Says how many there are of each.
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
