"""The trainable: a trial of Ray Tune's, measured on the next free GPU of the study.

Trials ask an exchange to be measured. Tune has a configuration as one level of names and values.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import ray
from ray import tune
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, MeasurementError
from joulelab_actors.tune.exchange import Ask, Result

WORKLOAD, REPEAT = "workload", "repeat"
"""Names besides those of the GPU's knobs and the workload's."""

_POINT = tuple(field.name for field in fields(OperatingPoint))


def config_of(configuration: Configuration, repeat: int = 0) -> dict[str, Any]:
    """Return a configuration for Tune: workload, the GPU's knobs, its own, and the repeat."""
    names = {WORKLOAD: configuration.workload, REPEAT: repeat}
    return {**names, **asdict(configuration.point), **dict(configuration.knobs)}


def configuration_of(config: Mapping[str, Any]) -> tuple[Configuration, int]:
    """Return the configuration that Tune has as ``config``, and the number of its repeat.

    Raises ConfigError if it names no workload, or a value is none that a GPU can have.
    """
    # Algorithms of Tune's suggest numbers of NumPy's.
    rest = {k: v.item() if isinstance(v, np.generic) else v for k, v in config.items()}
    workload, repeat = rest.pop(WORKLOAD, None), int(rest.pop(REPEAT, 0))
    if not isinstance(workload, str):
        raise ConfigError(f"A trial needs the name of a workload, got {workload!r}.")
    point = OperatingPoint(**{name: rest.pop(name) for name in _POINT if name in rest})
    return Configuration.of(workload, rest, point), repeat


class MeasuredTrial(tune.Trainable):
    """Leases a GPU actor for one measurement after another; each is an iteration of Tune's.

    It computes nothing itself and holds no GPU, so that a GPU waits for no process of Tune's.
    """

    @override
    def setup(
        self,
        config: dict[str, Any],
        exchange: Any = None,
        base: Mapping[str, Any] | None = None,
        most_repeats: int = 1,
        must_be_valid: bool = True,
    ) -> None:
        """Take what Tune passes on: a configuration, and in ``base`` what it leaves out.

        The trial is over after ``most_repeats`` iterations. If it ``must_be_valid``, one without
        figures is an error, so that an algorithm of Tune's learns that it failed.
        """
        self._exchange, self._base = exchange, base or {}
        self._most_repeats, self._must_be_valid = most_repeats, must_be_valid

    @override
    def step(self) -> Result:
        """Return the figures of one measurement.

        Raises MeasurementError if there are none, and there must be.
        """
        ask = Ask(
            name=f"{self.trial_id}-{self.iteration}",
            config={**self._base, **self.config},
            iteration=self.iteration,
        )
        result: Result = ray.get(self._exchange.measure.remote(ask))
        if self._must_be_valid and "reason" in result:
            raise MeasurementError(result["reason"])
        is_over = "reason" in result or self.iteration + 1 >= self._most_repeats
        return result | {tune.result.DONE: is_over}

    @override
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True

    @override
    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Keep nothing but what Tune keeps, the number of the iteration: the store has the rest."""
        return {}

    @override
    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Go on: the store answers what it holds."""
