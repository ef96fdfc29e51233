"""What the evaluation of outputs needs of a workload."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, TypeVar

from joulelab.core.configuration import KnobValue
from joulelab.quality.base import Data
from joulelab.workloads.base import Workload

AnyWorkload = TypeVar("AnyWorkload", bound=Workload[Any])


class Subject(ABC, Generic[AnyWorkload]):
    """A configured workload as something whose outputs can be scored.

    Args:
        workload: The workload; it need not be prepared.
    """

    metrics: ClassVar[tuple[str, ...]]
    """Registry names of the metrics to score by where none are named; they need no download."""
    answers: ClassVar[tuple[type[Any], ...]]
    """Protocols of :mod:`joulelab.quality.protocols` that what :meth:`open` yields satisfies."""

    def __init__(self, workload: AnyWorkload) -> None:
        self.workload = workload

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, KnobValue]:
        """What the outputs depend on: the knobs that change them, and what weights are read."""

    @staticmethod
    @abstractmethod
    def read_data(source: str | None) -> Data:
        """Read a data set that such a workload can be scored on.

        Args:
            source: A folder or file, or the id of a data set on the hub; ``None`` for the small
                one that comes with this package.

        Raises:
            ConfigError: If it cannot be read.
        """

    @abstractmethod
    def open(self) -> AbstractContextManager[Any]:
        """Load the network, and free it at the end of the ``with`` block.

        Returns:
            What satisfies the protocols in :attr:`answers`.

        Raises:
            ConfigError: If the device lacks the precision, or weights cannot be read.
            DeviceError: If the device has too little memory.
        """
