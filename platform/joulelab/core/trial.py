"""What a study wants measured: one configuration, once, on one device."""

from dataclasses import dataclass, replace

from joulelab.core.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A request for one measurement per phase of a configured workload."""

    study: str
    name: str  # name within the study, e.g. "1095MHz-r2"; the same after a retry
    configuration: Configuration
    repeat: int = 0  # which repeat of the configuration this is, from 0
    sentinel: bool = False  # whether it only watches for drift
    attempt: int = 0  # 0 for the first try, then 1, 2,
    device_name: str | None = None  # product whose GPUs may measure it; None for any

    def fits(self, device_name: str | None) -> bool:
        """Whether a GPU of that product may measure it."""
        return self.device_name is None or self.device_name == device_name

    def beside_others(self) -> "Trial":
        """Return it under a name that begins with its product, unlike the same of others."""
        return replace(self, name=f"{product_slug(self.device_name or '')}-{self.name}")


def product_slug(device_name: str) -> str:
    """Return a product as a part of names, ``"h100-80gb-hbm3"``."""
    return device_name.removeprefix("NVIDIA ").replace(" ", "-").lower()


def name_within(name: str, device_name: str | None) -> str:
    """Return the name of a trial among those of its product."""
    return name if device_name is None else name.removeprefix(f"{product_slug(device_name)}-")
