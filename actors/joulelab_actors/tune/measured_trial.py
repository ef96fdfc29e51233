"""The trainable: a trial of Ray Tune's, measured on the next free GPU of the study."""

from collections.abc import Mapping
from typing import Any

import ray
from ray import tune
from typing_extensions import override

from joulelab.errors import MeasurementError
from joulelab_actors.tune.exchange import Ask, Result


class MeasuredTrial(tune.Trainable):
    """Leases a GPU actor for one measurement after another; each is an iteration of Tune's.

    It computes nothing itself and holds no GPU, so that a GPU waits for no process of Tune's: two
    trials for each GPU are under way, and one of them waits in the GPU actor's own queue.
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
        """Take what Tune passes on.

        Args:
            config: The trial's configuration.
            exchange: Where to ask.
            base: What the configuration leaves out.
            most_repeats: Iterations after which the trial is over.
            must_be_valid: Whether a trial without figures is an error, so that an algorithm of
                Tune's is told that it failed.
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
