"""The trainable: a trial of Ray Tune's, measured on the next free GPU of the study.

Trials ask an exchange to be measured, and the driver answers there. Tune has a configuration as one
level of names and values.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import ray
from ray import tune
from typing_extensions import override

from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.errors import ConfigError, MeasurementError
from joulelab_actors.placement import beside_the_driver

Result = dict[str, Any]
"""What a trial reports to Tune: figures by name, and a reason where there are none."""

MOST_WAITING = 4096
"""Trials that can wait for their answers at once: two for each of 2,048 GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A measurement that a trial of Tune's asks for after ``iteration`` reported results.

    ``name`` is the trial and that number; a trial that is started again asks by the same name.
    """

    name: str
    config: Mapping[str, Any]
    iteration: int


class Exchange:
    """Keeps what trials ask for until the driver takes it, and answers until trials take them.

    The class is plain: :func:`start_exchange` puts it on the cluster. Answers stay, for a trial
    whose process died may ask again.
    """

    def __init__(self) -> None:
        self._asks: list[Ask] = []
        self._news = asyncio.Event()
        self._answers: dict[str, asyncio.Future[Result]] = {}

    async def measure(self, ask: Ask) -> Result:
        """Return what the driver answers, once it does."""
        if ask.name not in self._answers:
            self._asks.append(ask)
            self._news.set()
        return await asyncio.shield(self._answer_to(ask.name))

    async def asks(self) -> list[Ask]:
        """Return what was asked since the last call, once there is something; or :meth:`ring`."""
        await self._news.wait()
        self._news.clear()
        asks, self._asks = self._asks, []
        return asks

    async def answer(self, name: str, result: Result) -> None:
        """Answer what was asked by that name."""
        if not self._answer_to(name).done():
            self._answer_to(name).set_result(result)

    async def ring(self) -> None:
        """Have :meth:`asks` return, be there any or not."""
        self._news.set()

    def _answer_to(self, name: str) -> asyncio.Future[Result]:
        if name not in self._answers:
            self._answers[name] = asyncio.get_running_loop().create_future()
        return self._answers[name]


def start_exchange() -> Any:
    """Start an exchange on the driver's node; return its handle.

    Should its process or its node vanish, it starts again and Ray repeats the calls that wait:
    trials ask again, and the driver answers by the same names.
    """
    make_remote: Any = ray.remote
    options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": MOST_WAITING}
    options |= {"max_restarts": -1, "max_task_retries": -1}
    options["scheduling_strategy"] = beside_the_driver()
    return make_remote(Exchange).options(**options).remote()


WORKLOAD, REPEAT = "workload", "repeat"
"""Names besides those of the GPU's knobs and the workload's."""

_POINT = tuple(field.name for field in fields(OperatingPoint))


def config_of(configuration: Configuration, repeat: int = 0) -> dict[str, Any]:
    """Return a configuration for Tune: workload, the GPU's knobs, its own, and the repeat."""
    names = {WORKLOAD: configuration.workload, REPEAT: repeat}
    return {**names, **asdict(configuration.point), **dict(configuration.knobs)}


def configuration_of(config: Mapping[str, Any]) -> tuple[Configuration, int]:
    """Return the configuration that Tune has as ``config``, and the number of its repeat.

    Raises:
        ConfigError: If it names no workload, or a value is none that a GPU can have.
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
        figures is an error, so that an algorithm of Tune's is told that it failed.
        """
        self._exchange, self._base = exchange, base or {}
        self._most_repeats, self._must_be_valid = most_repeats, must_be_valid

    @override
    def step(self) -> Result:
        """Return the figures of one measurement.

        Raises:
            MeasurementError: If there are none, and there must be.
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
