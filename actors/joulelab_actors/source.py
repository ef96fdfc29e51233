"""Where trials come from while a pool runs."""

from abc import ABC, abstractmethod

from typing_extensions import override

from joulelab.core.trial import Trial


class TrialSource(ABC):
    """Trials that are not known beforehand, since they depend on what comes of others.

    The pool asks while the GPUs measure, so that the next trial is with a GPU before it is free.
    """

    @abstractmethod
    def take(self, uuid: str) -> Trial | None:
        """Return the next trial, for the GPU ``uuid``; ``None`` if there is none right now.

        Never blocks. Once taken, a trial is the pool's until an event says that it has ended.
        """

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether nothing more will come, whatever is still out."""


class NothingMore(TrialSource):
    """The source of a pool whose trials are all known beforehand."""

    @override
    def take(self, uuid: str) -> Trial | None:
        return None

    @property
    @override
    def is_done(self) -> bool:
        return True
