"""A program of many steps that cost the same."""

from abc import ABC, abstractmethod


class Loop(ABC):
    """A program that is run as all of its steps, and counted by one of them.

    The cost of a loop is that of the step in its middle, :attr:`num_steps` times over. What
    starts it, and what its first and last steps do otherwise, must be small against a step.
    """

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """How many steps it takes, at least one."""

    @abstractmethod
    def start(self) -> None:
        """Bring the state to before the first step."""

    @abstractmethod
    def step(self, index: int) -> None:
        """Take the step ``index``; those before it have been taken."""

    @abstractmethod
    def skip_to(self, index: int) -> None:
        """Bring the state to before the step ``index``, with values of no meaning."""

    def __call__(self) -> None:
        """Take all steps."""
        self.start()
        for index in range(self.num_steps):
            self.step(index)
