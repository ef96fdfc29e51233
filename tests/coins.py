"""A workload whose network tells the next byte with a certainty that is known."""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from joulelab.quality.base import ReadsTokens
from joulelab.quality.subject import Subject
from joulelab.workloads.base import Workload


class Coin(Workload[Any]):
    """Cannot run: it is there to be scored. What its settings are is up to the test."""

    unit: ClassVar = "token"
    phases = ("read",)

    def prepare(self):
        raise AssertionError("scoring runs no workload")

    run = close = cost = prepare


class CoinSubject(Subject[Coin]):
    """Opens a coin, and notes what it opened.

    A test says which by ``key``, what its settings open, and by ``certainty_of`` how certain that
    is; the latter raises what the device would.
    """

    metrics: ClassVar = ("perplexity",)
    answers: ClassVar = (ReadsTokens,)
    key: ClassVar[str]
    opened: ClassVar[list[Any]] = []

    @property
    def identity(self):
        return {self.key: getattr(self.workload.settings, self.key)}

    def certainty_of(self, settings):
        raise NotImplementedError

    @contextmanager
    def open(self):
        settings = self.workload.settings
        certainty = self.certainty_of(settings)
        type(self).opened.append(getattr(settings, self.key))
        yield CoinNetwork(certainty)


@dataclass
class CoinNetwork:
    certainty: float
    max_tokens: int = 32

    def token_ids(self, text):
        return list(text.encode())

    def logits(self, token_ids):
        right = np.roll(np.asarray(token_ids), -1)
        table = np.full((len(right), 256), np.log((1 - self.certainty) / 255), dtype=np.float32)
        table[np.arange(len(right)), right] = np.log(self.certainty)
        return table
