"""Networks that stay on a device while others run, for settings that come again."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from joulelab.errors import DeviceError


class KeptNetworks:
    """Networks that their programs leave as they are, with their bytes, by what each depends on."""

    def __init__(self, kept: Mapping[Hashable, tuple[Any, int]] | None = None) -> None:
        self._kept = dict(kept or {})

    def copy(self) -> "KeptNetworks":
        """Return the same networks for the next to run."""
        return KeptNetworks(self._kept)

    def of(self, key: Hashable) -> Any:
        """Return the network of ``key``; ``None`` if it is not there."""
        return self._kept.get(key, (None, 0))[0]

    def size_b(self, *, but: Hashable) -> int:
        """Return the bytes of the device that all but one take."""
        return sum(size_b for key, (_, size_b) in self._kept.items() if key != but)

    def build(self, key: Hashable | None, make: Callable[[], Any], device: Any) -> Any:
        """Make a network on ``device``, a ``torch.device``, keep it unless it has no key."""
        from joulelab.workloads import accelerator

        before_b = accelerator.allocated_b(device)
        network = make()
        if key is not None:
            self._kept[key] = network, accelerator.allocated_b(device) - before_b
        return network

    def prepare(self, key: Hashable, prepare: Callable[[], None], device: Any) -> None:
        """Prepare the network of ``key`` beside the others if it fits, else alone."""
        from joulelab.workloads import accelerator

        if self._kept.keys() - {key}:
            if _fits(prepare) and not accelerator.is_short(device):
                return
            self._kept = {each: kept for each, kept in self._kept.items() if each == key}
            accelerator.release_memory()
        prepare()


def _fits(prepare: Callable[[], None]) -> bool:
    try:
        prepare()
    except DeviceError:
        return False
    return True
