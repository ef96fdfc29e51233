"""What a network puts out, to be scored."""

from abc import abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from joulelab.core.configuration import KnobValue
from joulelab.quality.subject import Subject
from joulelab.workloads.network import NetworkWorkload
from joulelab.workloads.weights_digest import weights_digest

AnyNetwork = TypeVar("AnyNetwork", bound=NetworkWorkload[Any])


class NetworkSubject(Subject[AnyNetwork]):
    """A network, loaded alone and freed when it has been asked.

    Its outputs depend on every knob that :attr:`without_effect` does not name, and on the content
    of the files that :attr:`folders` name. Random weights are the same in every precision but for
    rounding, so that two precisions can be compared.
    """

    without_effect: ClassVar[frozenset[str]] = frozenset({"batch"})
    """Knobs on which no output depends."""
    folders: ClassVar[tuple[str, ...]] = ("weights",)
    """Knobs that may name a folder or a file that is read."""

    @property
    @override
    def identity(self) -> Mapping[str, KnobValue]:
        knobs = asdict(self.workload.settings)
        kept = {name: value for name, value in knobs.items() if name not in self.without_effect}
        return {**kept, **{f"{name} read": weights_digest(kept[name]) for name in self.folders}}

    @abstractmethod
    def outputs(self, network: Any) -> Any:
        """Return what satisfies the protocols in :attr:`answers`, of a network that is loaded."""

    def build(self, workload: Any, device: Any) -> Any:
        """Make the network of ``workload``, of which this is a subject, on ``device``."""
        return workload.load(device)[0]

    @contextmanager
    @override
    def open(self) -> Generator[Any]:
        from joulelab.workloads.loaded import loaded

        try:
            with loaded(self.workload, self.build) as network:
                yield self.outputs(network)
        finally:
            self.workload.close()
