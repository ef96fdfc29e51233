"""Energy in the logs of a Lightning trainer."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from joulelab.integrations.energy_log import INTERVAL_S, EnergyLog
from joulelab.monitor.monitor import Monitor


class EnergyCallback(Callback):
    """Logs energy, power, and joules per sample of a training, through the trainer's logger.

    ::

        Trainer(callbacks=[EnergyCallback(samples_per_batch=32, max_energy_j=2e6)])

    Under several processes each measures its own GPU, and the first one's is logged.

    Args:
        monitor: Where energy comes from; ``None`` for one of its own.
        samples_per_batch: Samples in a batch of one process; ``None`` logs nothing per sample.
        tokens_per_batch: Tokens in it, likewise.
        max_energy_j: Energy at which training stops, in joules; in each process that of its GPU.
        interval_s: Time between reads, in seconds.

    Raises:
        ConfigError: If a number is not positive.
    """

    def __init__(
        self,
        monitor: Monitor | None = None,
        *,
        samples_per_batch: float | None = None,
        tokens_per_batch: float | None = None,
        max_energy_j: float | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self.energy = EnergyLog(monitor, max_energy_j=max_energy_j, interval_s=interval_s)
        self._stops = max_energy_j is not None
        self._samples_per_batch = samples_per_batch or 0.0
        self._tokens_per_batch = tokens_per_batch or 0.0

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to measure."""
        self.energy.start()

    @override
    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Count the batch, log what is known, and stop if the budget is spent."""
        self.energy.step(samples=self._samples_per_batch, tokens=self._tokens_per_batch)
        every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if trainer.logger is not None and trainer.global_step % every == 0:
            trainer.logger.log_metrics(self.energy.metrics(), step=trainer.global_step)
        # All processes must stop at the same batch.
        if self._stops and trainer.strategy.reduce_boolean_decision(
            self.energy.is_spent, all=False
        ):
            trainer.should_stop = True

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure no more, and log the rest."""
        self.energy.stop()
        if trainer.logger is not None:
            trainer.logger.log_metrics(self.energy.metrics(), step=trainer.global_step)

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Measure no more."""
        self.energy.stop()
