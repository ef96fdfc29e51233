"""What a hierarchy of parameters needs to know of a law of power or time."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from joulelab.power_models.queries import Queries
from joulelab.power_models.runs import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Terms:
    """Terms of a law for each query: their logarithms are linear in the parameters.

    Attributes:
        offset: Logarithm of each term where all parameters are 0; shape ``(n, terms)``.
        shared: Derivatives of them by the shared parameters; shape ``(n, terms, shared)``.
        gpu: Derivatives by the parameters of the query's GPU; ``(n, terms, gpu parameters)``.
        application: Derivatives by those of its application.
        known: What else the law needs to combine them; shape ``(n, ...)``, or empty.
    """

    offset: Array
    shared: Array
    gpu: Array
    application: Array
    known: Array


class Law(ABC):
    """A law of power over the board's limit, or of time over that of the profile.

    Every parameter has a prior mean of 0.

    Attributes:
        shared_sd: Prior standard deviation of each shared parameter.
        gpu_sd: Of each parameter of a GPU, before any was seen.
        application_sd: Of each parameter of an application, before any was seen.
    """

    shared_sd: Array
    gpu_sd: Array
    application_sd: Array

    @abstractmethod
    def terms(self, queries: Queries, typical: Array) -> Terms:
        """Return the terms of ``queries``.

        Args:
            queries: What is asked.
            typical: What stands for each of :data:`INPUTS` where it was not read.
        """

    @abstractmethod
    def combined(self, logs: Array, terms: Terms) -> tuple[Array, Array]:
        """Return the logarithm of the value, ``(n,)``, and its derivatives by ``logs``."""


INPUTS = ("fp_active", "dram_active", "tensor_active", "sm_active", "gr_engine_active", "voltage")
"""What laws are made of, besides the clock."""
