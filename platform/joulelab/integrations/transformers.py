"""Energy in the logs of a ``transformers.Trainer``."""

import logging
from math import ceil
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from typing_extensions import override

from joulelab.integrations.energy_log import INTERVAL_S, EnergyLog
from joulelab.monitor.monitor import Monitor

logger = logging.getLogger(__name__)


class EnergyCallback(TrainerCallback):
    """Logs energy, power, and joules per sample and per token of a training.

    ::

        trainer = Trainer(...)
        EnergyCallback(max_energy_j=2e6).join(trainer)
        trainer.train()

    :meth:`join` puts it before the trackers of the trainer (MLflow, TensorBoard, W&B, ...), which
    then log what it adds; in ``callbacks=[...]`` it comes after them, and only the trainer's own
    history (``trainer_state.json``) has it. Tokens are those that the trainer counts
    (``include_num_input_tokens_seen``).

    Under ``torchrun`` each rank measures its own GPU. What is logged is then of the first rank: its
    GPU's energy, and its share of the samples and tokens.

    Args:
        monitor: Where energy comes from; ``None`` for one of its own.
        max_energy_j: Energy at which training stops, in joules; in each rank that of its own GPU.
        interval_s: Time between reads, in seconds; a log between two has none.

    Raises:
        ConfigError: If a number is not positive.
    """

    def __init__(
        self,
        monitor: Monitor | None = None,
        *,
        max_energy_j: float | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self.energy = EnergyLog(monitor, max_energy_j=max_energy_j, interval_s=interval_s)
        self._stops = max_energy_j is not None
        self._joined = False
        self._samples_logged = self._tokens_logged = 0.0

    def join(self, trainer: Trainer) -> "EnergyCallback":
        """Join a trainer ahead of its trackers; return this callback."""
        trainer.callback_handler.callbacks.insert(0, self)
        self._joined = True
        return self

    @override
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin to measure."""
        if not self._joined and args.report_to:
            logger.warning(
                "Trackers do not see the energy: they come before callbacks=[...]. Use "
                "EnergyCallback(...).join(trainer)."
            )
        self._samples_logged = _samples(args, state, kwargs.get("train_dataloader")) or 0.0
        self._tokens_logged = state.num_input_tokens_seen
        self.energy.start()

    @override
    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Count the step; stop if the budget is spent."""
        share = 1 / max(args.world_size, 1)
        samples = _samples(args, state, kwargs.get("train_dataloader"))
        tokens = float(state.num_input_tokens_seen)
        self.energy.step(
            samples=0.0 if samples is None else share * (samples - self._samples_logged),
            tokens=share * (tokens - self._tokens_logged),
        )
        self._samples_logged, self._tokens_logged = samples or 0.0, tokens
        if self._stops and _any_rank(self.energy.is_spent, args):
            control.should_training_stop = True
            control.should_log = True

    @override
    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add what is known to the log; to the last one, all that there is."""
        if logs is not None and "train_loss" in logs:
            self.energy.stop()
        found = self.energy.metrics()
        if state.log_history:
            state.log_history[-1].update(found)
        if logs is not None:
            logs.update(found)

    @override
    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure no more."""
        self.energy.stop()


def _samples(args: TrainingArguments, state: TrainerState, dataloader: Any) -> float | None:
    """Return how many samples all ranks have seen; ``None`` where the data have no length."""
    try:
        num_batches, num_samples = len(dataloader), len(dataloader.dataset)
    except TypeError:
        return None
    accumulation = args.gradient_accumulation_steps
    per_step = args.train_batch_size * accumulation * args.world_size
    steps = ceil(num_batches / accumulation)
    in_epoch = min(num_samples, num_batches * args.train_batch_size * args.world_size)
    epochs, rest = divmod(state.global_step, steps)
    return float(epochs * in_epoch + min(rest * per_step, in_epoch))


def _any_rank(spent: bool, args: TrainingArguments) -> bool:
    """Return whether any rank says so: all must stop at the same step."""
    if args.world_size <= 1:
        return spent
    import torch

    total = torch.tensor(float(spent), device=args.device)
    torch.distributed.all_reduce(total)
    return bool(total.item())
